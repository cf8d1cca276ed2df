"""Waiting runs are planned without nodes that are in use, or were given away but are not shown by the mirror yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.queue_scene import MEMBER, in_queue, mirror_of_nodes, who_starts

from kajitori.cluster.objects import Pod
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.queue.queue import DOUBT_PATIENCE, Admitted, Queue
from kajitori.core import gang
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.watch import Added, Deleted

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
GPUS = {"requests": {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: "8"}}
TEMPLATE: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": GPUS}]}}


class Scene:
    """A cluster of nodes with eight GPUs each, and a queue. Tests change the mirror themselves."""

    def __init__(self, nodes: int) -> None:
        self.mirror = mirror_of_nodes(nodes)
        self.queue = Queue(self.mirror, ClusterView(self.mirror, PolicyFile(None)))

    def run(self, name: str, phase: Phase, nodes: str = "", *, version: str = "1", type: str = "batch") -> RunObject:
        """Make the mirror show a Run."""
        attempt = Attempt(number=1, nodes=nodes, template=template_text(TEMPLATE)) if nodes else None
        total = len(gang.node_by_rank(attempt)) if attempt else 1
        status = RunStatus(phase=phase, attempt=attempt, attempts=1 if nodes else 0, members=MemberCounts(total=total))
        meta = ObjectMeta(name=name, namespace="team", uid=f"uid-{name}", resource_version=version)
        shown = RunObject(metadata=meta, spec=msgspec.Raw(b'{"type": "%s"}' % type.encode()), status=status)
        self.mirror.runs["team", name] = shown
        self.mirror._notify(RUNS, "team", name)
        return shown

    def wait(self, name: str, ranks: int, priority: int = 0) -> None:
        run = self.run(name, Phase.QUEUED)
        request = GangRequest(
            f"team/{name}", MEMBER, tuple(range(ranks)), priority=priority, queued_at="2026-11-21T11:59:00Z"
        )
        self.queue.wait(in_queue(PendingRun(run, request)))

    def starts(self, at: timedelta = timedelta()) -> dict[str, tuple[str, ...]]:
        return who_starts(self.queue.plan((), NOW + at))


def test_nodes_of_a_starting_run_are_taken_before_its_pods_are_shown() -> None:
    """A new leader knows them from the Run alone: the previous leader was killed after it wrote the status."""
    scene = Scene(3)
    scene.run("first", Phase.STARTING, "n[0-1]")
    scene.wait("second", 2)
    assert scene.starts() == {}
    scene.wait("third", 1)
    assert scene.starts() == {"third": ("n2",)}


def test_nodes_of_a_running_run_are_taken_before_its_pods_are_shown() -> None:
    """Pods and Runs have separate watches, so Runs may be listed first."""
    scene = Scene(2)
    scene.run("first", Phase.RUNNING, "n0")
    scene.wait("second", 1)
    assert scene.starts() == {"second": ("n1",)}


def test_a_service_holds_the_nodes_of_members_that_are_replaced() -> None:
    """A batch run between two attempts does not hold its nodes."""
    scene = Scene(2)
    scene.run("web", Phase.RESTARTING, "n0", type="service")
    scene.run("bert", Phase.RESTARTING, "n1")
    scene.wait("second", 1)
    assert scene.starts() == {"second": ("n1",)}


def test_nodes_of_a_placement_are_taken_until_the_mirror_shows_it() -> None:
    scene = Scene(1)
    scene.wait("first", 1)
    assert scene.starts() == {"first": ("n0",)}
    scene.wait("second", 1)
    assert scene.starts() == {}
    scene.run("first", Phase.FAILED, "n0", version="2")
    assert scene.starts() == {"second": ("n0",)}


def test_a_status_that_lost_its_attempt_is_planned_anew() -> None:
    """The mirror showed the placement, then the status was damaged. The run does not wait for ever."""
    scene = Scene(1)
    scene.wait("first", 1)
    assert scene.starts() == {"first": ("n0",)}
    scene.run("first", Phase.QUEUED, version="7")
    scene.wait("first", 1)
    scene.run("first", Phase.QUEUED, version="7")
    assert scene.starts() == {"first": ("n0",)}


def test_nodes_stay_reserved_while_a_failed_write_may_have_succeeded() -> None:
    """Other runs get these nodes once the Run has changed without the placement, or enough time has passed."""
    for moved_on in (True, False):
        scene = Scene(1)
        scene.wait("first", 1)
        assert scene.starts()
        scene.queue.doubt(("team", "first"), NOW)
        scene.wait("second", 1)
        scene.wait("first", 1)
        cycle = scene.queue.plan((), NOW)
        assert not cycle.starts
        assert cycle.doubtful == (("team", "first"),)
        if moved_on:
            scene.run("first", Phase.QUEUED, version="2")
            assert scene.starts() == {"first": ("n0",)}
        else:
            assert scene.starts(2 * DOUBT_PATIENCE) == {"first": ("n0",)}


def test_a_waiting_run_with_an_unchanged_request_causes_no_cycle() -> None:
    """Otherwise each status message of one of a thousand waiting runs would cause another cycle."""
    scene = Scene(1)
    run = scene.run("first", Phase.QUEUED)

    def wait(ranks: int, version: str) -> bool:
        pending = PendingRun(run, GangRequest("team/first", MEMBER, tuple(range(ranks))))
        return scene.queue.wait(replace(in_queue(pending), version=version))

    assert wait(2, "1")
    assert not wait(2, "2")
    assert wait(1, "3")


def test_runs_in_reconciliation_keep_their_places_in_the_queue() -> None:
    """They are planned once they are reconciled; until then no run behind them starts on their nodes."""
    scene = Scene(1)
    scene.wait("first", 1)
    scene.wait("second", 1)
    cycle = scene.queue.plan({("team", "first")}, NOW)
    assert not cycle.starts
    assert cycle.busy == (("team", "first"),)
    assert [waiting.key[1] for waiting, _ in cycle.waits] == ["second"]
    assert scene.starts() == {"first": ("n0",)}


@pytest.mark.parametrize("look", ["full", "partial"])
def test_the_order_is_decided_when_a_start_slot_is_free(look: str) -> None:
    """Runs without a slot keep waiting, and a run of higher priority that arrives meanwhile starts first."""
    scene = Scene(3)
    for name in ("first", "second", "third"):
        scene.wait(name, 1)
    scene.queue.plan({("team", name) for name in ("first", "second", "third")}, NOW)  # the first cycle orders them
    plan = scene.queue.plan if look == "full" else scene.queue.plan_partially
    cycle = plan((), NOW, lambda _: 1)
    assert [waiting.key[1] for waiting, _ in cycle.starts] == ["first"]
    assert cycle.held_back == 0 and not cycle.waits
    assert not plan((), NOW, lambda priority: priority).starts
    scene.wait("urgent", 1, priority=1)
    cycle = plan((), NOW, lambda priority: priority)
    assert [waiting.key[1] for waiting, _ in cycle.starts] == ["urgent"]
    assert cycle.held_back == 0
    assert plan((), NOW, lambda _: 0).held_back == 0
    assert [waiting.key[1] for waiting, _ in plan((), NOW).starts] == ["second"]


def test_runs_admitted_by_an_older_policy_are_found() -> None:
    """Such a run gets no nodes until it is admitted again."""
    scene = Scene(2)
    scene.wait("old", 1)
    assert scene.queue.decided_before(0, 1) == set()
    assert scene.queue.decided_before(1, 1) == {("team", "old")}
    assert not scene.queue.plan(scene.queue.decided_before(1, 1), NOW).starts


def test_a_run_of_whole_nodes_is_admitted_again_when_nodes_change() -> None:
    """The smallest node determines how many GPUs and how much memory it requests."""
    life = gang.Run("batch", 1, gang.Limits(), RunStatus())
    whole = Admitted(life, parse_spec({"image": "x", "resources": {"wholeNode": True}}), cluster_version=1)
    assert whole.is_outdated(0, 2) and not whole.is_outdated(0, 1)
    assert not replace(whole, spec=parse_spec({"image": "x"})).is_outdated(0, 2)


def test_nodes_nominated_for_a_foreign_pod_are_taken() -> None:
    """The scheduler preempts Pods for a foreign Pod; these nodes look free, but are not free for runs."""
    scene = Scene(2)
    document = {
        "metadata": {"name": "urgent", "namespace": "team"},
        "spec": {"containers": [{"name": "x", "resources": GPUS}]},
        "status": {"phase": "Pending", "nominatedNodeName": "n0"},
    }
    waiting = msgspec.convert(document, Pod)
    scene.mirror._index(Added(waiting))
    scene.wait("ours", 2)
    assert scene.starts() == {}
    scene.mirror._index(Deleted(waiting))
    assert scene.starts() == {"ours": ("n0", "n1")}
