"""The index of runs on nodes follows the mirror: after any changes it equals a new index."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.queue.simulation import frozen_cluster
from kajitori.cluster.run_object import RUNS
from kajitori.cluster.view import ClusterView
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Resize

RUN_NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = [
    "waits",
    "starts",
    "runs",
    "keeps nodes",
    "finishes",
    "is deleted",
    "loses its status",
    "loses a Pod",
    "a Pod ends",
    "a Pod is asked to end",
    "the node is cordoned",
    "the node is gone",
]
STEPS = st.lists(st.tuples(RUN_NAMES, st.sampled_from(CHANGES), st.booleans()), max_size=15)
NODE = {"a": "n[0-1]", "b": "n[1-2]", "c": "n3"}


def perform(scene: QueueScene, name: str, change: str) -> None:
    """Change one run, one of its Pods or a node in the mirror."""
    run = scene.mirror.runs.get(("team", name))
    pod = f"{name}-1-0"
    node = f"n{RUN_NAMES.elements.index(name)}"  # type: ignore[attr-defined]
    match change:
        case "waits":
            scene.waits(name, 1)
        case "starts":
            scene.runs(name, NODE[name], since=ago(minutes=1), phase=Phase.STARTING)
        case "runs":
            scene.runs(name, NODE[name], since=ago(minutes=1))
        case "keeps nodes" if run is not None and run.status is not None:
            resize = Resize(nodes="n[0-3]", fewest=1)
            scene.show(name, msgspec.structs.replace(run.status, phase=Phase.RESTARTING, resize=resize))
        case "finishes":
            scene.finished(name, seconds=10, until=ago(minutes=1))
        case "is deleted" if run is not None:
            scene.lose(name)
        case "loses its status" if run is not None:
            scene.mirror.runs["team", name] = msgspec.structs.replace(run, status=None)
            scene.mirror._notify(RUNS, "team", name)
        case "loses a Pod":
            scene.lose_pod(pod)
        case "a Pod ends" | "a Pod is asked to end" if ("team", pod) in scene.mirror.pods and run is not None:
            if run.status is not None and run.status.attempt is not None:
                ends = change == "a Pod ends"
                scene.pod(run, 0, node, phase="Succeeded" if ends else "Running", deleting="" if ends else ago())
        case "the node is cordoned" if node in scene.mirror.nodes:
            found = scene.mirror.nodes[node]
            cordoned = msgspec.structs.replace(found.spec, unschedulable=not found.spec.unschedulable)
            scene.mirror.nodes[node] = msgspec.structs.replace(found, spec=cordoned)
            scene.cluster.note_node(node)
        case "the node is gone" if node in scene.mirror.nodes:
            del scene.mirror.nodes[node]
            scene.cluster.note_node(node)


def contents(view: ClusterView) -> dict[str, object]:
    """Return everything that the index answers, as comparable values."""
    occupancy, outlook = view.occupancy, Outlook(view._mirror, view)
    used = occupancy.used()
    endings = outlook.endings(NOW)
    return {
        "runs": sorted((r.key, r.is_begun, len(r.members), len(r.bound)) for r in occupancy.runs()),
        "begun": sorted(run.metadata.name for run in occupancy.begun()),
        "gangs": sorted((r.key, tuple(r.rows.tolist()), r.ranks, r.since or 0.0) for r in occupancy.gangs()),
        "promises": sorted((p.run, p.attempt, p.nodes) for p in occupancy.promises()),
        "leaving": sorted(pod.metadata.name for _, pod in occupancy.leaving()),
        "used": (used.used.tolist(), used.members.tolist(), used.alone.tolist()),
        "endings": sorted((key, ending.rows.tolist(), ending.ends_at) for key, ending in endings),
        "table": used.table is view.table(),
    }


@given(STEPS)
def test_the_index_equals_a_new_one(steps: list[tuple[str, str, bool]]) -> None:
    """This holds whether or not it is read between the changes."""
    scene = QueueScene(4)
    contents(scene.cluster)
    for name, change, is_asked in steps:
        perform(scene, name, change)
        if is_asked:
            contents(scene.cluster)
    assert contents(scene.cluster) == contents(ClusterView(scene.mirror, scene.policy))


@given(STEPS)
def test_begun_runs_are_those_with_an_attempt_or_kept_nodes(steps: list[tuple[str, str, bool]]) -> None:
    scene = QueueScene(4)
    for name, change, _ in steps:
        perform(scene, name, change)
    expected = [
        run
        for run in scene.mirror.runs.values()
        if run.status and not run.status.phase.is_final and (run.status.attempt or run.status.resize)
    ]
    begun = list(scene.cluster.occupancy.begun())
    assert sorted(run.metadata.name for run in begun) == sorted(run.metadata.name for run in expected)
    assert all(run is scene.mirror.runs["team", run.metadata.name] for run in begun)


async def test_occupants_of_a_moment_do_not_follow_the_mirror() -> None:
    """A what-if works on them in a thread while the mirror changes."""
    scene = QueueScene(2)
    scene.runs("bert", "n[0-1]", since=ago(hours=1))
    moment = frozen_cluster(scene.cluster, (), NOW.timestamp())
    scene.lose_pod("bert-1-0")
    scene.show("bert", RunStatus(phase=Phase.STOPPED))
    (occupant,) = (await moment.simulation(())).occupants
    assert occupant.rows.tolist() == [0, 1]
