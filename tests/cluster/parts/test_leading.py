"""Of two controllers one leads; the other is there for when it does not."""

from __future__ import annotations

import signal
import time

from tests.helpers.site import TOGETHER, Site

from kajitori.monitoring.controller import LEADING

pytestmark = TOGETHER


def test_one_leads_and_a_leader_that_was_stopped_writes_nothing(site: Site) -> None:
    """SIGSTOP for 25 s: the other takes over and acts; who continues leaves everything to it."""
    gang = ("-n", "2", "--gpus", "8", "--gpu-type", "h100", "--cpus", "4", "busybox", "train")
    assert site.kaji("run", "-d", "--name", "first", "--restarts", "3", *gang).returncode == 0
    site.until(lambda: site.phase("first") == "Running", "first runs")
    stopped = site.leader()
    other = {"c1": "c2", "c2": "c1"}[stopped]
    process = site.processes[stopped]
    process.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    assert site.kaji("run", "-d", "--name", "second", *gang).returncode == 0
    site.until(lambda: site.leader() == other, "the other leads")
    site.until(lambda: site.phase("second") == "Running", "second runs")
    while time.monotonic() - stopped_at < 25:
        time.sleep(0.2)
    before = site.writes_of(stopped)
    failing = ("annotate", "pod", "-n", "vision", "first-1-1", "sim.kajitori.dev/exit-code=1")
    site.kubectl(*failing)
    process.send_signal(signal.SIGCONT)
    site.until(lambda: site.attempt("first") == (2, "Running"), "first runs again")
    site.until(lambda: f"{stopped} leads no more" in site.log(stopped), "who was stopped knows it")
    assert site.writes_of(stopped) == before
    assert site.leader() == other


def test_a_leader_that_is_killed_is_followed(site: Site) -> None:
    """SIGKILL: the other takes over, restarts nothing that runs, and starts what waits."""
    killed = site.leader()
    other = {"c1": "c2", "c2": "c1"}[killed]
    assert (site.figures(killed)[LEADING], site.figures(other)[LEADING]) == (1, 0)
    site.processes[killed].kill()
    site.processes[killed].wait()
    site.until(lambda: site.leader() == other, "the other leads")
    gone = ("rm", "-f", "second")
    assert site.kaji(*gone).returncode == 0
    assert site.kaji("run", "-d", "--name", "third", "-n", "2", "--gpus", "8", "busybox", "train").returncode == 0
    site.until(lambda: site.phase("third") == "Running", "third runs")
    assert site.attempt("first") == (2, "Running")
    figures = site.figures(other)
    assert figures[LEADING] == 1 and figures["kajitori_controller_terms_total"] >= 1
    assert figures["kajitori_controller_attempts_total"] >= 1 and figures["kajitori_mirror_synced"] == 1
    assert figures["kajitori_controller_queue_wait_seconds_count"] >= 1
    assert site.kaji("rm", "-f", "third").returncode == 0


def test_without_any_controller_everybody_is_told(site: Site) -> None:
    """The last one is stopped: what lists the queue, explains, stops and measures says so, until it is back."""
    last = site.processes[site.leader()]
    last.send_signal(signal.SIGSTOP)
    try:
        assert site.kaji("run", "-d", "--name", "fourth", "-n", "2", "--gpus", "8", "busybox", "train").returncode == 0
        site.until(lambda: "no controller has renewed its lease" in site.kaji("queue").stdout, "the queue says so")
        assert "vision/fourth" in site.kaji("queue").stdout
        assert '"expectedAt"' not in site.kaji("queue", "-o", "json").stdout
        for command in (("explain", "fourth"), ("version",)):
            assert "runs do not start or stop until one is back" in site.kaji(*command).stdout
        assert "note: no controller has renewed its lease" in site.kaji("stop", "fourth").stderr
        assert site.lease_age() > 20
    finally:
        last.send_signal(signal.SIGCONT)
    site.until(lambda: site.phase("fourth") == "Stopped", "it is stopped")
    site.until(lambda: site.lease_age() < 5, "the lease is renewed")
    assert "no controller" not in site.kaji("queue").stdout
    assert site.kaji("rm", "-f", "fourth").returncode == 0
