"""Runs by their kind, so that what earlier ones needed is found without looking at all of them."""

from __future__ import annotations

from kajitori.core import names
from kajitori.core.kinship import Kind, kind_of_stored
from kajitori.core.memory import EarlierRun
from kajitori.kube.mirror import Key, Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import RUNS, Resource

REMEMBERED = 64
"""Runs of one kind: those whose peak was learnt last."""


class KinIndex:
    """Of each kind the runs that the mirror holds and whose peak is known. It follows the mirror by itself."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._of_kind: dict[Kind, dict[Key, None]] = {}
        self._kinds: dict[Key, Kind] = {}
        for key in sorted(mirror.runs, key=lambda key: mirror.runs[key].metadata.creation_timestamp):
            self._look_at(key)
        mirror.on_change(self._note)

    def earlier(self, kind: Kind, than: RunObject | None = None) -> tuple[EarlierRun, ...]:
        """What runs of this kind needed, newest first; with `than`, those that were submitted before it."""
        found = [self._mirror.runs[key] for key in self._of_kind.get(kind, ()) if key in self._mirror.runs]
        if than is not None:
            mine = than.metadata
            found = [
                run
                for run in found
                if run.metadata.creation_timestamp <= mine.creation_timestamp and run.metadata.uid != mine.uid
            ]
        found.sort(key=lambda run: run.metadata.creation_timestamp, reverse=True)
        return tuple(
            EarlierRun(run.metadata.name, run.status.memory) for run in found if run.status and run.status.memory
        )

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._look_at((namespace, name))

    def _look_at(self, key: Key) -> None:
        run = self._mirror.runs.get(key)
        tells = run is not None and run.status is not None and run.status.memory is not None
        if not tells:
            self._forget(key)
        elif run is not None and (key not in self._kinds or run.metadata.generation > 1):
            kind = kind_of_stored(run.spec, key[0], owner_of(run))
            if kind == self._kinds.get(key):
                return
            self._forget(key)
            if kind is not None:
                self._kinds[key] = kind
                kin = self._of_kind.setdefault(kind, {})
                kin[key] = None
                if len(kin) > REMEMBERED:
                    self._forget(next(iter(kin)))

    def _forget(self, key: Key) -> None:
        kind = self._kinds.pop(key, None)
        if kind is not None:
            kin = self._of_kind[kind]
            del kin[key]
            if not kin:
                del self._of_kind[kind]


def owner_of(run: RunObject) -> str:
    """Who submitted it through the Web API; empty where it came another way."""
    return run.metadata.annotations.get(names.ANNOTATION_OWNER, "")
