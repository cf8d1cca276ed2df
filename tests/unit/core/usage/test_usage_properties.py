"""The usage of runs equals the integral of their resources, whatever happens to runs, nodes and controllers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import FAILED, NOW, PENDING, RUNNING, SUCCEEDED

from kajitori.core import gang
from kajitori.core.formats.node_lists import compress, expand
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang import CreateMembers, DeleteMember, DeleteMembers, Limits, Member, NeedsNodes, Run
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.usage import Amounts, Segment, Usage, UsageTotal
from kajitori.core.usage import ledger
from kajitori.core.usage.ledger import amounts_key, members_of, nodes_of, open_attempt, open_ranks, seconds_between

NODES = [f"gpu-{number}" for number in range(6)]
AMOUNTS = Amounts(gpus=8, cpu_millis=4000, memory_bytes=2**30)
MINUTE = 60


def type_of(node: str) -> str:
    return "h100" if int(node[-1]) % 2 else "a100"


def left_out(usage: Usage, recorded: list[UsageTotal]) -> list[UsageTotal]:
    """Return the time of segments that did not fit into the status, computed as in history's statement."""
    known = {amounts_key(total): total.member_seconds for total in recorded}
    missing = ((total, total.member_seconds - known.get(amounts_key(total), 0)) for total in usage.totals)
    return [msgspec.structs.replace(total, member_seconds=seconds) for total, seconds in missing if seconds > 0]


def life(kind: str, size: int) -> Run:
    """Return a new run of this kind."""
    limits, status = Limits(restarts=3, start_pause_seconds=1), RunStatus()
    if kind == "sweep":
        return Run("batch", size + 3, limits, status, sweep=gang.Sweep(tuple(range(size + 3)), at_once=size))
    fewest = 1 if kind == "elastic" else None
    return Run("service" if kind == "service" else "batch", size, limits, status, fewest=fewest)


