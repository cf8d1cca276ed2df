"""The agent's round, step by step, with fake engines; test_counting.py has real ones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from kajitori.agent.counting import Counting
from kajitori.agent.pods import NoPodsYet
from kajitori.agent.policy import TrafficSection
from kajitori.agent.state import LedgerFile
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import Count, Counter, CounterName, Kind, Pod
from kajitori.entrypoints.agent import Rounds
from kajitori.errors import Unavailable

OUT = Kind("internet", "out")
CLASSES = TrafficPolicy().address_classes
DAY = 86_400.0


class FakeEngine:
    """An engine for interfaces that begin with its name; a test sets its counters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pods: list[str] = []
        self.counters: dict[str, Counter] = {}
        self.missing = 0
        self.done: list[str] = []
        self.was_changed = False
        self.has_anything = True

    def takes(self, pod: Pod) -> bool:
        return pod.interface.startswith(self.name)

    def count(self, pods: Mapping[str, Pod], classes: Classes) -> bool:
        self.pods = sorted(pods)
        self.done.append("count")
        return self.was_changed

    def read(self) -> dict[str, Counter]:
        self.done.append("read")
        return dict(self.counters)

    def forget(self, names: Collection[str]) -> None:
        self.done.append("forget")
        for name in names:
            self.counters.pop(name, None)

    def stop(self) -> bool:
        self.done.append("stop")
        return self.has_anything

    def uninstall(self) -> bool:
        self.done.append("uninstall")
        return True

    def counts(self, uid: str, size: int) -> None:
        self.counters[str(CounterName(uid, 0, OUT))] = Counter(self.name, Count(size, 1))


class Node:
    """A node's Pods and engines, an agent, and a clock."""

    def __init__(self, folder: Path, former: Collection[str] = (), *, reports: bool = False) -> None:
        self.now = 1_000_000.0
        self.here: dict[str, Pod] = {}
        self.trouble: Exception | None = None
        self.veth, self.sets = FakeEngine("veth"), FakeEngine("ipvl")
        self.former = [FakeEngine(name) for name in former]
        engines = [self.veth, self.sets]
        self.file = LedgerFile(folder)
        self.counting = Counting(engines, self, self.file, lambda: self.now, self.former, reports=reports)

    def stamp(self) -> object:
        return None

    def pods(self) -> dict[str, Pod]:
        if self.trouble is not None:
            raise self.trouble
        return self.here

    def pod(self, uid: str, interface: str = "veth0", *addresses: str) -> None:
        self.here[uid] = Pod(
            uid=uid, namespace="vision", name=uid, run=uid, run_uid=f"r-{uid}", interface=interface, addresses=addresses
        )

    def round(self, keep_seconds: float = DAY) -> None:
        self.counting.round(CLASSES, keep_seconds)

    def run(self, uid: str) -> int | None:
        """Return the bytes of a Pod's run; None if it was dropped."""
        account = self.file.load().runs.get(f"r-{uid}")
        return account.totals.get("internet.out", Count()).bytes if account is not None else None


def test_failures_are_logged_at_once_and_then_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failed round is repeated each second; a new error, and its end, are logged at once."""
    node, now = Node(tmp_path), [0.0]
    rounds = Rounds(node.counting, TrafficSection(None), clock=lambda: now[0])
    said = []
    with caplog.at_level(logging.INFO, "kajitori.agent"):
        for second, trouble in enumerate([None, *["no folder"] * 61, "no relay", None, None]):
            now[0], node.trouble = float(second), OSError(trouble) if trouble else None
            caplog.clear()
            assert rounds.run_once() is (trouble is None)
            said += [(second, record.message.rpartition(": ")[2]) for record in caplog.records]
    assert said == [(1, "no folder"), (61, "no folder"), (62, "no relay"), (63, "traffic is counted again")]


def test_an_agent_that_waits_for_the_source_of_pods_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That is no error: `kaji node` may start later. It is not healthy meanwhile."""
    node, now = Node(tmp_path), [0.0]
    rounds = Rounds(node.counting, TrafficSection(None), clock=lambda: now[0])
    with caplog.at_level(logging.INFO, "kajitori.agent"):
        for second in range(0, 3600, 60):
            now[0], node.trouble = float(second), NoPodsYet("--pods: there is no folder /x")
            assert not rounds.run_once()
        assert not rounds.are_well()
        node.trouble = None
        assert rounds.run_once() and rounds.are_well()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "waiting for this node's Pods: --pods: there is no folder /x"),
        ("INFO", "traffic is counted again"),
    ]


def test_an_agent_is_healthy_while_it_reads(tmp_path: Path) -> None:
    """Four intervals without a read are too many; a change of the wall clock does not matter."""
    node, now = Node(tmp_path), [100.0]
    rounds = Rounds(node.counting, TrafficSection(None), clock=lambda: now[0])
    assert not rounds.are_well()
    rounds.run_once()
    for wall in (0.0, 1e12):
        node.now = wall
        assert rounds.are_well()
    now[0] += 59
    node.trouble = OSError("away")
    rounds.run_once()
    assert rounds.are_well()
    now[0] += 1
    assert not rounds.are_well()


