"""A node that does not answer is tolerated for the policy's patience, counted from when it fell silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.controllers.nodes.silent_nodes import SilentNodes
from kajitori.core import gang

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Cluster:
    """A mirror of one node; the test sets its clock."""

    def __init__(self, patience_seconds: float = 15) -> None:
        self.now = NOW
        self.node = SimpleNamespace(is_ready=True)
        self.shown_until = NOW
        self.nodes = {"n1": self.node}
        mirror = SimpleNamespace(nodes=self.nodes, shown_until=lambda now: min(now, self.shown_until))
        self.silent_nodes = SilentNodes(cast(Mirror, mirror), lambda: self.now, timedelta(seconds=patience_seconds))

    def show(self, *, ready: bool) -> None:
        self.node.is_ready = ready
        self.silent_nodes.note("n1")

    def left(self, seconds: float) -> float:
        """Return for how long a member on the node is still tolerated, this many seconds after the beginning."""
        self.now = self.shown_until = NOW + timedelta(seconds=seconds)
        return self._left()

    def _left(self) -> float:
        state, ready = gang.MemberState.RUNNING, self.node.is_ready
        member = gang.Member(rank=0, attempt=1, pod="bert-1-0", uid="u", state=state, node="n1", node_ready=ready)
        return self.silent_nodes.patience_left(member).total_seconds()

    def left_while_cut_off(self, seconds: float) -> float:
        """Return the same while the mirror gets no news."""
        self.now = NOW + timedelta(seconds=seconds)
        return self._left()


def test_patience_counts_from_when_the_node_fell_silent() -> None:
    cluster = Cluster()
    cluster.show(ready=False)
    assert [cluster.left(seconds) for seconds in (0, 10, 15, 60)] == [15, 5, 0, 0]


def test_a_repeated_report_of_silence_does_not_restart_the_patience() -> None:
    cluster = Cluster()
    cluster.show(ready=False)
    cluster.now += timedelta(seconds=10)
    cluster.show(ready=False)
    assert cluster.left(10) == 5


def test_patience_starts_again_after_the_node_answered() -> None:
    cluster = Cluster()
    cluster.show(ready=False)
    cluster.now += timedelta(seconds=14)
    cluster.show(ready=True)
    assert cluster.left(14) == 0  # the node answers
    cluster.show(ready=False)
    assert cluster.left(20) == 9


def test_time_without_news_from_the_api_server_is_not_silent_nodes() -> None:
    """While the mirror was cut off, it is unknown whether the node answered."""
    cluster = Cluster()
    cluster.show(ready=False)
    assert cluster.left_while_cut_off(60) == 15


def test_a_node_that_is_gone_is_forgotten() -> None:
    cluster = Cluster()
    cluster.show(ready=False)
    del cluster.nodes["n1"]
    cluster.silent_nodes.note("n1")
    assert cluster.left(1) == 0
