"""Runs of one kind are found by what the mirror holds."""

from __future__ import annotations

from typing import Any

import msgspec

from kajitori.cluster.runs.run_history import REMEMBERED, RunHistory
from kajitori.core.gang.memory import EARLIER_RUNS
from kajitori.core.spec.kinds import kind_of
from kajitori.core.spec.run import parse_spec
from kajitori.core.spec.status import MemoryPeak, RunStatus
from kajitori.core.words import names
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import ObjectMeta, RunObject
from kajitori.kube.resources import RUNS

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


class Held:
    """An index over a mirror that is changed by hand."""

    def __init__(self, *runs: RunObject) -> None:
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        for each in runs:
            self.mirror.runs["vision", each.metadata.name] = each
        self.index = RunHistory(self.mirror)

    def shows(self, *runs: RunObject) -> None:
        for each in runs:
            self.mirror.runs["vision", each.metadata.name] = each
            self.mirror._tell(RUNS, "vision", each.metadata.name)

    def loses(self, name: str) -> None:
        del self.mirror.runs["vision", name]
        self.mirror._tell(RUNS, "vision", name)

    def found(self, than: RunObject | None = None) -> list[str]:
        return [each.name for each in self.index.earlier(KIND, than)]


def test_newest_first_and_only_those_that_tell_something() -> None:
    """Of the same user, the same program, and with a known memory peak."""
    held = Held(
        run("old", 1, peak=5),
        run("new", 9, peak=7),
        run("silent", 3),
        run("bobs", 4, peak=9, owner="bob"),
        run("other", 5, peak=9, spec={"image": "gpt"}),
        run("garbled", 6, peak=9, spec=[]),
    )
    assert held.found() == ["new", "old"]


def test_it_follows_the_mirror() -> None:
    """A run that begins to tell something is found, one that is gone or became another is not."""
    held = Held(run("a", 1))
    assert held.found() == []
    held.shows(run("a", 1, peak=5), run("b", 2, peak=6))
    assert held.found() == ["b", "a"]
    edited = run("b", 2, peak=6, spec={"image": "gpt"})
    held.shows(msgspec.structs.replace(edited, metadata=msgspec.structs.replace(edited.metadata, generation=2)))
    assert held.found() == ["a"]
    held.loses("a")
    assert held.found() == []
    held.shows(run("a", 1, peak=5, owner="bob"))
    assert held.found() == []


def test_a_run_is_not_told_of_itself_or_of_what_came_later() -> None:
    """Policy is asked again for each of its attempts."""
    mine = run("mine", 5, peak=7)
    held = Held(run("before", 4, peak=5), mine, run("after", 6, peak=9))
    assert held.found(than=mine) == ["before"]


def test_a_sweep_of_thousands_is_not_remembered_whole() -> None:
    """The newest say enough; and what was forgotten may go without a trace."""
    held = Held(*(run(f"r{number}", number % 50, peak=1) for number in range(REMEMBERED)))
    held.shows(run("last", 59, peak=1))
    assert len(held.index._known) == REMEMBERED
    assert held.found()[0] == "last" and len(held.found()) == EARLIER_RUNS
    for name in [*held.mirror.runs]:
        held.loses(name[1])
    assert held.found() == []
    assert not (held.index._people or held.index._known or held.index._kinds)
