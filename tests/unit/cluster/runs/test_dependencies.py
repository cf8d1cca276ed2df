"""The index of runs that wait for others: a change of one run concerns its own dependents alone."""

from __future__ import annotations

import msgspec
import pytest
from tests.helpers.scenes.queue_scene import NOW, QueueScene

from kajitori.cluster.run_object import RUNS
from kajitori.core import gang
from kajitori.core.gang import SeenRun
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.dependencies import AfterState
from kajitori.core.spec.status_parts.health import RunHealth

PREPARE, TRAIN = ("team", "prepare"), ("team", "train")
QUEUED = RunStatus(phase=Phase.QUEUED)


class Scene(QueueScene):
    def __init__(self) -> None:
        super().__init__(1)
        self.index = self.cluster.dependencies

    def show_run(self, name: str, *others: str, status: RunStatus = QUEUED) -> None:
        self.show(name, status, after=[{"run": other} for other in others])
        self.mirror._notify(RUNS, "team", name)

    def forget(self, name: str) -> None:
        del self.mirror.runs["team", name]
        self.mirror._notify(RUNS, "team", name)


def test_only_waiting_runs_are_dependents() -> None:
    """They may be there before the run that they wait for. A run that started, ended or is gone waits no more."""
    scene = Scene()
    scene.show_run("train", "prepare", "fetch")
    scene.show_run("other")
    assert set(scene.index.dependents(PREPARE)) == {TRAIN}
    met = msgspec.structs.replace(QUEUED, after=[AfterState(run="prepare", uid="u", met_at="2026-11-21T12:00:00Z")])
    scene.show_run("train", "prepare", "fetch", status=met)
    assert not scene.index.dependents(PREPARE) and scene.index.dependents(("team", "fetch"))
    scene.show_run("train", "prepare", "fetch", status=RunStatus(phase=Phase.STARTING, attempts=1))
    assert not scene.index.dependents(("team", "fetch"))
    scene.show_run("train", "prepare")
    scene.forget("train")
    assert not scene.index.dependents(PREPARE)


def test_dependents_are_told_of_changes_that_they_can_see() -> None:
    """Most writes of a running run's status change nothing for them."""
    scene = Scene()
    scene.show_run("train", "prepare")
    assert set(scene.index.take_affected(PREPARE)) == {TRAIN}
    assert not scene.index.take_affected(PREPARE)
    scene.show_run("prepare", status=RunStatus(phase=Phase.RUNNING))
    assert scene.index.take_affected(PREPARE)
    scene.show_run("prepare", status=RunStatus(phase=Phase.RUNNING, restarts=1, message="news"))
    assert not scene.index.take_affected(PREPARE)
    healthy = RunHealth(status="healthy", healthy=1)
    scene.show_run("prepare", status=RunStatus(phase=Phase.RUNNING, health=healthy))
    assert scene.index.take_affected(PREPARE)
    scene.show_run("prepare", status=RunStatus(phase=Phase.SUCCEEDED))
    assert scene.index.take_affected(PREPARE)


def test_a_resumed_run_is_shown_what_it_waits_for() -> None:
    """Its status is still final when the resume is seen."""
    scene = Scene()
    scene.show_run("prepare", status=RunStatus(phase=Phase.RUNNING))
    scene.show_run("train", "prepare", status=RunStatus(phase=Phase.FAILED))
    [awaited] = scene.index.awaited(scene.mirror.runs[TRAIN])
    assert isinstance(awaited.seen, SeenRun) and awaited.seen.phase is Phase.RUNNING
    scene.show_run("train", "prepare", status=RunStatus(phase=Phase.QUEUED, attempts=1))
    assert scene.index.awaited(scene.mirror.runs[TRAIN]) == ()


def test_a_cycle_is_reported_at_the_entry_that_closes_it() -> None:
    scene = Scene()
    scene.show_run("a", "x", "b")
    scene.show_run("b", "a")
    cycles = [awaited.cycle for awaited in scene.index.awaited(scene.mirror.runs["team", "a"])]
    assert cycles == [(), ("a", "b", "a")]


def test_a_run_is_not_removed_before_its_dependents_noted_its_end() -> None:
    scene = Scene()
    scene.show_run("prepare", status=RunStatus(phase=Phase.SUCCEEDED))
    prepare = scene.mirror.runs[PREPARE]
    assert not scene.index.has_unseen_end(prepare, NOW)
    scene.show_run("train", "prepare")
    assert scene.index.has_unseen_end(prepare, NOW)
    scene.forget("train")
    assert not scene.index.has_unseen_end(prepare, NOW)


def test_a_new_run_at_the_end_of_a_chain_does_not_walk_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run waits for a new run, so it closes no cycle."""
    scene = Scene()
    monkeypatch.delattr(gang, "find_cycle")  # a search would fail
    for number in range(1, 4):
        scene.show_run(f"r{number}", f"r{number - 1}")
        scene.index.awaited(scene.mirror.runs["team", f"r{number}"])
