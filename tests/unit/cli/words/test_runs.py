"""Durations, amounts and command lines in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.cli.fake_web_api import NOW, view

from kajitori.cli.printing.output import bar
from kajitori.cli.words import runs as run_words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "Less than a second"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "About a minute"),
        (119, "About a minute"),
        (120, "2 minutes"),
        (3599, "59 minutes"),
        (3600, "About an hour"),
        (2 * 3600, "2 hours"),
        (47 * 3600, "47 hours"),
        (48 * 3600, "2 days"),
        (14 * 86400, "2 weeks"),
        (60 * 86400, "2 months"),
        (800 * 86400, "2 years"),
    ],
)
def test_durations_are_worded_as_in_docker_ps(seconds: float, text: str) -> None:
    assert run_words.human_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e10))
def test_every_duration_has_words(seconds: float) -> None:
    assert run_words.human_duration(seconds)


@pytest.mark.parametrize(
    ("replicas", "memory", "text"),
    [
        (1, None, ""),
        (1, {"peakBytes": 3 * 2**29, "limitBytes": 2**31}, "1.5Gi of 2Gi"),
        (4, {"peakBytes": 41 * 2**30, "rank": 3}, "41Gi (rank 3)"),
    ],
)
def test_a_memory_peak_is_shown_with_its_limit_or_rank(replicas: int, memory: dict[str, int] | None, text: str) -> None:
    assert run_words.peak_words({"spec": {"replicas": replicas}, "status": {"memory": memory}}) == text


@pytest.mark.parametrize(
    ("phase", "status", "text"),
    [
        ("Failed", {"exitCode": 137}, "Failed (137)"),
        ("Running", {"stuck": {"since": "2026-11-21T10:00:00Z"}, "idle": {"gpus": 8}}, "Stuck?"),
        ("Running", {"idle": {"gpus": 8}}, "Idle"),
        ("Running", {"health": {"status": "healthy"}}, "Running (healthy)"),
        ("Running", {"health": {"status": "starting"}}, "Running (health: starting)"),
        ("Running", {"health": {"status": "unhealthy"}, "idle": {"gpus": 8}}, "Unhealthy"),
        ("Restarting", {"health": {"status": "starting"}}, "Restarting"),
        ("Restarting", {"stuck": {"since": "2026-11-21T10:00:00Z"}}, "Restarting"),
    ],
)
def test_the_status_is_worded_as_on_the_web_page(phase: str, status: dict[str, Any], text: str) -> None:
    assert run_words.status_words(view("bert", phase, status=status)) == text


@pytest.mark.parametrize(
    ("total", "health", "text"),
    [
        (1, None, ""),
        (1, {"status": "starting"}, "starting"),
        (4, {"status": "starting", "healthy": 3, "starting": 1}, "starting: 3 of 4 are healthy"),
        (1, {"status": "unhealthy", "unhealthy": 1, "ranks": "0", "output": "refused"}, "unhealthy"),
        (4, {"status": "unhealthy", "unhealthy": 2, "ranks": "1,3", "output": "x"}, "unhealthy: ranks 1,3 of 4"),
        (4, {"status": "unhealthy", "unhealthy": 1, "ranks": "3"}, "unhealthy: rank 3 of 4"),
    ],
)
def test_health_is_worded_by_rank(total: int, health: dict[str, Any] | None, text: str) -> None:
    shown = view("web", "Running", status={"health": health, "members": {"total": total}})
    assert run_words.health_words(shown, NOW) == text


def test_an_unknown_age_is_empty() -> None:
    """The time is missing or invalid."""
    now = run_words.moment("2026-11-21T12:00:00Z")
    assert now is not None
    assert run_words.age("", now) == ""
    assert run_words.age(None, now) == ""
    assert run_words.age("soon", now) == ""
    assert run_words.age("2026-11-21T12:00:05Z", now) == "Less than a second"


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(1, 40))
@example(500, 1, 1, 3)
@example(1, 500, 1, 3)
@example(1, 1, 1, 1)
def test_bars_have_their_width_and_show_every_kind(used: int, broken: int, free: int, width: int) -> None:
    """With at least three columns each kind of GPU that exists is visible."""
    total = used + broken + free
    text = bar(used, broken, total, width)
    assert len(text) == (width if total else 0)
    if width >= 3:
        assert ("█" in text) == (used > 0)
        assert ("▒" in text) == (broken > 0)
        assert ("░" in text) == (free > 0)


@pytest.mark.parametrize("spec", [{"replicas": -3}, {"replicas": 0}, {"array": "9-1"}])
def test_an_invalid_number_of_members_is_not_shown(spec: dict[str, Any]) -> None:
    """Such a run came from kubectl and is refused; its numbers are not used in calculations."""
    run = view("bert", "Failed", reason="Refused", spec={"image": "x", "resources": {"gpu": 8}, **spec})
    run["status"]["members"] = {"total": 0}
    assert run_words.member_words(run) == "-"
    assert run_words.gpu_words(run) == "8"
    assert run_words.members_asked_for(run) == 1
    assert run_words.gpu_words(run | {"spec": {"resources": {"gpu": -8}}}) == ""


def test_a_sweep_is_described_with_its_members() -> None:
    """Each member has its own restarts, so the sum is shown without a limit."""
    counts = {"total": 10, "running": 2, "succeeded": 4, "failed": 1}
    run = view("grid", spec={"array": "0-9%2", "restarts": 1}, status={"restarts": 12, "members": counts})
    assert run_words.restart_words(run) == "12"
    assert run_words.sweep_words(run) == "5 of 10 ended, 1 of them failed; 2 running"
    assert run_words.member_words(run) == "5/10 ended"
    assert (run_words.members_asked_for(run), run_words.members_at_once(run)) == (10, 2)
    run["spec"] |= {"array": "0-9", "resources": {"gpu": 8, "gpuType": "h100"}}
    assert run_words.gpu_words(run) == "16 h100"  # the GPUs that it has, not those of all ten members
    counts |= {"running": 0, "pending": 3}
    assert run_words.gpu_words(run) == "24 h100"
    counts |= {"pending": 0}
    assert run_words.gpu_words(run) == "80 h100"
    unreadable = view("grid", spec={"array": "9-0"})
    assert (run_words.members_asked_for(unreadable), run_words.members_at_once(unreadable)) == (1, 1)


@pytest.mark.parametrize(
    ("phase", "world_size", "counts", "members", "gpus"),
    [
        ("Queued", 0, {"total": 32}, "0 of 8-32", "64-256 h100"),
        ("Starting", 12, {"total": 12, "running": 3}, "3/12 of 8-32", "96 h100"),
        ("Running", 12, {"total": 12, "running": 12}, "12 of 8-32", "96 h100"),
        ("Restarting", 12, {"total": 32}, "0 of 8-32", "64-256 h100"),
        ("Succeeded", 12, {"total": 12, "succeeded": 12}, "12 of 8-32", "96 h100"),
    ],
)
def test_an_elastic_gang_is_shown_with_its_present_and_possible_size(
    phase: str, world_size: int, counts: dict[str, int], members: str, gpus: str
) -> None:
    """The GPUs are those it has or, while it waits, those it requests."""
    spec = {"replicas": 32, "minReplicas": 8, "resources": {"gpu": 8, "gpuType": "h100"}, "image": "x"}
    status = {"phase": phase, "members": counts, "attempt": {"number": 1, "worldSize": world_size}}
    run = {"name": "bert", "spec": spec, "status": status}
    assert run_words.member_words(run) == members
    assert run_words.gpu_words(run) == gpus


def test_a_run_without_a_start_time_ran_for_zero_seconds() -> None:
    """It ended before it was seen running. A run that never started shows no time."""
    status = {"finishedAt": "2026-11-21T10:00:00Z", "attempts": 1}
    assert run_words.time_words(view("a", "Failed", status=status), NOW) == "0s"
    assert run_words.time_words(view("a", "Stopped", status={**status, "attempts": 0}), NOW) == ""


def test_the_reason_of_a_run_that_waits_names_the_first_other_run() -> None:
    after = [{"run": "done", "metAt": "2026-11-21T12:00:00Z"}, {"run": "a"}, {"run": "b"}]
    run = view("train", status={"reason": "WaitingForRun", "after": after})
    assert run_words.reason_words(run) == "WaitingForRun a and 1 more"
