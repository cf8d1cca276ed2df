"""An index of earlier runs by user, which finds the memory peaks of runs of one kind without a search through all
runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.gang.memory import EARLIER_RUNS, EarlierRun
from kajitori.core.spec.kinds import Kind, kind_of_stored
from kajitori.kube.resources import Resource

REMEMBERED = 512
"""Number of runs kept for one user in one namespace: those with the latest known peaks."""

Person = tuple[str, str]
"""A namespace and a user."""


@dataclass(slots=True)
class _UserRuns:
    """The runs of one user."""

    all: dict[Key, None] = field(default_factory=dict)
    unsorted: dict[Key, None] = field(default_factory=dict)
    """Runs of a kind that is not known yet."""
    of_kind: dict[Kind, dict[Key, None]] = field(default_factory=dict)


class RunHistory:
    """The runs in the mirror with a known memory peak, by user. It follows the mirror by itself.

    The kind of a run is read at the first question about its user's runs, and then kept.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._people: dict[Person, _UserRuns] = {}
        self._known: dict[Key, tuple[Person, str, int]] = {}
        """User, UID and generation of each known run."""
        self._kinds: dict[Key, Kind] = {}
        for key in sorted(mirror.runs, key=lambda key: mirror.runs[key].metadata.creation_timestamp):
            self._look_at(key)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    def earlier(self, kind: Kind, than: RunObject | None = None) -> tuple[EarlierRun, ...]:
        """Return what the newest runs of this kind needed, newest first; with `than`, of runs submitted before it."""
        of_user = self._people.get((kind.namespace, kind.owner))
        if of_user is None:
            return ()
        self._sort_by_kind(of_user)
        runs = [self._mirror.runs[key] for key in of_user.of_kind.get(kind, ())]
        found = [run for run in runs if than is None or _is_before(run, than)]
        newest = nlargest(EARLIER_RUNS, found, key=lambda run: run.metadata.creation_timestamp)
        measured = ((run.metadata.name, run.status.memory) for run in newest if run.status is not None)
        return tuple(EarlierRun(name, peak) for name, peak in measured if peak is not None)

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
        self._forget_run(key)
        if known is not None:
            self._known[key] = known
            of_user = self._people.setdefault(known[0], _UserRuns())
            of_user.all[key] = of_user.unsorted[key] = None
            if len(of_user.all) > REMEMBERED:
                self._forget_run(next(iter(of_user.all)))

    def _forget_run(self, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        of_user = self._people[known[0]]
        del of_user.all[key]
        of_user.unsorted.pop(key, None)
        kind = self._kinds.pop(key, None)
        if kind is not None:
            del of_user.of_kind[kind][key]
            if not of_user.of_kind[kind]:
                del of_user.of_kind[kind]
        if not of_user.all:
            del self._people[known[0]]

    def _sort_by_kind(self, of_user: _UserRuns) -> None:
        for key in of_user.unsorted:
            run = self._mirror.runs[key]
            kind = kind_of_stored(run.spec, key[0], run.owner)
            if kind is not None:
                self._kinds[key] = kind
                of_user.of_kind.setdefault(kind, {})[key] = None
        of_user.unsorted.clear()


def _is_before(run: RunObject, other: RunObject) -> bool:
    meta, other_meta = run.metadata, other.metadata
    return meta.creation_timestamp <= other_meta.creation_timestamp and meta.uid != other_meta.uid
