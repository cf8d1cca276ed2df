"""The choice of victims: as few as possible, with the least lost work, each needed, and none if it does not help."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, occupy_rows, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.queue.victims import RunningGang, choose_victims, without

GIB = 1 << 30
MINUTE = 60.0
ONE = MemberRequest(1000, GIB, gpus=1)
WHOLE = MemberRequest(1000, GIB, gpus=8, whole_node=True)


def snapshot(count: int) -> Snapshot:
    facts = [NodeFacts(f"n{number}", 64_000, 512 * GIB, 8, 110, "h100") for number in range(count)]
    return Snapshot.empty(NodeTable(facts))


def runs(state: Snapshot, key: str, *rows: int, member: MemberRequest = WHOLE, **more: Any) -> RunningGang:
    """A gang with a member on each of these nodes."""
    gang = RunningGang(key, "team", -100, True, member, np.array(rows, dtype=np.int64), **more)
    occupy_rows(state, member, gang.rows)
    return gang


def waits(members: int, member: MemberRequest = WHOLE) -> GangRequest:
    return GangRequest("team/urgent", member, tuple(range(members)))


def keys(victims: tuple[RunningGang, ...]) -> list[str]:
    return [victim.key for victim in victims]


def fits(state: Snapshot, waiting: GangRequest, gone: tuple[RunningGang, ...] = ()) -> bool:
    return isinstance(place(without(state, gone), waiting), Placement)


def test_the_fewest_gangs_are_preempted() -> None:
    state = snapshot(6)
    small = [runs(state, f"small-{row}", row) for row in range(3)]
    large = runs(state, "large", 3, 4, 5, unsaved_seconds=60 * MINUTE)
    assert keys(choose_victims(state, waits(3), [*small, large])) == ["large"]


def test_among_equally_few_those_that_lose_least_are_preempted() -> None:
    state = snapshot(5)
    losses = [50, 5, 1, 30, 2]
    gangs = [runs(state, f"lost-{lost}", row, unsaved_seconds=lost * MINUTE) for row, lost in enumerate(losses)]
    assert keys(choose_victims(state, waits(1), gangs)) == ["lost-1"]
    assert sorted(keys(choose_victims(state, waits(3), gangs))) == ["lost-1", "lost-2", "lost-5"]


def test_among_equal_losses_the_smallest_gang_is_preempted() -> None:
    """Freeing more nodes than needed helps no run."""
    state = snapshot(8)
    gangs = [runs(state, "six", *range(6), unsaved_seconds=1.0), runs(state, "two", 6, 7, unsaved_seconds=1.0)]
    assert keys(choose_victims(state, waits(2), gangs)) == ["two"]
    assert keys(choose_victims(state, waits(3), gangs)) == ["six"]


def test_next_to_a_needed_victim_the_smallest_loss_is_chosen() -> None:
    """Even if the largest loss among the victims is the same either way."""
    state = snapshot(4)
    large = runs(state, "large", 0, 1, unsaved_seconds=60 * MINUTE)
    small = [runs(state, f"lost-{lost}", row, unsaved_seconds=lost * MINUTE) for row, lost in ((2, 30), (3, 5))]
    assert sorted(keys(choose_victims(state, waits(3), [large, *small]))) == ["large", "lost-5"]


def test_no_gang_is_preempted_in_vain() -> None:
    """No gang if there is room already, or if even preempting all of them would not be enough."""
    state = snapshot(3)
    gangs = [runs(state, "a", 0), runs(state, "b", 1)]
    assert choose_victims(state, waits(1), gangs) == ()
    assert keys(choose_victims(state, waits(3), gangs)) == ["a", "b"]
    assert choose_victims(state, waits(4), gangs) == ()
    assert choose_victims(state, waits(3), gangs[:1]) == ()


def test_a_shared_node_is_emptied_completely_or_not_at_all() -> None:
    """The node with the fewest gangs in the way is emptied."""
    state = snapshot(2)
    crowd = [runs(state, f"crowd-{n}", 0, member=ONE) for n in range(8)]
    halves = [runs(state, f"half-{n}", 1, member=replace(ONE, gpus=4), unsaved_seconds=MINUTE) for n in range(2)]
    assert sorted(keys(choose_victims(state, waits(1), [*crowd, *halves]))) == ["half-0", "half-1"]
    assert len(choose_victims(state, waits(3, ONE), crowd)) == 3
    one_stays = choose_victims(state, waits(1), [*crowd[:7], *halves])
    assert sorted(keys(one_stays)) == ["half-0", "half-1"]


def test_a_gang_is_preempted_as_a_whole_though_only_a_part_helps() -> None:
    """A victim counts by the room that it frees on nodes that the waiting run can use."""
    state = snapshot(4)
    state.table.usable[2:] = False
    wide = runs(state, "wide", 1, 2, 3)
    narrow = runs(state, "narrow", 0, unsaved_seconds=1.0)
    assert keys(choose_victims(state, waits(1), [wide, narrow])) == ["wide"]
    assert sorted(keys(choose_victims(state, waits(2), [wide, narrow]))) == ["narrow", "wide"]
    assert choose_victims(state, waits(3), [wide, narrow]) == ()


def test_the_end_of_an_unlimited_member_frees_its_whole_node() -> None:
    """A run without a memory limit shares no node, so its end frees the whole node."""
    state = snapshot(1)
    greedy = runs(state, "greedy", 0, member=replace(ONE, unlimited=True))
    assert not fits(state, waits(1, ONE))
    assert keys(choose_victims(state, waits(8, ONE), [greedy])) == ["greedy"]


gang_rows = st.lists(st.integers(0, 5), min_size=1, max_size=4)
clusters = st.lists(st.tuples(gang_rows, st.sampled_from([1, 2, 4, 8]), st.integers(0, 9)), min_size=1, max_size=9)


def crowd_of(drawn: list[tuple[list[int], int, int]]) -> tuple[Snapshot, list[RunningGang]]:
    """Return six nodes with those of these gangs that fit."""
    state = snapshot(6)
    gangs = []
    for number, (rows, gpus, unsaved) in enumerate(drawn):
        member = replace(ONE, gpus=gpus)
        trial = state.copy()
        occupy_rows(trial, member, np.array(rows))
        if (trial.used <= trial.table.total).all():
            gangs.append(runs(state, f"gang-{number}", *rows, member=member, unsaved_seconds=float(unsaved)))
    return state, gangs


@given(drawn=clusters, members=st.integers(1, 8), gpus=st.sampled_from([1, 2, 3, 8]), whole=st.booleans())
def test_the_victims_are_enough_and_each_is_needed(
    drawn: list[tuple[list[int], int, int]], members: int, gpus: int, whole: bool
) -> None:
    """The waiting gang fits once all have ended, and does not if any one stays. None is chosen if that does not
    help."""
    state, gangs = crowd_of(drawn)
    waiting = waits(members, replace(ONE, gpus=gpus, whole_node=whole))
    victims = choose_victims(state, waiting, gangs)
    assert bool(victims) == (not fits(state, waiting) and fits(state, waiting, tuple(gangs)))
    if victims:
        assert fits(state, waiting, victims)
        assert not any(fits(state, waiting, victims[:i] + victims[i + 1 :]) for i in range(len(victims)))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=7), st.integers(1, 12))
def test_no_smaller_or_cheaper_set_of_victims_would_do(sizes: list[tuple[int, int]], members: int) -> None:
    """Compared with all possible sets: there are as few victims as possible, and the largest loss is as small as
    possible."""
    state = snapshot(sum(size for size, _ in sizes))
    gangs, at = [], 0
    for number, (size, unsaved) in enumerate(sizes):
        gangs.append(runs(state, f"gang-{number}", *range(at, at + size), unsaved_seconds=float(unsaved)))
        at += size
    victims = choose_victims(state, waits(members), gangs)
    if not victims:
        assert members > at
        return
    would_do = [
        some
        for count in range(1, len(victims) + 1)
        for some in combinations(gangs, count)
        if sum(gang.rows.size for gang in some) >= members
    ]
    assert min(map(len, would_do)) == len(victims)
    assert max(v.unsaved_seconds for v in victims) == min(
        max(gang.unsaved_seconds for gang in some) for some in would_do if len(some) == len(victims)
    )
