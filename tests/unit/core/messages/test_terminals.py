"""Notices in a terminal: which are due, and how they look on a screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kajitori.core.formats.times import format_time
from kajitori.core.messages.terminals import due_notices, next_notice_at
from kajitori.core.policy.notifications import Notifications
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Setback
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.core.spec.status_parts.suspicions import IdleState

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)


def after(seconds: float) -> str:
    return format_time(NOW + timedelta(seconds=seconds))


def preempted(**fields: Any) -> RunStatus:
    asked = {"by": "nlp/gpt", "uid": "u1", "since": after(-5), **fields}
    return RunStatus(phase=Phase.RUNNING, preemption=Preempted(**asked))


def idle(**fields: Any) -> RunStatus:
    shown = {"since": after(-3600), "attempt": 1, "gpus": 2, "fewest": 2, "most": 2, "asked_at": after(-60), **fields}
    return RunStatus(phase=Phase.RUNNING, idle=IdleState(**shown))


CASES: dict[str, tuple[RunStatus, int | None, list[str]]] = {
    "nothing": (RunStatus(phase=Phase.RUNNING, started_at=after(-60)), None, []),
    "a preemption with notice": (
        preempted(ends_at=after(120)),
        None,
        ["this run is preempted in 2m (12:02:00 UTC), for nlp/gpt: save your work; it starts again later"],
    ),
    "a preemption at once": (
        preempted(),
        None,
        ["this run is preempted now, for nlp/gpt; it starts again when it gets nodes"],
    ),
    "a preemption of other members": (preempted(ranks="1-3"), None, []),
    "a drain": (
        RunStatus(
            phase=Phase.RESTARTING,
            setback=Setback(reason=Reason.DRAINED.value, message="moved away from n1", at=after(-1)),
        ),
        None,
        ["this run restarts on other nodes: moved away from n1"],
    ),
    "a time limit that is far": (RunStatus(phase=Phase.RUNNING, started_at=after(-60)), 36000, []),
    "a time limit that is near": (
        RunStatus(phase=Phase.RUNNING, started_at=after(-570)),
        600,
        ["this run reaches its time limit in 30s and ends: save your work"],
    ),
    "a question about idle GPUs": (
        idle(),
        None,
        ["nothing uses 2 GPUs of this run: still needed? kaji keep bert --until 18:00, else kaji park bert"],
    ),
    "a warning about idle GPUs": (
        idle(warned_at=after(-1), park_at=after(1800)),
        None,
        [
            "this run is parked in 30m, since nothing uses 2 GPUs: still needed? kaji keep bert --until 18:00, "
            "else kaji park bert"
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_notices_are_due_by_status_and_time(case: str) -> None:
    status, limit_seconds, texts = CASES[case]
    found = due_notices(status, "bert", 0, rules=Notifications(), now=NOW, time_limit_seconds=limit_seconds)
    assert [notice.text for notice in found] == texts


def test_only_the_time_limit_is_due_without_a_change_of_the_run() -> None:
    """A terminal looks at the run again at that time."""
    running = RunStatus(phase=Phase.RUNNING, started_at=after(0))
    assert next_notice_at(running, Notifications(), 600) == NOW + timedelta(seconds=540)
    assert next_notice_at(running, Notifications(), None) is None
