"""Runs by who submitted them, so that what earlier ones of a kind needed is found without looking at all runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest

from kajitori.core.gang.memory import EARLIER_RUNS, EarlierRun
from kajitori.core.spec.kinds import Kind, kind_of_stored
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import RUNS, Resource

REMEMBERED = 512
"""Runs of one person in one namespace: those whose peak was learnt last."""

Person = tuple[str, str]
"""A namespace, and who submits runs there."""


@dataclass(slots=True)
class _Theirs:
    """Runs of one person."""

    all: dict[Key, None] = field(default_factory=dict)
    unsorted: dict[Key, None] = field(default_factory=dict)
    """Those of which nobody has found out yet of what kind they are."""
    of_kind: dict[Kind, dict[Key, None]] = field(default_factory=dict)


class RunHistory:
    """Of each person the runs that the mirror holds and whose peak is known. It follows the mirror by itself.

    Of what kind a run is, is found out when somebody asks about runs of its owner, and then kept.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._people: dict[Person, _Theirs] = {}
        self._known: dict[Key, tuple[Person, str, int]] = {}
        """Whose a run is, and the UID and generation of the Run that it was told by."""
        self._kinds: dict[Key, Kind] = {}
        for key in sorted(mirror.runs, key=lambda key: mirror.runs[key].metadata.creation_timestamp):
            self._look_at(key)
        mirror.on_change(self._note)

    def earlier(self, kind: Kind, than: RunObject | None = None) -> tuple[EarlierRun, ...]:
        """What the newest runs of this kind needed, newest first; with `than`, those that were submitted before it."""
        theirs = self._people.get((kind.namespace, kind.owner))
        if theirs is None:
            return ()
        self._sort(theirs)
        runs = [self._mirror.runs[key] for key in theirs.of_kind.get(kind, ())]
        found = [run for run in runs if than is None or _is_before(run, than)]
        newest = nlargest(EARLIER_RUNS, found, key=lambda run: run.metadata.creation_timestamp)
        told = ((run.metadata.name, run.status.memory) for run in newest if run.status is not None)
        return tuple(EarlierRun(name, peak) for name, peak in told if peak is not None)

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._look_at((namespace, name))

    def _look_at(self, key: Key) -> None:
        run = self._mirror.runs.get(key)
        known = None
        if run is not None and run.status is not None and run.status.memory is not None:
            known = (key[0], run.owner), run.metadata.uid, run.metadata.generation
        if known == self._known.get(key):
            return
        self._forget(key)
        if known is not None:
            self._known[key] = known
            theirs = self._people.setdefault(known[0], _Theirs())
            theirs.all[key] = theirs.unsorted[key] = None
            if len(theirs.all) > REMEMBERED:
                self._forget(next(iter(theirs.all)))

    def _forget(self, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        theirs = self._people[known[0]]
        del theirs.all[key]
        theirs.unsorted.pop(key, None)
        kind = self._kinds.pop(key, None)
        if kind is not None:
            del theirs.of_kind[kind][key]
            if not theirs.of_kind[kind]:
                del theirs.of_kind[kind]
        if not theirs.all:
            del self._people[known[0]]

    def _sort(self, theirs: _Theirs) -> None:
        for key in theirs.unsorted:
            run = self._mirror.runs[key]
            kind = kind_of_stored(run.spec, key[0], run.owner)
            if kind is not None:
                self._kinds[key] = kind
                theirs.of_kind.setdefault(kind, {})[key] = None
        theirs.unsorted.clear()


def _is_before(run: RunObject, other: RunObject) -> bool:
    mine, its = run.metadata, other.metadata
    return mine.creation_timestamp <= its.creation_timestamp and mine.uid != its.uid
