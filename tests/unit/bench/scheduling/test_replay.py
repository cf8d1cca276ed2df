"""The replay: how a log is read, and what each policy does."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from bench.scheduling import replay
from bench.scheduling.replaying import DEFAULT, EASY, STRICT, WITHOUT_RESERVATION, Policy, Replay, figures
from bench.scheduling.swf import Changes, Job, read_log

HOUR = 3600.0

LOG = """\
; Computer: nobody's
; MaxNodes: 4

 2 1060 5 7200 4 -1 -1 4 7200 -1 1 7 3 -1 -1 -1 -1 -1
 1 1000 0 3600 3 -1 -1 3 7200 -1 1 7 3 -1 -1 -1 -1 -1
 3 1120 0 1800 1 -1 -1 1   -1 -1 1 8 3 -1 -1 -1 -1 -1
 4 1180 0   -1 -1 -1 -1 2 600 -1 5 8 3 -1 -1 -1 -1 -1
 5 1240 0   60 -1 -1 -1 9 600 -1 1 9 4 -1 -1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    return path


def job(number: int, submitted: float, seconds: float, nodes: int, limit: float | None = None, user: str = "u") -> Job:
    return Job(number, submitted, seconds, nodes, limit, user, "t")


def waits(policy: Policy, *jobs: Job, nodes: int = 4) -> list[float]:
    return Replay(jobs, nodes, policy).run().waits.tolist()


def test_a_log_is_read_by_submission_without_jobs_that_never_ran(log: Path) -> None:
    """A job has the nodes that it used, or else those that it requested, at most all nodes; -1 is unknown."""
    jobs = read_log(log, nodes=4)
    assert [(j.number, j.submitted, j.seconds, j.nodes, j.limit_seconds, j.user, j.team) for j in jobs] == [
        (0, 0.0, 3600.0, 3, 7200.0, "7", "3"),
        (1, 60.0, 7200.0, 4, 7200.0, "7", "3"),
        (2, 120.0, 1800.0, 1, None, "8", "3"),
        (3, 240.0, 60.0, 4, 600.0, "9", "4"),
    ]


def test_an_invalid_log_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text("; fine\nthis is no log\n")
    with pytest.raises(ValueError, match="line 2"):
        read_log(path, nodes=4)


def test_changes_stretch_compress_and_shuffle_a_log(log: Path) -> None:
    jobs = read_log(log, nodes=4)
    changed = Changes(days=200 / 86400, stretch=2, compress=4).of(jobs)
    assert [(j.submitted, j.seconds, j.limit_seconds) for j in changed] == [
        (0.0, 7200.0, 14400.0),
        (15.0, 14400.0, 14400.0),
        (30.0, 3600.0, None),
    ]
    assert all(j.limit_seconds is None for j in Changes(withhold=1.0).of(jobs))
    dealt = [{j.number: j.user for j in Changes(shuffle_users=True, seed=seed).of(jobs)} for seed in range(9)]
    assert all(sorted(users.values()) == ["7", "7", "8", "9"] for users in dealt)
    assert len({tuple(users.values()) for users in dealt}) > 1


def test_with_strict_fifo_no_job_passes_and_without_reservation_any() -> None:
    """One node is free while the second gang waits for four: the third job gets it, or does not."""
    jobs = job(0, 0, HOUR, 3), job(1, 60, HOUR, 4), job(2, 120, 3 * HOUR, 1)
    assert waits(STRICT, *jobs) == [0, HOUR - 60, 2 * HOUR - 120]
    assert waits(WITHOUT_RESERVATION, *jobs) == [0, 3 * HOUR + 120 - 60, 0]


def test_easy_lets_a_job_pass_that_ends_in_time_by_its_limit() -> None:
    jobs = [job(0, 0, HOUR, 3, HOUR), job(1, 60, HOUR, 4, HOUR)]
    short, long = job(2, 120, 600, 1, 600), job(2, 120, 600, 1, 2 * HOUR)
    assert waits(EASY, *jobs, short) == [0, HOUR - 60, 0]
    assert waits(EASY, *jobs, long) == [0, HOUR - 60, 2 * HOUR - 120]


def test_the_default_policy_predicts_run_times_from_earlier_jobs() -> None:
    """The same user's last such job took ten minutes, so this one may pass, whatever its limit is."""
    earlier = job(0, 0, 600, 1, 2 * HOUR, user="ann")
    jobs = (
        earlier,
        job(1, HOUR, HOUR, 3, HOUR),
        job(2, HOUR + 60, HOUR, 4, HOUR),
        job(3, HOUR + 120, 600, 1, 2 * HOUR, "ann"),
    )
    assert waits(DEFAULT, *jobs) == [0, 0, HOUR - 60, 0]
    assert waits(EASY, *jobs)[3] > HOUR


def test_figures_of_waits_and_slowdown() -> None:
    """Slowdown is bounded by ten seconds and is never below one; each user counts equally."""
    jobs = job(0, 0, 5, 4, user="a"), job(1, 0, 100, 1, user="b"), job(2, 100, 100, 1, user="b")
    found = figures(jobs, np.array([15.0, 0.0, 300.0]), nodes=4)
    assert found.mean_wait == pytest.approx(315 / 3 / 60)
    assert found.slowdown == pytest.approx((2 + 1 + 4) / 3)
    assert found.user_slowdown == pytest.approx((2 + 2.5) / 2)
    assert (found.large_wait, found.longest_hours) == (15 / 60, 300 / 3600)
    assert figures(jobs, np.array([15.0, 0.0, 300.0]), nodes=4, since=50.0).mean_wait == 5.0


def test_the_command_prints_figures_and_draws_plots(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plots = tmp_path / "plots"
    code = replay.main([str(log), "--nodes", "4", "--plots", str(plots)])
    output = capsys.readouterr().out
    assert "4 gangs, 3 users, 4 nodes" in output and "mean wait, times EASY's" in output
    assert code in (0, 1)
    drawn = {path.name: path.read_text() for path in plots.glob("*.svg")}
    assert len(drawn) == 8
    assert all(text.startswith("<svg") and "EASY" in text and "nan" not in text for text in drawn.values())
