"""Faults of a stored status are found; the replacement of such a status is a failed run."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.spec.reading.status_check import damage, damaged
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Ran, template_text
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.spec.status_parts.node_request import NodeRequest
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy

ASKED = PreemptedBy(by="a/b", uid="u", ranks="0", since="2026-11-21T12:00:00Z")
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "8", "nvidia.com/gpu": "8"}}}]},
}


def attempt(**changes: Any) -> Attempt:
    given: dict[str, Any] = {"number": 2, "nodes": "gpu-[1-4]", "template": template_text(TEMPLATE)}
    return Attempt(**(given | changes))


def others(**changes: Any) -> Preempted:
    return Preempted.of([ASKED, PreemptedBy(by="a/b", uid="u", **changes)])


@pytest.mark.parametrize(
    "status",
    [
        RunStatus(),
        RunStatus(phase=Phase.RUNNING, attempt=attempt(), attempts=2, started_at="2026-11-21T12:00:00Z"),
        RunStatus(attempt=attempt(template=""), attempts=7),
        RunStatus(attempt=attempt(ranks="0,5-7"), attempts=2),
        RunStatus(preemption=Preempted.of([ASKED, ASKED])),
    ],
)
def test_a_status_that_kajitori_writes_has_no_faults(status: RunStatus) -> None:
    assert damage(status) == ""


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (RunStatus(restarts=-1), "restarts"),
        (RunStatus(resumes=2**60), "resumes"),
        (RunStatus(members=MemberCounts(running=-3)), "members.running"),
        (RunStatus(queued_at="yesterday"), "queued_at"),
        (RunStatus(ran=Ran(seconds=-1, until="")), "ran.seconds"),
        (RunStatus(ran=Ran(seconds=1, until="yesterday")), "ran.until"),
        (RunStatus(not_before="2026-11-21T12:00:00"), "not_before"),
        (RunStatus(preemption=Preempted(by="a/b", uid="u", attempts=-1)), "preemption.attempts"),
        (RunStatus(preemption=others(ranks="9-1")), "preemption.ranks"),
        (RunStatus(preemption=others(since="now", ranks="1")), "preemption.since"),
        (RunStatus(preemption=others()), "preemption.others"),
        (RunStatus(node_request=NodeRequest(pool="spot", nodes=-1, attempt=1)), "nodeRequest.nodes"),
        (RunStatus(node_request=NodeRequest(pool="spot", nodes=1, attempt=1, since="now")), "nodeRequest.since"),
        (RunStatus(started_at="9999-12-31T23:59:59Z"), "started_at"),
        (RunStatus(attempt=attempt(), attempts=1), "attempt.number"),
        (RunStatus(attempt=attempt(number=0), attempts=1), "attempt.number"),
        (RunStatus(attempt=attempt(port=70_000), attempts=2), "attempt.port"),
        (RunStatus(attempt=attempt(started_at="?"), attempts=2), "attempt.started_at"),
        (RunStatus(attempt=attempt(nodes=""), attempts=2), "attempt.nodes"),
        (RunStatus(attempt=attempt(nodes="gpu-[9-1"), attempts=2), "attempt.nodes"),
        (RunStatus(attempt=attempt(nodes="gpu-[1-999999999]"), attempts=2), "attempt.nodes"),
        (RunStatus(attempt=attempt(ranks="0-1"), attempts=2), "attempt.nodes"),
        (RunStatus(attempt=attempt(template="{"), attempts=2), "attempt.template"),
        (RunStatus(attempt=attempt(template="[]"), attempts=2), "attempt.template"),
        (RunStatus(attempt=attempt(template='{"spec": "x"}'), attempts=2), "attempt.template"),
        (
            RunStatus(attempt=attempt(template='{"spec": {"containers": [{"name": 3}]}}'), attempts=2),
            "attempt.template",
        ),
    ],
)
def test_inconsistent_fields_of_a_status_are_named(status: RunStatus, field: str) -> None:
    assert field in damage(status)


def test_an_invalid_amount_in_the_template_is_named() -> None:
    container = {"name": "main", "resources": {"requests": {"memory": "lots"}}}
    status = RunStatus(attempt=attempt(template=template_text({"spec": {"containers": [container]}})), attempts=2)
    assert "lots" in damage(status)


@pytest.mark.parametrize(
    ("document", "attempts", "resumes"),
    [
        ({"attempts": 3, "attempt": {"number": 7}, "resumes": 2}, 7, 2),
        ({"attempts": -3, "attempt": "x", "resumes": True}, 0, 0),
        ("nothing of ours", 0, 0),
    ],
)
def test_an_invalid_status_is_replaced_by_a_failed_one_with_its_counters(
    document: object, attempts: int, resumes: int
) -> None:
    status = damaged(document, "because " * 100)
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.STATUS_DAMAGED)
    assert (status.attempts, status.resumes) == (attempts, resumes)
    assert len(status.message) < 400 and damage(status) == ""
