"""All runs as rows of tables, and their changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from kajitori.api.rendering.runs import run_summary
from kajitori.api.streams.live_rows import LiveRows, RowChange
from kajitori.api.streams.queue_rows import QueueRows
from kajitori.api.views.runs import RunCounts, RunKey, RunTableRow
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.kubernetes.selectors import LabelSelector
from kajitori.core.naming import names
from kajitori.core.spec.note import read_note
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import Resource


@dataclass(frozen=True, slots=True, eq=False)
class RunRow:
    """One run as a row: its summary, the summary's JSON, and the text that is searched."""

    run: RunObject
    summary: RunTableRow
    json: bytes
    text: str
    is_sweep: bool
    is_notebook: bool

    @property
    def state(self) -> Phase:
        return self.summary.phase

    @property
    def key_json(self) -> bytes:
        row = self.summary
        return msgspec.json.encode(RunKey(namespace=row.namespace, name=row.name, uid=row.uid))

    def looks_like(self, other: RunRow) -> bool:
        """Whether both are the same to every reader and every filter."""
        labels = self.run.metadata.labels == other.run.metadata.labels
        kind = self.is_sweep == other.is_sweep and self.is_notebook == other.is_notebook
        return labels and kind and self.json == other.json and self.text == other.text


def row_of(run: RunObject, starts_at: str | msgspec.UnsetType = msgspec.UNSET) -> RunRow:
    """Return the row of a Run. `starts_at` is its expected start, if the row has one."""
    spec = read_stored(run.spec)
    summary = run_summary(run, spec, starts_at)
    text = searched_text(run, spec.image)
    return RunRow(run, summary, msgspec.json.encode(summary), text, spec.is_sweep, spec.is_notebook)


def searched_text(run: RunObject, image: str) -> str:
    """Return the text in which searches look for words: name, namespace, owner, image, labels and note of a run."""
    meta = run.metadata
    labels = (f"{key}={value}" for key, value in meta.labels.items())
    note = read_note(meta.annotations.get(names.ANNOTATION_NOTE, ""))
    words = (meta.name, meta.namespace, run.owner, image, *labels, note.text if note is not None else "")
    return "\n".join(words).casefold()


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The runs that a list or a stream shows. Empty sets and texts exclude nothing."""

    namespaces: frozenset[str] | None = None
    """None: all namespaces. An empty set: none."""
    owners: frozenset[str] = frozenset()
    uids: frozenset[str] = frozenset()
    phases: frozenset[Phase] = frozenset()
    active: bool = False
    sweep: bool = False
    """Only sweeps."""
    notebook: bool = False
    """Only notebooks."""
    words: frozenset[str] = frozenset()
    """Each has to occur in the run's name, namespace, owner, image, labels or note, in any case."""
    selector_text: str = ""
    selector: LabelSelector = field(default=LabelSelector(), compare=False)

    def covers(self, row: RunRow) -> bool:
        """Whether a run matches, its phase aside."""
        meta = row.run.metadata
        return (
            (self.namespaces is None or meta.namespace in self.namespaces)
            and (not self.owners or row.summary.owner in self.owners)
            and (not self.uids or row.summary.uid in self.uids)
            and (row.is_sweep or not self.sweep)
            and (row.is_notebook or not self.notebook)
            and all(word in row.text for word in self.words)
            and (not self.selector or self.selector.matches(meta.labels))
        )

    def allows(self, phase: Phase) -> bool:
        """Whether runs in this phase match."""
        return (not self.phases or phase in self.phases) and not (self.active and phase.is_final)

    def matches(self, row: RunRow) -> bool:
        """Whether a run matches."""
        return self.allows(row.summary.phase) and self.covers(row)

    def counts(self, phases: Mapping[Phase, int]) -> RunCounts:
        """Return the view of the number of covered runs by phase."""
        by_phase = {phase.value: phases[phase] for phase in Phase if phases.get(phase)}
        return RunCounts(total=sum(phases.get(phase, 0) for phase in Phase if self.allows(phase)), phases=by_phase)

    @property
    def digest(self) -> str:
        """A short text that differs between filters."""
        conditions = (
            None if self.namespaces is None else sorted(self.namespaces),
            sorted(self.owners),
            sorted(self.uids),
            sorted(self.phases),
            self.active,
            self.sweep,
            self.notebook,
            sorted(self.words),
            self.selector_text,
        )
        return hashlib.blake2s(repr(conditions).encode(), digest_size=6).hexdigest()


class RunRows(LiveRows[Key, RunRow]):
    """The rows of all runs that the mirror holds, and a log of their latest changes.

    With `queue`, each row has the expected start that the queue's last round found.
    """

    def __init__(self, mirror: Mirror, queue: QueueRows | None = None) -> None:
        super().__init__()
        self.namespaces: Counter[str] = Counter()
        """Number of runs by namespace."""
        self._mirror = mirror
        self._dirty: dict[Key, None] = dict.fromkeys(mirror.runs)
        self._queue = queue
        self._unsubscribe = mirror.on_change(self._note)
        if queue is not None:
            queue.on_change(self._note_starts)

    def close(self) -> None:
        """Stop following the mirror."""
        self._unsubscribe()
        super().close()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._dirty[namespace, name] = None
            self._schedule()

    def _note_starts(self, keys: Iterable[Key]) -> None:
        self._dirty |= dict.fromkeys(keys)
        self._schedule()

    def _row_of(self, run: RunObject) -> RunRow:
        return row_of(run) if self._queue is None else row_of(run, self._queue.start_of(run))

    def _refresh(self) -> None:
        """Bring the rows up to date with the mirror."""
        if not self._dirty:
            return
        changed_keys, self._dirty = self._dirty, {}
        changes = []
        for key in changed_keys:
            before, run = self._rows.pop(key, None), self._mirror.runs.get(key)
            after = self._row_of(run) if run is not None else None
            if after is not None:
                self._rows[key] = after
            self.namespaces[key[0]] += (after is not None) - (before is not None)
            if not (before is not None and after is not None and after.looks_like(before)) and before is not after:
                changes.append(RowChange(key, before, after))
        self.namespaces += Counter()  # drops namespaces without runs
        self._record(changes)
