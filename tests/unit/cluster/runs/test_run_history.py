"""Earlier runs of the same kind are found in the mirror."""

from __future__ import annotations

from typing import Any

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.run_history import REMEMBERED, RunHistory
from kajitori.core.gang.memory import EARLIER_RUNS
from kajitori.core.naming import names
from kajitori.core.spec.kinds import kind_of
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemoryPeak
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.metadata import ObjectMeta

KIND = kind_of(parse_spec({"image": "bert:3"}), "vision", "ada")


def run(name: str, second: int = 0, *, peak: int = 0, owner: str = "ada", spec: Any = None) -> RunObject:
    meta = ObjectMeta(
        name=name,
        namespace="vision",
        uid=f"uid-{name}",
        generation=1,
        annotations={names.ANNOTATION_OWNER: owner},
        creation_timestamp=f"2026-11-21T12:00:{second:02}Z",
    )
    status = RunStatus(memory=MemoryPeak(peak_bytes=peak) if peak else None)
    spec = {"image": "bert:4"} if spec is None else spec
    return RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(spec)), status=status)


class Scene:
    """An index over a mirror that tests change."""

    def __init__(self, *runs: RunObject) -> None:
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        for run in runs:
            self.mirror.runs["vision", run.metadata.name] = run
        self.index = RunHistory(self.mirror)

    def show(self, *runs: RunObject) -> None:
        for run in runs:
            self.mirror.runs["vision", run.metadata.name] = run
            self.mirror._notify(RUNS, "vision", run.metadata.name)

    def lose(self, name: str) -> None:
        del self.mirror.runs["vision", name]
        self.mirror._notify(RUNS, "vision", name)

    def found(self, than: RunObject | None = None) -> list[str]:
        return [run.name for run in self.index.earlier(KIND, than)]


def test_comparable_runs_with_a_known_peak_are_listed_newest_first() -> None:
    """They have the same user and the same program."""
    scene = Scene(
        run("old", 1, peak=5),
        run("new", 9, peak=7),
        run("silent", 3),
        run("bobs", 4, peak=9, owner="bob"),
        run("other", 5, peak=9, spec={"image": "gpt"}),
        run("garbled", 6, peak=9, spec=[]),
    )
    assert scene.found() == ["new", "old"]


def test_the_index_follows_the_mirror() -> None:
    """A run is found once its peak is known, and no longer once it is gone or has changed its kind."""
    scene = Scene(run("a", 1))
    assert scene.found() == []
    scene.show(run("a", 1, peak=5), run("b", 2, peak=6))
    assert scene.found() == ["b", "a"]
    edited = run("b", 2, peak=6, spec={"image": "gpt"})
    scene.show(msgspec.structs.replace(edited, metadata=msgspec.structs.replace(edited.metadata, generation=2)))
    assert scene.found() == ["a"]
    scene.lose("a")
    assert scene.found() == []
    scene.show(run("a", 1, peak=5, owner="bob"))
    assert scene.found() == []


def test_for_a_run_only_earlier_runs_count() -> None:
    """Policy is evaluated again for each of its attempts."""
    mine = run("mine", 5, peak=7)
    scene = Scene(run("before", 4, peak=5), mine, run("after", 6, peak=9))
    assert scene.found(than=mine) == ["before"]


def test_only_the_newest_runs_of_a_kind_are_remembered() -> None:
    """Deleting runs that were forgotten already is no error."""
    scene = Scene(*(run(f"r{number}", number % 50, peak=1) for number in range(REMEMBERED)))
    scene.show(run("last", 59, peak=1))
    assert len(scene.index._known) == REMEMBERED
    assert scene.found()[0] == "last" and len(scene.found()) == EARLIER_RUNS
    for name in [*scene.mirror.runs]:
        scene.lose(name[1])
    assert scene.found() == []
    assert not (scene.index._people or scene.index._known or scene.index._kinds)
