"""The index of runs that wait for other runs, by name, so that a change of one run requeues only its
dependents."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.core import gang
from kajitori.core.spec.reading.stored import StoredSpec
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import Resource


class Dependencies:
    """The runs that wait for other runs, and those other runs, as the mirror shows them."""

    def __init__(self, mirror: Mirror, specs: StoredSpecs) -> None:
        self._mirror = mirror
        self._specs = specs
        self._waits_for: dict[Key, tuple[str, ...]] = {}
        """Names of the runs that each waiting run still waits for."""
        self._dependents: dict[Key, set[Key]] = {}
        """The waiting runs by the run that they wait for, which may not exist."""
        self._told: dict[Key, gang.SeenRun | None] = {}
        """Each run that others wait for, as it was when its dependents were last queued."""
        for key in mirror.runs:
            self._note(RUNS, *key)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    def awaited(self, run: RunObject) -> tuple[gang.Awaited, ...]:
        """Return the runs for which a run waits before its first attempt. The Run need not be in the mirror."""
        after, status, meta = self._specs.of(run).after, run.current_status, run.metadata
        if not after or status.attempts:
            return ()
        pinned = {state.run for state in status.after if state.uid}
        cycle = (
            self._find_cycle_through(meta.namespace, meta.name)
            if not pinned.issuperset(name for name, _ in after)
            else ()
        )
        return tuple(
            gang.Awaited(
                name,
                condition,
                self.seen((meta.namespace, name)),
                cycle if name in cycle[1:2] else (),
            )
            for name, condition in after
        )

    def seen(self, key: Key) -> gang.SeenRun | None:
        """Return a run as its dependents see it; None if there is none of this name."""
        run = self._mirror.runs.get(key)
        return self.sight_of(run) if run is not None else None

    def sight_of(self, run: RunObject) -> gang.SeenRun:
        """Return what other runs see of this one, which need not be in the mirror."""
        spec, status = self._specs.of(run), run.current_status
        return gang.SeenRun(
            uid=run.metadata.uid,
            phase=status.phase,
            reason=status.reason,
            type=_type_of(spec),
            deleting=bool(run.metadata.deletion_timestamp),
            has_health_check=spec.has_health_check,
            is_healthy=status.phase is Phase.RUNNING and status.health is not None and status.health.is_healthy,
        )

    def waiting(self) -> Iterator[tuple[Key, tuple[gang.Awaited, ...]]]:
        """Yield each run that waits for others, with the conditions that are left."""
        for key, names in self._waits_for.items():
            run = self._mirror.runs.get(key)
            if run is not None:
                yield (
                    key,
                    tuple(
                        gang.Awaited(name, condition) for name, condition in self._specs.of(run).after if name in names
                    ),
                )

    def dependents(self, key: Key) -> Collection[Key]:
        """Return the runs that still wait for this one."""
        return self._dependents.get(key, ())

    def take_affected(self, key: Key) -> Collection[Key]:
        """Return the runs that wait for this one, if this one has changed since the last call in a way that they
        see."""
        dependents = self._dependents.get(key)
        if not dependents:
            self._told.pop(key, None)
            return ()
        seen = self.seen(key)
        if key in self._told and self._told[key] == seen:
            return ()
        self._told[key] = seen
        return dependents

    def has_unseen_end(self, run: RunObject, now: datetime) -> bool:
        """Return whether a waiting run has yet to note what it sees of this run, which is about to be removed."""
        key = run.metadata.namespace, run.metadata.name
        seen = self.seen(key)
        for dependent in self._dependents.get(key, ()):
            waiting = self._mirror.runs.get(dependent)
            if waiting is None:
                continue
            for name, condition in self._specs.of(waiting).after:
                awaited = gang.Awaited(name, condition, seen)
                if name == run.metadata.name and gang.has_to_see(waiting.current_status, awaited, now):
                    return True
        return False

    def _find_cycle_through(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return the runs that wait for each other through this one. A cycle is closed by a run that others wait for,
        so nothing is searched for any other run."""
        if (namespace, name) not in self._dependents:
            return ()
        return gang.find_cycle(name, lambda other: self._waits_for.get((namespace, other), ()))

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource != RUNS:
            return
        key = namespace, name
        names, before = self._names_of(key), self._waits_for.get(key, ())
        if names == before:
            return
        for other in before:
            dependents = self._dependents[namespace, other]
            dependents.discard(key)
            if not dependents:
                del self._dependents[namespace, other]
        for other in names:
            self._dependents.setdefault((namespace, other), set()).add(key)
        if names:
            self._waits_for[key] = names
        else:
            del self._waits_for[key]

    def _names_of(self, key: Key) -> tuple[str, ...]:
        run = self._mirror.runs.get(key)
        after = self._specs.of(run).after if run is not None else ()
        if run is None or not after:
            return ()
        status = run.current_status
        if not gang.waits_for_others(status, deleting=bool(run.metadata.deletion_timestamp)):
            return ()
        met = {(state.run, state.condition) for state in status.after if state.met_at}
        return tuple(dict.fromkeys(name for name, condition in after if (name, condition) not in met))


def _type_of(spec: StoredSpec) -> gang.RunType:
    return "notebook" if spec.is_notebook else spec.type