def test_each_pod_is_counted_by_the_first_engine_that_takes_it(tmp_path: Path) -> None:
    """Pods with a network that no engine takes are reported as uncounted, Pods without one are not."""
    node = Node(tmp_path)
    node.pod("a", "veth1", "10.0.0.1")
    node.pod("b", "ipvl1", "10.0.0.2")
    node.pod("c", "mac1")
    node.pod("d", "", "10.0.0.4")
    node.pod("e", "")
    node.round()
    assert (node.veth.pods, node.sets.pods) == (["a"], ["b"])
    assert node.counting.health.uncounted_pods == 2
    del node.here["c"], node.here["d"]
    node.veth.missing = 1
    node.round()
    assert node.counting.health.uncounted_pods == 1


def test_counters_of_ended_pods_are_read_saved_then_deleted(tmp_path: Path) -> None:
    """In this order, so that nothing is lost if the agent is killed in between."""
    node = Node(tmp_path)
    node.pod("a")
    node.veth.counts("a", 100)
    node.round()
    node.veth.counts("a", 130)
    del node.here["a"]
    node.veth.done.clear()
    node.round()
    assert node.veth.done == ["count", "read", "forget"]
    assert (node.run("a"), node.veth.counters) == (130, {})
    assert node.counting.health.read_at == node.now


def test_a_round_that_fails_is_counted_and_loses_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.pod("a")
    node.veth.counts("a", 100)
    node.trouble = OSError("away")
    with pytest.raises(OSError, match="away"):
        node.round()
    assert (node.counting.health.failures, node.veth.done) == (1, [])
    node.trouble = Unavailable("the kernel refuses")
    with pytest.raises(Unavailable):
        node.round()
    node.trouble = None
    node.round()
    assert (node.counting.health.failures, node.run("a")) == (2, 100)


def test_changes_by_other_programs_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Repaired rules by engine, and counters that were deleted or reset; nothing if nothing changed."""
    caplog.set_level(logging.WARNING)
    node = Node(tmp_path)
    for uid in ("a", "b"):
        node.pod(uid)
        node.veth.counts(uid, 100)
    node.round()
    health = node.counting.health
    assert (health.repairs, health.counters_lost, caplog.text) == (0, 0, "")
    node.sets.was_changed = True
    node.veth.counters.pop(str(CounterName("a", 0, OUT)))
    node.veth.counts("b", 40)
    node.round()
    assert (health.repairs, health.counters_lost) == (1, 2)
    assert "(ipvl)" in caplog.text and "another program deleted 1 counters and reset 1" in caplog.text
    assert (node.run("a"), node.run("b")) == (100, 140)


def test_the_warning_says_how_long_a_lost_counter_had_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a restart the agent does not know when the counters were last read, and names no time."""
    caplog.set_level(logging.WARNING)
    node = Node(tmp_path)
    node.pod("a")
    node.veth.counts("a", 100)
    node.round()
    node.now += 15
    node.veth.counters.clear()
    node.round()
    assert "what they counted in the last 15 s is lost" in caplog.text
    node.veth.counts("a", 100)
    node.round()
    caplog.clear()
    restarted = Node(tmp_path)
    restarted.pod("a")
    restarted.round()
    assert "what they counted since they were last read is lost" in caplog.text


def test_a_former_engine_is_stopped_read_and_removed_once(tmp_path: Path) -> None:
    """One without rules is left alone."""
    node = Node(tmp_path, ["old", "older"])
    old, older = node.former
    older.has_anything = False
    node.pod("a")
    old.counts("a", 70)
    node.veth.counts("a", 5)
    node.round()
    assert (old.done, older.done) == (["stop", "read", "uninstall"], ["stop"])
    node.round()
    assert (len(old.done), len(older.done)) == (3, 1)


@pytest.mark.parametrize("reports", [False, True])
def test_a_run_is_dropped_when_it_is_old_and_was_reported(tmp_path: Path, reports: bool) -> None:
    """Without reports only its age counts; otherwise an unreported run stays, however old it is."""
    node = Node(tmp_path, reports=reports)
    node.pod("a")
    node.veth.counts("a", 100)
    node.round()
    del node.here["a"]
    node.now += 60
    node.round()
    node.now += DAY + 1
    node.round()
    assert node.run("a") == (100 if reports else None)
    node.counting.health.reported_at = node.now
    node.round()
    assert node.run("a") is None


def test_a_ledger_keeps_its_identity(tmp_path: Path) -> None:
    """It differs only for a new ledger, so servers know which totals to add."""
    first = Node(tmp_path)
    first.pod("a")
    first.round()
    assert len(first.counting.ledger.life) == 16
    assert Node(tmp_path).counting.ledger.life == first.counting.ledger.life
    assert Node(tmp_path / "other").counting.ledger.life != first.counting.ledger.life
