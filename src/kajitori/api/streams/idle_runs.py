"""The open questions about idle GPUs by owner. Answers to an owner carry them, so no request is made for them."""

from __future__ import annotations

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS
from kajitori.core.messages.idle_question import describe_gpus
from kajitori.kube.resources import Resource


class IdleRuns:
    """Keys of the runs with idle GPUs, kept as runs change."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._owners: dict[Key, str] = {}
        """Owner of each run with idle GPUs."""
        self._asked: dict[str, dict[Key, None]] = {}
        """The runs with an open question, by owner."""
        for key in mirror.runs:
            self._note(RUNS, *key)
        self.close = mirror.on_change(self._note)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The runs that hold idle GPUs, or may do so."""
        return tuple(self._owners)

    def gpus_of(self, key: Key) -> int:
        """Return the number of GPUs of a run that are known to be idle."""
        run = self._mirror.runs.get(key) if key in self._owners else None
        idle = run.status.idle if run is not None and run.status is not None else None
        return max(idle.fewest, idle.confirmed) if idle is not None else 0

    def words(self, owner: str) -> str:
        """Return the open questions to an owner in one line of ASCII; empty without any."""
        asked = self._asked.get(owner)
        if not asked:
            return ""
        (namespace, name), *others = asked
        run = self._mirror.runs.get((namespace, name))
        if others:
            gpus = sum(self.gpus_of(key) for key in asked)
            return f"{len(asked)} of your runs hold {gpus} idle GPUs: kaji idle"
        if run is None or run.status is None or run.status.idle is None:
            return ""
        idle = run.status.idle
        parks = f", or it is parked at {idle.park_at}" if idle.park_at else ""
        answers = f"kaji keep {name} --until 18:00, or kaji park {name}"
        return f"{name} holds {describe_gpus(idle)}, idle since {idle.since}{parks}: {answers}"

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource != RUNS:
            return
        key = namespace, name
        run = self._mirror.runs.get(key)
        idle = run.status.idle if run is not None and run.status is not None else None
        owner_before = self._owners.pop(key, None)
        if owner_before is not None:
            open_questions = self._asked.get(owner_before, {})
            open_questions.pop(key, None)
            if not open_questions:
                self._asked.pop(owner_before, None)
        if run is None or run.status is None or idle is None or run.status.phase.is_final:
            return
        self._owners[key] = run.owner
        if idle.asked_at and not idle.parked_at:
            self._asked.setdefault(run.owner, {})[key] = None
