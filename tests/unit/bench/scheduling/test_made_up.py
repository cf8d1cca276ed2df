"""A generated log can be read by the replay and has the requested load."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.scheduling.made_up import main
from bench.scheduling.swf import DAY_SECONDS, read_log


def test_a_generated_log_is_readable_and_has_the_requested_load(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    assert main([str(log), "--nodes", "32", "--days", "5", "--load", "1.2"]) == 0
    jobs = read_log(log, 32)
    work = sum(job.seconds * job.nodes for job in jobs)
    assert work / (32 * 5 * DAY_SECONDS) == pytest.approx(1.2, rel=0.05)
    assert all(job.limit_seconds for job in jobs)
    assert max(job.nodes for job in jobs) <= 32
    assert len({job.user for job in jobs}) > 10
