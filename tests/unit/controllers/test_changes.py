"""Changes in the cluster decide which runs are reconciled, and whether the queue is planned again."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import msgspec
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.mirror.mirror import CATCH_UP_SECONDS
from kajitori.cluster.run_object import RUNS
from kajitori.controllers.changes import Changes
from kajitori.controllers.nodes.silent_nodes import SilentNodes
from kajitori.controllers.queue.trigger import CycleTrigger
from kajitori.controllers.runs.orphans import Orphans
from kajitori.controllers.runs.statuses import Statuses
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.kube.resources import NODES

BERT, GPT = ("team", "bert"), ("team", "gpt")


class Scene(QueueScene):
    """A cluster of two nodes. `bert` runs on n0, and `gpt` waits."""

    def __init__(self) -> None:
        super().__init__(2)
        for node in self.mirror.nodes:
            self.cluster.note_node(node)
        self.runs("bert", "n0", since=ago(minutes=5))
        self.show("gpt", RunStatus(phase=Phase.QUEUED, queued_at=ago(minutes=1)))
        self.now = NOW
        self.seen: list[str] = []
        statuses = cast(Statuses, SimpleNamespace(note_seen=lambda key, name: self.seen.append(name)))
        self.work, self.trigger = WorkQueue(lambda: self.now), CycleTrigger()
        silent_nodes, orphans = SilentNodes(self.mirror, lambda: self.now), Orphans(self.mirror._client, self.mirror)
        clock = lambda: self.now  # noqa: E731
        self.changes = Changes(
            self.mirror, self.cluster, self.work, self.trigger, statuses, silent_nodes, orphans, clock
        )
        self.end = self.changes.follow()

    def taken(self) -> tuple[set[Key], bool]:
        """Return the runs to reconcile since the last call, and whether the queue is planned again."""
        planned = self.trigger.is_set
        self.trigger.clear()
        return self.work.take(), planned


async def test_a_changed_node_wakes_its_runs_and_the_queue() -> None:
    """A heartbeat does not, because it changes nothing for planning."""
    scene = Scene()
    node = scene.mirror.nodes["n0"]
    scene.mirror.nodes["n0"] = msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
    )
    scene.mirror._notify(NODES, "", "n0")
    assert scene.taken() == ({BERT}, True)
    scene.mirror._notify(NODES, "", "n0")
    assert scene.taken() == (set(), False)


async def test_a_changed_pod_wakes_its_run_and_the_queue() -> None:
    scene = Scene()
    scene.lose_pod("bert-1-0")
    assert (scene.taken(), scene.seen) == (({BERT}, True), ["bert-1-0"])


async def test_a_pod_whose_run_is_gone_is_queued_by_its_uid() -> None:
    scene = Scene()
    run = scene.mirror.runs[BERT]
    scene.lose("bert")
    scene.taken()
    scene.pod(run, 0, "n0")
    assert scene.taken() == ({("team", run.metadata.uid)}, True)


async def test_network_policies_wake_a_run_and_their_first_list_all() -> None:
    scene = Scene()
    scene.changes.note_network(GPT)
    assert scene.taken() == ({GPT}, False)
    scene.changes.note_network(None)
    assert scene.taken() == ({BERT, GPT}, False)


async def test_a_request_for_nodes_wakes_the_queue_and_a_known_run() -> None:
    scene = Scene()
    scene.changes.note_request(GPT)
    assert scene.taken() == ({GPT}, True)
    scene.changes.note_request(("team", "gone"))
    assert scene.taken() == (set(), True)


async def test_all_runs_are_reconciled_after_a_broken_watch_works_again() -> None:
    """Not before the mirror shows everything that was missed."""
    scene = Scene()
    for callback in scene.mirror._on_health:
        callback()
    assert list(scene.changes.due) == [NOW + timedelta(seconds=CATCH_UP_SECONDS)]
    scene.changes.catch_up()
    assert scene.taken() == (set(), False)
    scene.now += timedelta(seconds=CATCH_UP_SECONDS)
    scene.changes.catch_up()
    assert scene.taken() == ({BERT, GPT}, False)
    assert list(scene.changes.due) == []


async def test_nothing_is_queued_once_following_has_ended() -> None:
    scene = Scene()
    scene.end()
    scene.lose_pod("bert-1-0")
    assert scene.taken() == (set(), False)


async def test_a_changed_run_wakes_the_runs_that_wait_for_it() -> None:
    """A chain of 10,000 runs is not reconciled because one of them changed."""
    scene = Scene()
    scene.show("eval", RunStatus(phase=Phase.QUEUED), after=[{"run": "bert"}])
    scene.show("far", RunStatus(phase=Phase.QUEUED), after=[{"run": "eval"}])
    for name in ("eval", "far", "bert"):
        scene.mirror._notify(RUNS, "team", name)
    scene.taken()
    scene.show("bert", RunStatus(phase=Phase.SUCCEEDED, attempts=1))
    scene.mirror._notify(RUNS, "team", "bert")
    assert scene.taken()[0] == {BERT, ("team", "eval")}
