"""The Runs that have begun and are not over, of the many more that wait or have ended: looked up, not looked for."""

from __future__ import annotations

from collections.abc import Collection

from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import RUNS, Resource


class BegunRuns:
    """All that may hold nodes, or have some kept for them. It follows the mirror by itself."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._begun: dict[Key, RunObject] = {}
        for key in mirror.runs:
            self._look_at(key)
        mirror.on_change(self._note)

    def all(self) -> Collection[RunObject]:
        """Those that have an attempt, or the next one's nodes, and are not over."""
        return self._begun.values()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._look_at((namespace, name))

    def _look_at(self, key: Key) -> None:
        run = self._mirror.runs.get(key)
        status = run.status if run is not None else None
        has_nodes = status is not None and (status.attempt is not None or status.resize is not None)
        if run is not None and status is not None and has_nodes and not status.phase.is_final:
            self._begun[key] = run
        else:
            self._begun.pop(key, None)