@dataclass
class World:
    """One run with its Pods, stored status and history, and its true usage, noted by the world itself."""

    run: Run
    chance: random.Random
    confirms: bool
    now: datetime = NOW
    pods: dict[tuple[int, int], Member] = field(default_factory=dict)
    held: dict[tuple[int, int], tuple[str, datetime]] = field(default_factory=dict)
    """Node and start time of each member (attempt, rank) that uses it now."""
    by_node: Counter[str] = field(default_factory=Counter)
    """Seconds of use by node."""
    rows: dict[int, int] = field(default_factory=dict)
    """History's rows: member-seconds by number of the segment."""
    shapes: dict[int, tuple[str, int, int, int]] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)

    def look(self, *, killed: bool) -> None:
        """Let a controller decide once; with `killed` it dies before it writes anything."""
        seen = tuple(self.pods.values())
        step = gang.next_step(self.run, seen, self.now)
        if killed:
            return
        self._store(step.status)
        to_make = {rank for action in step.actions if isinstance(action, CreateMembers) for rank in action.ranks}
        self._integrate(seen, step.status, to_make)
        for action in step.actions:
            if isinstance(action, NeedsNodes) and self.chance.random() < 0.8:
                self._place(step.status, action)
            elif isinstance(action, CreateMembers) and step.status.attempt is not None:
                placed = gang.node_by_rank(step.status.attempt)
                for rank in action.ranks:
                    self._create(rank, step.status.attempt.number, placed[rank])
            elif isinstance(action, DeleteMembers):
                for key, member in list(self.pods.items()):
                    if action.attempt in (None, member.attempt) and not (action.unfinished_only and member.is_over):
                        self.pods[key] = replace(member, terminating=True, grace_seconds=action.grace_seconds)
            elif isinstance(action, DeleteMember):
                for key, member in list(self.pods.items()):
                    if member.uid == action.uid:
                        self.pods[key] = replace(member, terminating=True, grace_seconds=action.grace_seconds)

    def _place(self, status: RunStatus, needs: NeedsNodes) -> None:
        least = needs.fewest or len(needs.ranks)
        ranks = needs.ranks[: self.chance.randint(least, len(needs.ranks))]
        nodes = compress([self.chance.choice(NODES) for _ in ranks])
        if self.run.sweep is not None:
            placed = gang.place_sweep(status, ranks, nodes, {}, self.now, launcher="array")
        else:
            placed = gang.place_on(status, ranks, nodes, {}, 0, self.run.replicas, self.now)
        placed = open_attempt(placed, AMOUNTS, type_of, self.now)
        assert placed.attempt is not None
        self._store(placed)
        for rank, node in placed.attempt.node_by_rank().items():
            self.held[placed.attempt.number, rank] = node, self.now

    def _create(self, rank: int, attempt: int, node: str) -> None:
        pod = Member(rank, attempt, f"r-{attempt}-{rank}", f"uid-{attempt}-{rank}", PENDING, node)
        self.pods.setdefault((attempt, rank), pod)

    def _store(self, status: RunStatus) -> None:
        self.run = replace(self.run, status=msgspec.json.decode(msgspec.json.encode(status), type=RunStatus))

    def _integrate(self, seen: tuple[Member, ...], status: RunStatus, to_make: set[int]) -> None:
        """Close the usage that this look saw to be over, in the world's own records."""
        by_key = {(member.attempt, member.rank): member for member in seen}
        current = status.attempt.number if status.attempt is not None else 0
        for key, (node, since) in list(self.held.items()):
            pod = by_key.get(key)
            if pod is not None and not pod.is_over and pod.node_ready:
                continue
            if pod is None and key[0] == current and key[1] in to_make:
                continue
            over = pod is not None and pod.is_over
            ended = parse_time(pod.ended_at) if over and pod is not None else self.now
            assert ended is not None
            self.by_node[node] += max(0, round((min(ended, self.now) - since).total_seconds()))
            del self.held[key]

    def happen(self) -> None:
        """Let random things happen to the Pods, unseen by any controller."""
        self.now += timedelta(seconds=self.chance.randint(0, MINUTE))
        for key, member in list(self.pods.items()):
            what = self.chance.random()
            ended = format_time(self.now - timedelta(seconds=self.chance.randint(0, 3)))
            if member.terminating and (what < 0.6 or member.is_over):
                del self.pods[key]
            elif member.is_over:
                continue
            elif what < 0.3 and member.state is PENDING:
                self.pods[key] = replace(member, state=RUNNING, started_at=format_time(self.now))
            elif what < 0.45:
                state, reason = (SUCCEEDED, Reason.NONE) if what < 0.4 else (FAILED, Reason.PROGRAM_FAILED)
                self.pods[key] = replace(member, state=state, reason=reason, ended_at=ended, exit_code=0)
            elif what < 0.5:
                self.pods[key] = replace(member, node_ready=False)
            elif what < 0.55:
                del self.pods[key]
            elif what < 0.6:
                self.pods[key] = replace(member, terminating=True)

    def record(self) -> None:
        """Write the stored status to history. If the answer is lost, it is written again later."""
        usage = self.run.status.usage
        if usage is None:
            return
        for segment in usage.closed:
            self.nodes[segment.id] = nodes_of(segment, self.run.status.attempt)
            self._row(segment, members_of(segment) * seconds_between(segment.since, segment.until), segment.id)
        for number, total in enumerate(left_out(usage, self._sums(usage))):
            self._row(total, total.member_seconds, -(usage.last * 10 + number))
        if self.confirms:
            self.run = replace(self.run, confirmed=usage.last)

    def _row(self, amounts: Amounts, seconds: int, number: int) -> None:
        self.rows.setdefault(number, seconds)
        self.shapes.setdefault(number, amounts_key(amounts))

    def recorded_by_node(self) -> Counter[str]:
        """Return the seconds by node of history's rows that name nodes."""
        found: Counter[str] = Counter()
        for number, nodes in self.nodes.items():
            names = expand(nodes)
            for node in names:
                found[node] += self.rows[number] // len(names)
        return found

    def by_type(self, seconds_by_node: Counter[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for node, seconds in seconds_by_node.items():
            found[type_of(node)] += seconds
        return +found

    def _sums(self, usage: Usage) -> list[UsageTotal]:
        sums: dict[tuple[str, int, int, int], int] = {}
        for number, seconds in self.rows.items():
            sums[self.shapes[number]] = sums.get(self.shapes[number], 0) + seconds
        return [
            UsageTotal(gpu_type=kind, gpus=gpus, cpu_millis=cpu, memory_bytes=memory, member_seconds=seconds)
            for (kind, gpus, cpu, memory), seconds in sums.items()
        ]


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(["gang", "elastic", "service", "sweep"]),
    size=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    rounds=st.integers(5, 60),
    confirms=st.booleans(),
    room=st.sampled_from([0, 2, 200]),
)
def test_recorded_usage_equals_the_true_usage(
    kind: str, size: int, seed: int, rounds: int, confirms: bool, room: int
) -> None:
    """Over random lives with killed controllers and a database with late or lost answers, and with room for different
    numbers of segments in the status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "CLOSED_COUNT", room)
        _live(random.Random(seed), kind, size, rounds, confirms, has_room=room == 200)


def _live(chance: random.Random, kind: str, size: int, rounds: int, confirms: bool, *, has_room: bool) -> None:
    world = World(life(kind, size), chance, confirms)
    for _ in range(rounds):
        if chance.random() < 0.6:
            world.happen()
        world.look(killed=chance.random() < 0.3)
        assert {(attempt, rank) for attempt, ranks in open_ranks(world.run.status.usage).items() for rank in ranks} == {
            *world.held
        }
        if chance.random() < 0.3:
            world.record()
        if chance.random() < 0.03:
            world.run = replace(world.run, stopped=True)
    world.run = replace(world.run, deleting=True)
    for _ in range(40):
        world.happen()
        world.look(killed=False)
        world.pods = {key: pod for key, pod in world.pods.items() if not pod.terminating}
    world.look(killed=False)
    world.record()
    world.record()
    assert not world.held
    usage = world.run.status.usage
    totals = usage.totals if usage is not None else []
    assert sum(total.member_seconds for total in totals) == sum(world.rows.values()) == world.by_node.total()
    kinds = Counter[str]()
    for number, seconds in world.rows.items():
        kinds[world.shapes[number][0]] += seconds
    assert +kinds == world.by_type(world.by_node)
    if has_room:
        assert +world.recorded_by_node() == +world.by_node


def test_a_segment_is_never_counted_again_after_its_confirmation() -> None:
    """Confirmed segments leave the status with its next write; the totals keep their time."""
    segment = Segment(id=5, attempt=1, ranks="0-3", nodes="n[0-3]", since="2026-11-21T12:00:00Z", until="", gpus=8)
    usage = Usage(first=5, last=5, closed=[segment], totals=[UsageTotal(gpus=8, member_seconds=4)])
    run = Run("batch", 4, Limits(), RunStatus(usage=usage), confirmed=5)
    status = gang.next_step(run, (), NOW).status
    assert status.usage is not None
    assert (status.usage.closed, status.usage.totals) == ([], usage.totals)
