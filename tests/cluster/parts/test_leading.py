"""One of two controllers leads; the other takes over when the first one stops or dies."""

from __future__ import annotations

import signal
import time

from tests.harness.commands import SHORT_ABSENT_SECONDS, SHORT_TERMS
from tests.harness.platform.installation import TOGETHER, Installation

from kajitori.monitoring.controller import LEADING

pytestmark = TOGETHER


def test_a_leader_that_was_stopped_for_a_while_writes_nothing(installed: Installation) -> None:
    """The leader is stopped for the time of two leases. The other controller takes over and acts. When the first one
    continues, it changes nothing."""
    gang = ("-n", "2", "--gpus", "8", "--gpu-type", "h100", "--cpus", "4", "busybox", "train")
    assert installed.kaji("run", "-d", "--name", "first", "--restarts", "3", *gang).returncode == 0
    installed.until(lambda: installed.phase("first") == "Running", "first runs")
    stopped = installed.leader()
    other = {"c1": "c2", "c2": "c1"}[stopped]
    process = installed.processes[stopped]
    process.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    assert installed.kaji("run", "-d", "--name", "second", *gang).returncode == 0
    installed.until(lambda: installed.leader() == other, "the other leads")
    installed.until(lambda: installed.phase("second") == "Running", "second runs")
    time.sleep(max(0.0, stopped_at + 2 * SHORT_TERMS.lease_seconds - time.monotonic()))
    before = installed.writes_of(stopped)
    failing = ("annotate", "pod", "-n", "vision", "first-1-1", "sim.kajitori.dev/exit-code=1")
    installed.kubectl(*failing)
    process.send_signal(signal.SIGCONT)
    installed.until(lambda: installed.attempt("first") == (2, "Running"), "first runs again")
    installed.until(lambda: f"{stopped} leads no more" in installed.log(stopped), "who was stopped knows it")
    assert installed.writes_of(stopped) == before
    assert installed.leader() == other


def test_the_other_controller_takes_over_when_the_leader_is_killed(installed: Installation) -> None:
    """SIGKILL: the other controller restarts no running run and starts what waits."""
    killed = installed.leader()
    other = {"c1": "c2", "c2": "c1"}[killed]
    assert (installed.figures(killed)[LEADING], installed.figures(other)[LEADING]) == (1, 0)
    installed.processes[killed].kill()
    installed.processes[killed].wait()
    installed.until(lambda: installed.leader() == other, "the other leads")
    gone = ("rm", "-f", "second")
    assert installed.kaji(*gone).returncode == 0
    assert installed.kaji("run", "-d", "--name", "third", "-n", "2", "--gpus", "8", "busybox", "train").returncode == 0
    installed.until(lambda: installed.phase("third") == "Running", "third runs")
    assert installed.attempt("first") == (2, "Running")
    figures = installed.figures(other)
    assert figures[LEADING] == 1 and figures["kajitori_controller_terms_total"] >= 1
    assert figures["kajitori_controller_attempts_total"] >= 1 and figures["kajitori_mirror_synced"] == 1
    assert figures["kajitori_controller_queue_wait_seconds_count"] >= 1
    assert installed.kaji("rm", "-f", "third").returncode == 0


def test_commands_say_so_when_no_controller_works(installed: Installation) -> None:
    """While all controllers are stopped, `kaji queue`, `explain`, `version` and `stop` say so, and the age of the lease
    grows."""
    stopped = installed.living_controllers()
    for controller in stopped:
        controller.send_signal(signal.SIGSTOP)
    try:
        assert (
            installed.kaji("run", "-d", "--name", "fourth", "-n", "2", "--gpus", "8", "busybox", "train").returncode
            == 0
        )
        installed.until(lambda: installed.lease_age() >= SHORT_ABSENT_SECONDS, "the lease is not renewed")
        told = installed.kaji("queue").stdout
        assert "no controller has renewed its lease" in told and "vision/fourth" in told
        assert '"expectedAt"' not in installed.kaji("queue", "-o", "json").stdout
        for command in (("explain", "fourth"), ("version",)):
            assert "runs do not start or stop until one is back" in installed.kaji(*command).stdout
        assert "note: no controller has renewed its lease" in installed.kaji("stop", "fourth").stderr
    finally:
        for controller in stopped:
            controller.send_signal(signal.SIGCONT)
    installed.until(lambda: installed.phase("fourth") == "Stopped", "it is stopped")
    installed.until(lambda: installed.lease_age() < 5, "the lease is renewed")
    installed.until(lambda: "no controller" not in installed.kaji("queue").stdout, "the queue no longer says so")
    assert installed.kaji("rm", "-f", "fourth").returncode == 0
