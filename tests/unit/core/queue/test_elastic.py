"""Elastic gangs: growth, the nodes kept for them, and properties that hold for any sequence of node failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core import gang
from kajitori.core.formats.node_lists import expand
from kajitori.core.gang import CreateMembers, DeleteMembers, Limits, Member, MemberState, NeedsNodes, Run, next_step
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, occupy, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.runs.elastic import Elastic
from kajitori.core.queue.elastic import Growable, GrowthTimer, larger_placement, place_on_kept_nodes
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Resize
from kajitori.core.spec.status_parts.preemption import Preempted

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
GIB = 1 << 30
WHOLE = MemberRequest(cpu_millis=1000, memory_bytes=GIB, gpus=8)
HALF = replace(WHOLE, gpus=4)


def cluster(nodes: int, *, taken: str = "", dead: str = "", racks: int = 1) -> Snapshot:
    """Return nodes n0, n1, … with eight GPUs each; `taken` and `dead` are numbers of nodes, separated by spaces."""
    facts = [
        NodeFacts(
            f"n{i}", 64_000, 512 * GIB, 8, 110, "h100", ready=str(i) not in dead.split(), domains=(f"r{i % racks}",)
        )
        for i in range(nodes)
    ]
    state = Snapshot.empty(NodeTable(facts))
    occupy(state, WHOLE, [f"n{i}" for i in taken.split()])
    return state


def elastic(fewest: int, most: int, *, key: str = "bert", member: MemberRequest = WHOLE, **more: Any) -> GangRequest:
    return replace(GangRequest(key, member, tuple(range(most)), fewest=fewest), **more)


def nodes(*numbers: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in numbers)


# ------------------------------------------------------------------------------------------------ room


def test_a_gang_grows_next_to_its_members() -> None:
    """Existing members keep their nodes and ranks; new ones are placed as near to them as possible."""
    state = cluster(8, taken="0 2 4", racks=2)
    found = larger_placement(state, elastic(2, 4), nodes(2, 4), [])
    assert found == Placement("bert", (0, 1, 2, 3), nodes(2, 4, 6, 1))


def test_a_gang_never_grows_beyond_its_replicas() -> None:
    found = larger_placement(cluster(8, taken="0 1"), elastic(2, 5), nodes(0, 1), [])
    assert found.ranks == (0, 1, 2, 3, 4)
    assert larger_placement(cluster(8, taken="0 1"), elastic(2, 3), nodes(0, 1), []).nodes == nodes(0, 1, 2)
    assert larger_placement(cluster(8, taken="0 1"), elastic(2, 2), nodes(0, 1), []).nodes == nodes(0, 1)
    assert larger_placement(cluster(3, taken="0 1"), elastic(2, 5), nodes(0, 1), []).nodes == nodes(0, 1, 2)
    assert larger_placement(cluster(2, taken="0 1"), elastic(2, 5), nodes(0, 1), []).nodes == nodes(0, 1)


def test_a_gang_grows_though_one_of_its_nodes_was_removed() -> None:
    """The members there are not reported as lost yet."""
    assert larger_placement(cluster(2, taken="0"), elastic(2, 3), nodes(0, 9), []).nodes == nodes(0, 9, 1)


WANTED: dict[str, tuple[GangRequest, int]] = {
    "no other run": (elastic(4, 4, key="bert"), 4),
    "a run that fits": (elastic(1, 1, key="other"), 2),
    "a run that does not fit yet": (elastic(4, 4, key="other"), 2),
    "a run that never fits": (elastic(5, 5, key="other"), 4),
    "a run of lower priority": (elastic(1, 1, key="other", priority=-100), 4),
    "a run of another GPU type": (elastic(1, 1, key="other", member=replace(WHOLE, gpu_type="a100")), 4),
}


@pytest.mark.parametrize("case", WANTED)
def test_a_gang_does_not_grow_into_nodes_that_a_waiting_run_could_use(case: str) -> None:
    """Unless that run has lower priority, or would not fit even into an empty cluster."""
    other, size = WANTED[case]
    assert len(larger_placement(cluster(4, taken="0 1"), elastic(2, 4), nodes(0, 1), [other]).nodes) == size


def test_a_gang_returns_to_its_kept_nodes_if_enough_are_left() -> None:
    state = cluster(6, taken="1", dead="2")
    kept = nodes(0, 1, 2, 3, 9)  # the last was removed
    assert place_on_kept_nodes(state, elastic(2, 8), kept) == Placement("bert", (0, 1), nodes(0, 3))
    assert place_on_kept_nodes(state, elastic(3, 8), kept) is None
    assert place_on_kept_nodes(cluster(2), elastic(1, 4, member=HALF), ["n0", "n0", "n0"]) == Placement(
        "bert", (0, 1), nodes(0, 0)
    )


def test_a_gang_grows_after_room_and_gang_have_existed_for_a_while() -> None:
    """The time begins anew if the room disappears in between. If several gangs could grow, the first one does."""
    rules = Elastic.model_validate({"growAfter": "10m", "minimumRunTime": "30m"})
    timer, free, full = GrowthTimer(), cluster(4, taken="0 1"), cluster(4, taken="0 1 2 3")

    def due(state: Snapshot, minutes: int, *gangs: Growable) -> list[str]:
        found = timer.due(state, gangs or (bert,), [], rules, NOW + timedelta(minutes=minutes))
        return [placement.key for placement in found]

    bert = Growable(elastic(1, 4), nodes(0), 3600)
    young = Growable(elastic(1, 4, key="young"), nodes(1), 1799)
    assert due(free, 0) == due(free, 9) == []
    assert due(free, 10) == ["bert"]
    assert due(full, 11) == due(free, 12) == due(free, 21) == []
    assert due(free, 22) == ["bert"]
    assert due(free, 30, young) == due(free, 60, young) == []
    assert due(free, 61, replace(young, ran_seconds=1800)) == ["young"]
    both = (Growable(elastic(1, 4), nodes(0), 3600), replace(young, ran_seconds=3600))
    assert due(free, 80, *both) == []
    assert due(free, 99, *both) == ["bert"]  # it takes all free nodes
    timer.forget("bert")
    assert due(free, 100, *both) == []
    assert due(free, 110, *both) == ["bert"]
    assert timer.due(free, both, [], Elastic(grow=False), NOW + timedelta(hours=9)) == ()


# ------------------------------------------------------------------------------------------------ life


def member(rank: int, node: str, *, attempt: int = 1, **more: Any) -> Member:
    pod = f"bert-{attempt}-{rank}"
    return replace(Member(rank, attempt, pod, pod, MemberState.RUNNING, node), **more)


def runs(size: int = 4, **status: Any) -> Run:
    attempt = Attempt(
        number=1, nodes=f"n[0-{size - 1}]", world_size=size, created=True, started_at="2026-11-22T11:00:00Z"
    )
    fresh = RunStatus(phase=Phase.RUNNING, attempt=attempt, attempts=1, queued_at="2026-11-22T10:00:00Z")
    return Run("batch", 8, Limits(restarts=3, grace_seconds=60), msgspec.structs.replace(fresh, **status), fewest=2)


def test_the_remaining_nodes_are_kept_after_a_loss() -> None:
    """If too few are left it waits for nodes like any other gang. So does a gang that is not elastic."""
    lost = [member(0, "n0"), member(1, "n1", node_ready=False), member(2, "n2"), member(3, "n3")]
    status = next_step(runs(), lost, NOW).status
    assert (status.phase, status.reason, status.restarts) == (Phase.RESTARTING, Reason.NODE_LOST, 0)
    assert status.resize == Resize(nodes="n[0,2-3]", fewest=2, since="2026-11-22T12:00:00Z")
    most_lost = [replace(member, node_ready=member.rank == 0) for member in lost]
    assert next_step(runs(), most_lost, NOW).status.resize is None
    assert next_step(replace(runs(), fewest=None), lost, NOW).status.resize is None


def test_a_drained_node_is_left_and_the_others_are_kept() -> None:
    drained = [member(0, "n0", node_draining=True), *(member(rank, f"n{rank}") for rank in (1, 2, 3))]
    answer = next_step(runs(), drained, NOW)
    assert answer.actions == (DeleteMembers(60, unfinished_only=True),)
    assert answer.status.resize is not None and expand(answer.status.resize.nodes) == ["n1", "n2", "n3"]


def test_growth_restarts_all_members_and_counts_as_no_setback() -> None:
    """Its run time counts in proportion to its size: an hour with half of its members is half an hour."""
    status = gang.grow(runs().status, [f"n{i}" for i in range(6)], 2, NOW)
    before = [member(rank, f"n{rank}") for rank in range(4)]
    answer = next_step(replace(runs(), status=status), before, NOW)
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.GROWS)
    assert answer.status.message == "goes on from its checkpoint with 6 members instead of 4"
    assert (answer.status.restarts, answer.status.interruptions) == (0, 0)
    assert answer.actions == (DeleteMembers(60, unfinished_only=True),)
    assert answer.status.ran is not None and answer.status.ran.seconds == 1800
    again = next_step(replace(runs(), status=answer.status), before, NOW)
    assert again.actions == answer.actions  # the next leader does the same
    (asks,) = next_step(replace(runs(), status=answer.status), [], NOW).actions
    assert isinstance(asks, NeedsNodes) and (asks.ranks, asks.fewest) == (tuple(range(8)), 2)


def test_kept_nodes_are_given_up_when_it_waits_starts_or_is_preempted() -> None:
    grows = gang.grow(runs().status, ["n0"], 1, NOW)
    asked = gang.preempt(grows, Preempted(by="team/urgent", uid="1", who="team/urgent"))
    assert asked.resize is None
    assert gang.keep_waiting(grows, Reason.WAITING_FOR_GPU, "needs 16 h100").resize is None
    assert gang.place_on(grows, range(1), "n0", {}, 1, 1, NOW).resize is None


def test_a_gang_that_ends_before_it_grows_has_ended() -> None:
    status = gang.grow(runs().status, ["n0"], 1, NOW)
    ended = [member(rank, f"n{rank}", state=MemberState.SUCCEEDED) for rank in range(4)]
    assert next_step(replace(runs(), status=status), ended, NOW).status.phase is Phase.SUCCEEDED


# ------------------------------------------------------------------------------------------------ any events


class World:
    """One elastic gang on eight nodes that fail, recover, and are used by others."""

    def __init__(self, fewest: int, most: int) -> None:
        self.fewest, self.most = fewest, most
        self.run = Run("batch", most, Limits(restarts=1), RunStatus(), fewest=fewest)
        self.members: list[Member] = []
        self.dead: set[int] = set()
        self.taken: set[int] = set()
        self.now = NOW
        self.sizes: list[int] = []

    def state(self) -> Snapshot:
        state = cluster(8, taken=" ".join(map(str, self.taken)), dead=" ".join(map(str, self.dead)))
        occupy(state, WHOLE, [member.node for member in self.members])
        return state

    def happens(self, what: str, number: int) -> None:
        name, holders = f"n{number}", {member.node for member in self.members}
        if what == "fails":
            self.dead.add(number)
        elif what == "recovers":
            self.dead.discard(number)
            self.members = [member for member in self.members if member.node != name or member.node_ready]
        elif what == "is taken" and name not in holders:
            self.taken.add(number)
        elif what == "is free":
            self.taken.discard(number)
        elif what == "grows" and self.run.status.phase is Phase.RUNNING and self.run.status.attempt is not None:
            request, has = elastic(self.fewest, self.most), expand(self.run.status.attempt.nodes)
            (*_, found) = (
                None,
                *GrowthTimer().due(self.state(), [Growable(request, tuple(has), 1.0)], [], AT_ONCE, self.now),
            )
            if found is not None:
                self.run = replace(self.run, status=gang.grow(self.run.status, found.nodes, self.fewest, self.now))
        self.members = [replace(member, node_ready=int(member.node[1:]) not in self.dead) for member in self.members]

    def settles(self) -> None:
        """Reconcile until nothing is left to do. Members end when they are deleted."""
        for _ in range(12):
            self.now += timedelta(seconds=1)
            self.members = [member for member in self.members if not (member.terminating and member.node_ready)]
            step = next_step(self.run, self.members, self.now)
            self.run = replace(self.run, status=step.status)
            for action in step.actions:
                self._does(action)

    def _does(self, action: gang.Action) -> None:
        status = self.run.status
        if isinstance(action, NeedsNodes):
            assert not any(member.blocks_restart for member in self.members)
            request = replace(elastic(self.fewest, self.most), ranks=action.ranks, fewest=action.fewest)
            found: Any = None
            if status.resize is not None:
                found = place_on_kept_nodes(self.state(), request, expand(status.resize.nodes))
            found = found or place(self.state(), request)
            if not isinstance(found, Placement):
                status = gang.keep_waiting(status, Reason.WAITING_FOR_GPU, "needs more")
            else:
                assert not {int(name[1:]) for name in found.nodes} & (self.dead | self.taken)
                assert max(Counter(found.nodes).values()) == 1
                names, size = ",".join(found.nodes), len(found.ranks)
                status = gang.place_on(status, found.ranks, names, {}, 1, size, self.now)
            self.run = replace(self.run, status=status)
        elif isinstance(action, CreateMembers):
            assert status.attempt is not None
            where = gang.node_by_rank(status.attempt)
            assert action.ranks == tuple(range(len(where))) == tuple(range(status.attempt.world_size))
            self.sizes.append(len(where))
            number = status.attempt.number
            made = [member(rank, where[rank], attempt=number) for rank in action.ranks]
            self.members += [replace(member, node_ready=int(member.node[1:]) not in self.dead) for member in made]
        elif isinstance(action, DeleteMembers):
            self.members = [replace(member, terminating=True) for member in self.members]


AT_ONCE = Elastic.model_validate({"growAfter": "0s", "minimumRunTime": "0s"})
EVENTS = st.tuples(st.sampled_from(["fails", "recovers", "is taken", "is free", "grows"]), st.integers(0, 7))


@settings(max_examples=80)
@given(st.integers(1, 4), st.integers(1, 8), st.lists(EVENTS, max_size=12))
def test_an_elastic_gang_runs_whenever_its_fewest_members_fit(
    fewest: int, more: int, events: list[tuple[str, int]]
) -> None:
    """Always complete, within its limits of size, and without using up a restart, whatever happens to its nodes."""
    world = World(fewest, fewest + more)
    world.settles()
    for event in events:
        world.happens(*event)
        world.settles()
    assert all(fewest <= size <= fewest + more for size in world.sizes)
    assert world.run.status.restarts == 0
    room = 8 - len(world.dead | world.taken)
    alive = [member for member in world.members if member.node_ready]
    if room >= fewest:
        assert world.run.status.phase is Phase.RUNNING
        assert len(alive) == world.sizes[-1] == world.run.status.members.running
    else:
        assert world.run.status.phase is Phase.QUEUED and not alive
