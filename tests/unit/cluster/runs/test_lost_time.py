"""The time of a Run as its status tells it, for reports of a server without history."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.lost_time import closed_parts, left_out, lifetime, marks_of, open_parts
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.suspicions import Stretch
from kajitori.core.spec.status_parts.usage import Holding, Segment, Usage, UsageTotal
from kajitori.core.usage.lost_time.slices import Mark
from kajitori.kube.metadata import ObjectMeta

NOON = 1_795_262_400
NOW = datetime.fromtimestamp(NOON + 600, UTC)


def at(minute: int) -> str:
    return f"2026-11-21T12:{minute:02}:00Z"


USAGE = Usage(
    first=7,
    last=9,
    open=[Holding(attempt=2, ranks="0-1", gpus=8, since=at(6), after="NodeLost")],
    closed=[
        Segment(id=9, attempt=1, ranks="0-1", gpus=8, since=at(0), started=at(1), until=at(5), cause="NodeLost"),
    ],
    totals=[UsageTotal(gpus=8, member_seconds=1000), UsageTotal(gpus=8, gpu_type="h100", member_seconds=5)],
)
STATUS = RunStatus(
    phase=Phase.RUNNING,
    usage=USAGE,
    stretches=[
        Stretch(attempt=1, kind="idle", since=at(2), until=at(3)),
        Stretch(attempt=2, kind="hung", since=at(7)),
    ],
)


def test_members_that_hold_nodes_count_until_now() -> None:
    (held,) = open_parts(STATUS, NOW)
    assert (held.attempt, held.members, held.gpus, held.after, held.started) == (2, 2, 8, "NodeLost", None)
    assert (held.since, held.until) == (NOON + 360, NOON + 600)
    assert open_parts(RunStatus(), NOW) == []


def test_time_of_which_a_status_has_only_the_sum_is_not_lost() -> None:
    """Its oldest segments had no room. Together with the closed ones it is all of the totals."""
    (closed,) = closed_parts(STATUS).values()
    (rest,) = left_out(STATUS)
    assert (closed.started, closed.cause, closed.member_seconds) == (NOON + 60, "NodeLost", 600)
    assert closed.member_seconds + rest.member_seconds == 1005
    assert left_out(RunStatus()) == []
    assert closed_parts(RunStatus()) == {}


def test_a_finding_that_stands_lasts_until_now() -> None:
    assert marks_of(STATUS, NOW) == (
        Mark(1, "idle", NOON + 120, NOON + 180),
        Mark(2, "hung", NOON + 420, NOON + 600),
    )


def test_a_run_lasts_until_its_end_or_now() -> None:
    meta = ObjectMeta(name="bert", namespace="vision", creation_timestamp=at(0))
    assert lifetime(RunObject(metadata=meta, status=STATUS), NOW) == (NOON, NOON + 600)
    ended = msgspec.structs.replace(STATUS, phase=Phase.FAILED, finished_at=at(8))
    assert lifetime(RunObject(metadata=meta, status=ended), NOW) == (NOON, NOON + 480)
