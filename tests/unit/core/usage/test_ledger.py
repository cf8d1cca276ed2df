"""The usage ledger of a status at its edges: nothing to count, no attempt, too many segments, missing times."""

from __future__ import annotations

import pytest

from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.usage import Holding, Segment, Usage
from kajitori.core.usage.ledger import CLOSED_COUNT, CLOSED_LENGTH, detached, nodes_of, release, seconds_between

HELD = Holding(attempt=1, ranks="0-1", since="2026-11-23T10:00:00Z", gpus=8)


def test_a_run_without_a_ledger_stays_without_one() -> None:
    """It was planned before there was a ledger."""
    status = RunStatus(attempt=Attempt(number=1, nodes="gpu-[0-1]"))
    assert detached(status) is None
    assert release(status, {1: {0: "2026-11-23T11:00:00Z"}}) is status


def test_a_ledger_without_its_attempt_keeps_what_it_has() -> None:
    """The attempt of the status was lost, so nobody knows which nodes the members had."""
    usage = Usage(first=1, open=[HELD])
    assert detached(RunStatus(usage=usage)) == usage
    assert nodes_of(HELD, None) == nodes_of(HELD, Attempt(number=2, nodes="gpu-[0-1]")) == ""


def test_another_attempt_gives_members_no_nodes_and_releases_none() -> None:
    status = RunStatus(usage=Usage(first=1, open=[HELD]), attempt=Attempt(number=2, nodes="gpu-[0-1]"))
    assert release(status, {2: {0: "2026-11-23T11:00:00Z"}}) is status
    assert release(status, {1: {}}) is status
    assert detached(status) == status.usage


@pytest.mark.parametrize(("nodes", "kept"), [("", CLOSED_COUNT), ("n" * (CLOSED_LENGTH // 10), 10)])
def test_the_oldest_segments_go_if_they_take_too_much_room(nodes: str, kept: int) -> None:
    """A Run has to stay small. The time of the segments stays in the totals."""
    closed = [Segment(id=number, ranks="0", nodes=nodes, attempt=1) for number in range(1, CLOSED_COUNT + 1)]
    usage = Usage(first=1, last=CLOSED_COUNT, open=[HELD], closed=closed)
    status = RunStatus(usage=usage, attempt=Attempt(number=1, nodes="gpu-[0-1]"))
    after = release(status, {1: dict.fromkeys((0, 1), "2026-11-23T10:01:00Z")}).usage
    assert after is not None
    assert [segment.id for segment in after.closed] == list(range(CLOSED_COUNT + 2 - kept, CLOSED_COUNT + 2))
    assert [total.member_seconds for total in after.totals] == [120]


@pytest.mark.parametrize(
    ("since", "until", "seconds"),
    [
        ("2026-11-23T10:00:00Z", "2026-11-23T10:00:30Z", 30),
        ("2026-11-23T10:00:30Z", "2026-11-23T10:00:00Z", 0),
        ("", "2026-11-23T10:00:00Z", 0),
        ("2026-11-23T10:00:00Z", "", 0),
    ],
)
def test_a_time_that_is_missing_or_reversed_counts_for_nothing(since: str, until: str, seconds: int) -> None:
    assert seconds_between(since, until) == seconds
