"""Selection of the logs that are kept before Pods are deleted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.scenes.gangs import FAILED, PENDING, member

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState, NeedsNodes
from kajitori.core.logs.kept import logs_to_keep, without

WHOLE = DeleteMembers(5, attempt=1)


def kept(members: list[Member], *actions: Action, limit: int = 16) -> list[str]:
    return [member.pod for member in logs_to_keep(actions, members, limit)]


def test_logs_are_kept_of_rank_0_then_failed_members_then_others() -> None:
    members = [member(3, FAILED), member(2), member(1, FAILED), member(0)]
    assert kept(members, WHOLE) == ["bert-1-0", "bert-1-1", "bert-1-3", "bert-1-2"]
    assert kept(members, WHOLE, limit=3) == ["bert-1-0", "bert-1-1", "bert-1-3"]


def test_only_logs_of_members_that_are_deleted_are_kept() -> None:
    """Not those of other attempts, nor of ended members if only the others are deleted."""
    members = [member(0, FAILED), member(0, FAILED, attempt=2), member(1, FAILED)]
    assert kept(members, DeleteMembers(5, attempt=2)) == ["bert-2-0"]
    assert kept(members, DeleteMembers(5, unfinished_only=True)) == []
    assert kept(members, DeleteMember("bert-1-1", "uid-1-1", 0)) == ["bert-1-1"]
    assert kept(members, NeedsNodes((0,), {}, frozenset())) == []


def test_logs_that_cannot_be_read_are_not_waited_for() -> None:
    """A member never began, or is on a dead node and did not fail. The Pod of a failed one can wait."""
    dead = [replace(unreachable, node_ready=False) for unreachable in (member(1), member(2, FAILED))]
    assert kept([member(0, PENDING), *dead], WHOLE) == ["bert-1-2"]


def test_pods_that_wait_for_their_logs_are_not_deleted() -> None:
    """Members of the same run that still run are ended."""
    failed, runs = member(1, FAILED), member(0)
    left = {failed.uid}
    assert without([WHOLE], [failed, runs], left) == (replace(WHOLE, unfinished_only=True),)
    assert without([WHOLE], [failed], left) == ()
    assert without([WHOLE], [failed, runs], ()) == (WHOLE,)
    one_by_one = [DeleteMember(ending.pod, ending.uid, 0) for ending in (failed, runs)]
    assert without([*one_by_one, NeedsNodes((0,), {}, frozenset())], [failed, runs], left) == (
        one_by_one[1],
        NeedsNodes((0,), {}, frozenset()),
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 3), st.sampled_from(list(MemberState))), unique_by=lambda m: m[:2]
    ),
    st.integers(1, 8),
)
def test_at_most_the_limit_of_logs_is_kept_with_rank_0_first(
    seen: list[tuple[int, int, MemberState]], limit: int
) -> None:
    members = [member(rank, state, attempt=attempt) for rank, attempt, state in seen]
    chosen = logs_to_keep([DeleteMembers(5)], members, limit)
    assert len(chosen) <= limit
    assert len({log.uid for log in chosen}) == len(chosen)
    if any(log.rank == 0 and log.state is not PENDING for log in members):
        assert chosen[0].rank == 0
