"""The first release after which a gang can start, compared with a search over every release; and the room that a cycle
keeps up to date."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.placement.planner import GangRequest, MemberRequest, nodes_for, occupy_rows, room_of
from kajitori.core.placement.releases import Ending, Releases
from kajitori.core.placement.rooms import Rooms, Shape, distinct
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot

GIB = 1 << 30
NODES = 4
TABLE = NodeTable([NodeFacts(f"n{i}", 64_000, 512 * GIB, 8, 110, "h100", ready=i != 3) for i in range(NODES)])
MEMBERS = [
    MemberRequest(1000, GIB, gpus=8),
    MemberRequest(1000, GIB, gpus=3),
    MemberRequest(30_000, 200 * GIB, gpus=1),
    MemberRequest(1000, GIB, gpus=4, whole_node=True),
]

members = st.sampled_from(MEMBERS)
held = st.lists(st.tuples(members, st.integers(0, NODES - 1), st.sampled_from([10.0, 20.0, 30.0, 40.0])), max_size=9)


def shape_of(member: MemberRequest) -> Shape:
    eligible = nodes_for(TABLE, GangRequest("waits", member, (0,)))
    return Shape(member, eligible, eligible & TABLE.usable)


def running(gangs: list[tuple[MemberRequest, int, float]]) -> tuple[Snapshot, list[Ending]]:
    """Place the gangs that fit, one after the other."""
    state, endings = Snapshot.empty(TABLE), []
    for member, row, ends_at in gangs:
        if room_of(state, member, np.ones(NODES, dtype=bool))[row] > 0:
            occupy_rows(state, member, np.array([row]))
            endings.append(Ending(member, np.array([row]), ends_at))
    return state, endings


@settings(max_examples=80)
@given(held, members, st.integers(1, 12), st.lists(st.integers(0, 2), max_size=2))
def test_the_earliest_release_with_enough_room_is_found(
    gangs: list[tuple[MemberRequest, int, float]], member: MemberRequest, need: int, kept_on: list[int]
) -> None:
    """Nodes that are reserved for other runs do not count."""
    state, endings = running(gangs)
    shape, reserved = shape_of(member), Snapshot.empty(TABLE)
    for row in kept_on:
        occupy_rows(reserved, MEMBERS[1], np.array([row]))
    expected = None
    for moment in sorted({ending.ends_at for ending in endings if shape.candidates[ending.rows[0]]}):
        then = Snapshot.empty(TABLE)
        then.add(reserved)
        for ending in endings:
            if ending.ends_at > moment:
                occupy_rows(then, ending.member, ending.rows)
        if int(room_of(then, member, shape.candidates).sum()) >= need:
            expected = moment
            break
    missing = need - int(room_of(state, member, shape.candidates).sum())
    found = Releases(endings, shape, state.table).earliest(state, reserved, need, missing)
    assert (found[0] if found is not None else None) == expected
    if found is not None:
        assert np.array_equal(found[2], room_of(found[1], member, shape.candidates))


def test_a_member_that_ended_already_frees_no_room_again() -> None:
    """The member has ended, but the end of its run is not known yet."""
    whole, ended = MEMBERS[0], Ending(MEMBERS[0], np.array([0]), 10.0)
    state = Snapshot.empty(TABLE)
    occupy_rows(state, whole, np.array([1]))
    found = Releases([ended], shape_of(whole), state.table).earliest(state, None, 3, 1)
    assert found is None
    assert Releases([], shape_of(whole), state.table).earliest(state, None, 1, 1) is None


def test_with_equal_gangs_the_first_guess_is_right() -> None:
    """Trying each release would be too slow in a long queue."""
    facts = [NodeFacts(f"n{i}", 64_000, 512 * GIB, 8, 110, "h100") for i in range(64)]
    table, whole = NodeTable(facts), MEMBERS[0]
    state, everywhere = Snapshot.empty(table), np.ones(64, dtype=bool)
    occupy_rows(state, whole, np.arange(64))
    endings = [Ending(whole, np.array([i]), float(i)) for i in range(64)]
    releases = Releases(endings, Shape(whole, everywhere, everywhere), state.table)
    for need in (1, 2, 33, 64):
        found = releases.earliest(state, None, need, need)
        assert found is not None and found[0] == need - 1
        assert releases._probable_index(np.arange(64.0), need) == need - 1


@settings(max_examples=80)
@given(st.lists(st.tuples(members, st.integers(0, NODES - 1), st.booleans()), max_size=12))
def test_the_remembered_room_equals_that_of_the_state(steps: list[tuple[MemberRequest, int, bool]]) -> None:
    """For every shape, however long ago it was read; and `may_hold` never denies room that exists."""
    rooms, shapes = Rooms(Snapshot.empty(TABLE)), [shape_of(replace(member)) for member in MEMBERS]
    for number, (member, row, asks) in enumerate(steps):
        shape = shapes[number % len(shapes)]
        if asks:
            known, fresh = rooms.of(shape), room_of(rooms.state, shape.member, shape.candidates)
            assert np.array_equal(known.room, fresh) and known.total == fresh.sum()
            assert not rooms.may_hold(shape, known.total + 1)
        if room_of(rooms.state, member, shape_of(member).candidates)[row] > 0:
            occupy_rows(rooms.state, member, np.array([row]))
            rooms.note(np.array([row]))
        for shape_to_check in shapes:
            free = int(room_of(rooms.state, shape_to_check.member, shape_to_check.candidates).sum())
            assert rooms.may_hold(shape_to_check, free)


@given(st.lists(st.integers(0, 5), max_size=8))
def test_distinct_rows_are_sorted(rows: list[int]) -> None:
    assert distinct(np.array(rows, dtype=np.int64)).tolist() == sorted(set(rows))


def test_two_shapes_meet_if_both_could_use_a_usable_node() -> None:
    whole = shape_of(MEMBERS[0])
    others = [np.array(mask, dtype=bool) for mask in ([1, 0, 0, 0], [0, 0, 0, 1])]
    met = [whole.overlaps(Shape(MEMBERS[1], mask, mask)) for mask in others]
    assert met == [True, False]
