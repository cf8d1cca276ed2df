"""Invariants of a sweep for any sequence of events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import FAILED, NOW, PENDING, RUNNING, SUCCEEDED, after, member

from kajitori.core import gang
from kajitori.core.formats.node_lists import compress, compress_ranks
from kajitori.core.gang import (
    CreateMembers,
    DeleteMember,
    DeleteMembers,
    Limits,
    Member,
    MemberState,
    NeedsNodes,
    Run,
    Sweep,
    next_step,
)
from kajitori.core.gang.status.preemptions import preemptions_of
from kajitori.core.gang.sweep_ledger import Ledger
from kajitori.core.spec.reading.status_check import damage
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted


@dataclass
class World:
    """An API server and its kubelets, as far as a sweep observes them."""

    run: Run
    now: datetime = NOW
    pods: dict[str, Member] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    ended: dict[int, list[MemberState]] = field(default_factory=dict)
    """The end of each ended member that was not requeued."""
    asked: int = 0
    """How often some of its members were preempted."""

    def look(self, *, room: int, cut_off: int | None = None) -> None:
        """Run one step of a controller; `cut_off` is the number of writes after which it dies."""
        answer = next_step(self.run, list(self.pods.values()), self.now)
        writes = 0

        def dies() -> bool:
            nonlocal writes
            writes += 1
            return cut_off is not None and writes > cut_off

        if dies():
            return
        self.run = after(self.run, answer)
        for action in answer.actions:
            match action:
                case CreateMembers(ranks):
                    self._create(ranks, dies)
                case DeleteMember(pod):
                    if dies():
                        return
                    self._delete(pod)
                case DeleteMembers():
                    for pod in [pod.pod for pod in self.pods.values() if not pod.is_over]:
                        self._delete(pod)
                case NeedsNodes(ranks) if room > 0:
                    if dies():
                        return
                    some = ranks[:room]
                    status = gang.place_sweep(
                        self.run.status, some, compress(f"n{i % 5}" for i in some), {}, self.now, launcher="array"
                    )
                    self.run = replace(self.run, status=status)
                    self._create(some, dies)

    def _create(self, ranks: Iterable[int], dies: Any) -> None:
        attempt = self.run.status.attempt
        assert attempt is not None
        for rank in ranks:
            if dies():
                return
            name = f"bert-{attempt.number}-{rank}"
            if name in self.pods:
                continue
            assert name not in self.made, f"{name} is made twice"
            self.made.add(name)
            self.pods[name] = member(rank, PENDING, attempt=attempt.number, node=f"n{rank % 5}")
        self.run = replace(
            self.run,
            status=msgspec.structs.replace(self.run.status, attempt=msgspec.structs.replace(attempt, created=True)),
        )

    def _delete(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        if pod.is_over or pod.state is PENDING:
            del self.pods[name]
        else:
            self.pods[name] = replace(pod, terminating=True)

    def ask(self, place: int) -> None:
        """Preempt some of the members, maybe beside earlier preemptions, or withdraw a preemption."""
        status, alive = self.run.status, sorted({pod.rank for pod in self.pods.values() if not pod.is_over})
        waiting = [preemption for preemption in preemptions_of(status) if self.run.preemptor_waits(preemption)]
        if waiting and place % 2:
            self.run = replace(self.run, withdrawn=self.run.withdrawn | {waiting[place % len(waiting)].waiting})
        elif alive and not status.phase.is_final:
            ranks = compress_ranks(alive[place % len(alive) :][: 1 + place % 3])
            asked = Preempted(by=f"vision/{place}", uid=f"u{self.asked}", ranks=ranks, attempt=status.attempts)
            self.asked += 1
            self.run = replace(
                self.run, status=gang.preempt(status, msgspec.structs.replace(asked, others=tuple(waiting)))
            )

    def happen(self, what: str, place: int) -> None:
        """Change one of the Pods."""
        if what == "ask":
            self.ask(place)
        if not self.pods:
            return
        name = sorted(self.pods)[place % len(self.pods)]
        pod = self.pods[name]
        if pod.terminating and what != "gone":
            self.pods.pop(name)
            return
        if pod.is_over:
            return
        match what:
            case "run":
                self.pods[name] = replace(pod, state=RUNNING)
            case "succeed":
                self.pods[name] = replace(pod, state=SUCCEEDED, exit_code=0)
            case "fail":
                self.pods[name] = replace(pod, state=FAILED, reason=Reason.PROGRAM_FAILED, exit_code=1)
            case "oom":
                self.pods[name] = replace(pod, state=FAILED, reason=Reason.OUT_OF_MEMORY, exit_code=137)
            case "evict":
                self.pods[name] = replace(pod, state=FAILED, reason=Reason.EVICTED)
            case "refuse":
                self.pods[name] = replace(pod, state=FAILED, reason=Reason.KUBELET_REFUSED)
            case "gone":
                del self.pods[name]
                attempt = self.run.status.attempt
                if attempt is not None and attempt.number == pod.attempt and not attempt.created:
                    self.made.discard(name)  # the controller that completes the attempt cannot know that it existed


EVENTS = st.tuples(
    st.sampled_from(["run", "succeed", "fail", "oom", "evict", "refuse", "gone", "nothing", "ask"]), st.integers(0, 20)
)
LOOKS = st.tuples(st.lists(EVENTS, max_size=4), st.integers(0, 6), st.none() | st.integers(0, 4), st.integers(0, 20))


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2), st.lists(LOOKS, max_size=25))
def test_every_member_ends_exactly_once_whatever_happens(
    count: int, at_once: int, restarts: int, looks: list[tuple[list[tuple[str, int]], int, int | None, int]]
) -> None:
    """Pods fail and vanish, and controllers die between any two writes.

    No name is created twice, no more than the limit run, ended members stay ended, and once failures stop every member
    ends.
    """
    at_once = min(at_once, count)
    limits = Limits(restarts=restarts, start_pause_seconds=1, start_pause_max_seconds=4)
    world = World(Run("batch", count, limits, RunStatus(), sweep=Sweep(tuple(range(count)), at_once)))

    def look(room: int, cut_off: int | None = None) -> None:
        before = Ledger.of(world.run.status.sweep)
        world.look(room=room, cut_off=cut_off)
        after = Ledger.of(world.run.status.sweep)
        assert before.succeeded <= after.succeeded
        assert before.failed <= after.failed
        assert not after.succeeded & after.failed
        assert sum(1 for pod in world.pods.values() if not pod.is_over) <= at_once
        assert all(times <= restarts for times in after.restarts.values())
        assert damage(world.run.status) == ""
        counts = world.run.status.members
        assert counts.succeeded + counts.failed + counts.running + counts.pending <= count

    for events, room, cut_off, seconds in looks:
        for event in events:
            world.happen(*event)
        world.now += timedelta(seconds=seconds)
        look(room, cut_off)
    world.run = replace(
        world.run, withdrawn=frozenset(preemption.waiting for preemption in preemptions_of(world.run.status))
    )
    for _ in range(60 + 4 * count):
        for name in sorted(world.pods):
            if name in world.pods:
                world.happen("succeed", sorted(world.pods).index(name))
        world.now += timedelta(seconds=5)
        look(9)
        if world.run.status.phase.is_final and not world.pods:
            break
    status = world.run.status
    assert status.phase in (Phase.SUCCEEDED, Phase.FAILED)
    assert status.members.succeeded + status.members.failed == count
    assert not world.pods
