"""Whose log is kept before Pods are deleted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.gangs import FAILED, PENDING, member

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState, NeedsNodes
from kajitori.core.kept_logs import logs_to_keep

WHOLE = DeleteMembers(5, attempt=1)


def kept(members: list[Member], *actions: Action, limit: int = 16) -> list[str]:
    return [each.pod for each in logs_to_keep(actions, members, limit)]


def test_rank_0_and_who_failed() -> None:
    members = [member(3, FAILED), member(2), member(1, FAILED), member(0)]
    assert kept(members, WHOLE) == ["bert-1-0", "bert-1-1", "bert-1-3"]
    assert kept(members, WHOLE, limit=2) == ["bert-1-0", "bert-1-1"]


def test_nobody_who_stays() -> None:
    """Other attempts, and members that ended where only the others are deleted."""
    members = [member(0, FAILED), member(0, FAILED, attempt=2), member(1, FAILED)]
    assert kept(members, DeleteMembers(5, attempt=2)) == ["bert-2-0"]
    assert kept(members, DeleteMembers(5, unfinished_only=True)) == []
    assert kept(members, DeleteMember("bert-1-1", "uid-1-1", 0)) == ["bert-1-1"]
    assert kept(members, NeedsNodes((0,), {}, frozenset())) == []


def test_nobody_who_cannot_be_asked() -> None:
    """Who never began, and who stands on a dead node."""
    assert kept([member(0, PENDING), replace(member(1, FAILED), node_ready=False)], WHOLE) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 3), st.sampled_from(list(MemberState))), unique_by=lambda m: m[:2]
    ),
    st.integers(1, 8),
)
def test_never_more_than_the_limit_and_rank_0_first(seen: list[tuple[int, int, MemberState]], limit: int) -> None:
    members = [member(rank, state, attempt=attempt) for rank, attempt, state in seen]
    chosen = logs_to_keep([DeleteMembers(5)], members, limit)
    assert len(chosen) <= limit
    assert len({each.uid for each in chosen}) == len(chosen)
    if any(each.rank == 0 and each.state is not PENDING for each in members):
        assert chosen[0].rank == 0
