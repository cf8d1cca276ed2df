"""Runs that have begun and are not over are known, whatever becomes of them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.queue_scene import QueueScene, ago

from kajitori.cluster.begun import BegunRuns
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import Resize, RunStatus
from kajitori.kube.resources import RUNS

NAMES = st.sampled_from(["a", "b", "c"])
STEP = st.tuples(NAMES, st.sampled_from(["waits", "starts", "runs", "between", "finished", "lost", "nobody looked"]))


def perform(scene: QueueScene, name: str, step: str) -> None:
    """One change of a run, as the mirror shows it."""
    match step:
        case "waits":
            scene.waits(name, 1)
        case "starts":
            scene.runs(name, "n0", since=ago(minutes=1), phase=Phase.STARTING)
        case "runs":
            scene.runs(name, "n0", since=ago(minutes=1))
        case "between":
            status = RunStatus(phase=Phase.RESTARTING, resize=Resize(nodes="n0", fewest=1))
            scene.show(name, status)
        case "finished":
            scene.finished(name, seconds=10, until=ago(minutes=1))
        case "lost" if ("team", name) in scene.mirror.runs:
            scene.lose(name)
        case "nobody looked" if ("team", name) in scene.mirror.runs:
            run = scene.mirror.runs["team", name]
            scene.mirror.runs["team", name] = msgspec.structs.replace(run, status=None)
            scene.mirror._tell(RUNS, "team", name)


@given(st.lists(STEP, max_size=12), st.integers(0, 12))
def test_whatever_becomes_of_runs_those_that_have_begun_are_known(steps: list[tuple[str, str]], asked: int) -> None:
    """As if all were looked at, from wherever one begins to follow them."""
    scene = QueueScene(1)
    for step in steps[:asked]:
        perform(scene, *step)
    begun = BegunRuns(scene.mirror)
    for step in steps[asked:]:
        perform(scene, *step)
    expected = [
        run
        for run in scene.mirror.runs.values()
        if run.status and not run.status.phase.is_final and (run.status.attempt or run.status.resize)
    ]
    assert sorted(run.metadata.name for run in begun.all()) == sorted(run.metadata.name for run in expected)
    assert all(run is scene.mirror.runs["team", run.metadata.name] for run in begun.all())
