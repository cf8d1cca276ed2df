"""All runs as rows of tables, and what changed in them, shared by every list and every stream of changes.

Each version of a run is encoded once. Streams keep no backlog: a stream remembers only the version that its reader has,
and asks for the changes since then when the reader is ready for more. Changes that are too old are not kept; a reader
that needs them gets a snapshot. So a slow reader costs no memory, and no stream costs a watch on the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from kajitori.api.views.runs import RunCounts, RunKey, RunTableRow, run_summary
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.stored import read_stored
from kajitori.core.words.selectors import LabelSelector
from kajitori.kube.resources import Resource

BATCH_SECONDS = 1.0
"""Shortest time between two batches of changes."""

LOG_LENGTH = 10_000
"""Number of changes of runs that are kept for readers that reconnect or are slow."""


@dataclass(frozen=True, slots=True, eq=False)
class RunRow:
    """One run as a row: its summary, the summary's JSON, and the text that is searched."""

    run: RunObject
    summary: RunTableRow
    json: bytes
    text: str

    def looks_like(self, other: RunRow) -> bool:
        """Whether both are the same to every reader and every filter."""
        labels = self.run.metadata.labels == other.run.metadata.labels
        return labels and self.json == other.json and self.text == other.text


def row_of(run: RunObject) -> RunRow:
    """Return the row of a Run."""
    meta, spec = run.metadata, read_stored(run.spec)
    summary = run_summary(run, spec)
    labels = (f"{key}={value}" for key, value in meta.labels.items())
    text = "\n".join((meta.name, meta.namespace, run.owner, spec.image, *labels)).casefold()
    return RunRow(run, summary, msgspec.json.encode(summary), text)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The runs that a list or a stream shows. Empty sets and texts exclude nothing."""

    namespaces: frozenset[str] | None = None
    """None: all namespaces. An empty set: none."""
    owners: frozenset[str] = frozenset()
    phases: frozenset[Phase] = frozenset()
    active: bool = False
    words: frozenset[str] = frozenset()
    """Each has to occur in the run's name, namespace, owner, image or labels, in any case."""
    selector_text: str = ""
    selector: LabelSelector = field(default=LabelSelector(), compare=False)

    def covers(self, row: RunRow) -> bool:
        """Whether a run matches, whatever its phase."""
        meta = row.run.metadata
        return (
            (self.namespaces is None or meta.namespace in self.namespaces)
            and (not self.owners or row.summary.owner in self.owners)
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
        found = {phase.value: phases[phase] for phase in Phase if phases.get(phase)}
        return RunCounts(total=sum(phases.get(phase, 0) for phase in Phase if self.allows(phase)), phases=found)

    @property
    def digest(self) -> str:
        """A short text that differs between filters."""
        told = (
            None if self.namespaces is None else sorted(self.namespaces),
            sorted(self.owners),
            sorted(self.phases),
            self.active,
            sorted(self.words),
            self.selector_text,
        )
        return hashlib.blake2s(repr(told).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class RowChange:
    """A run before and after a change; None: it did not exist."""

    key: Key
    before: RunRow | None
    after: RunRow | None


@dataclass(eq=False, slots=True)
class Selection:
    """The filter of open streams, with the number of covered runs by phase."""

    filter: RunFilter
    phases: Counter[Phase]
    digest: str
    users: int = 0

    def note(self, changes: Iterable[RowChange]) -> None:
        """Count changes."""
        for change in changes:
            for row, number in ((change.before, -1), (change.after, 1)):
                if row is not None and self.filter.covers(row):
                    self.phases[row.summary.phase] += number


class RunRows:
    """The rows of all runs that the mirror holds, and a log of their latest changes."""

    def __init__(self, mirror: Mirror) -> None:
        self.namespaces: Counter[str] = Counter()
        """Number of runs by namespace."""
        self._mirror = mirror
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._rows: dict[Key, RunRow] = {}
        self._dirty: dict[Key, None] = dict.fromkeys(mirror.runs)
        self._log: deque[tuple[int, list[RowChange]]] = deque()
        self._logged = 0
        self._dropped = 0
        """Highest version whose changes are not in the log any more."""
        self._selections: dict[RunFilter, Selection] = {}
        self._batches: dict[tuple[str, int], bytes] = {}
        """Batches up to the present version, by selection and the version before."""
        self._wake = asyncio.Event()
        self._announced = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next_batch_at = 0.0
        self._unsubscribe = mirror.on_change(self._note)

    def close(self) -> None:
        """Stop following the mirror."""
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rows(self) -> Iterable[RunRow]:
        """Return the rows of all runs as the mirror shows them now."""
        self._refresh()
        return self._rows.values()

    def token(self, run_filter: RunFilter) -> str:
        """Return the present version, as a reader with this filter sends it back to `since`."""
        return self._token(run_filter.digest)

    # ------------------------------------------------------------------------------------------ streams

    @contextmanager
    def selecting(self, run_filter: RunFilter) -> Iterator[Selection]:
        """Yield the selection of these runs, which is shared with other streams, while the context lasts."""
        self._refresh()
        selection = self._selections.get(run_filter)
        if selection is None:
            phases = Counter(row.summary.phase for row in self._rows.values() if run_filter.covers(row))
            selection = self._selections[run_filter] = Selection(run_filter, phases, run_filter.digest)
        selection.users += 1
        try:
            yield selection
        finally:
            selection.users -= 1
            if not selection.users:
                del self._selections[run_filter]

    def version_of(self, token: str, selection: Selection) -> int | None:
        """Return the version that a token stands for; None if the changes since then are not known."""
        epoch, _, rest = token.partition(".")
        digest, _, text = rest.partition(".")
        if epoch != self._epoch or digest != selection.digest or not (text.isascii() and text.isdigit()):
            return None
        version = int(text)
        return version if version <= self._version and self.can_continue(version) else None

    def token_at(self, selection: Selection, version: int) -> str:
        """Return the token of a reader that has this version."""
        return self._token(selection.digest, version)

    def can_continue(self, version: int) -> bool:
        """Whether all changes since this version are known."""
        return version >= self._dropped

    def snapshot(self, selection: Selection, *, items: bool) -> tuple[int, Iterator[bytes]]:
        """Return the present version, and the event of the stream that shows all selected runs, in pieces."""
        self._refresh()
        rows = [row.json for row in self._rows.values() if selection.filter.matches(row)] if items else []
        return self._version, self._event("snapshot", selection, {"items": rows})

    def changes(self, selection: Selection, since: int) -> tuple[int, bytes]:
        """Return the present version, and the event of the stream with the changes since a version that can be
        continued; empty if there are none."""
        self._refresh()
        known = self._batches.get((selection.digest, since))
        if known is None:
            known = self._batches[selection.digest, since] = self._batch(selection, since)
        return self._version, known

    def heartbeat(self, selection: Selection, version: int) -> bytes:
        """Return an event without data. It keeps the connection open, and the reader remembers the version."""
        return f"id: {self.token_at(selection, version)}\n\n".encode()

    async def newer_than(self, version: int, timeout_seconds: float) -> bool:
        """Wait for the next batch if none is newer than this version. Returns False after the timeout."""
        if self._announced > version:
            return True
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def _batch(self, selection: Selection, since: int) -> bytes:
        added: list[bytes] = []
        changed: list[bytes] = []
        removed: list[bytes] = []
        is_touched = False
        for change in self._since(since):
            before, after = change.before, change.after
            is_touched |= any(row is not None and selection.filter.covers(row) for row in (before, after))
            matched = before is not None and selection.filter.matches(before)
            if after is not None and selection.filter.matches(after):
                (changed if matched else added).append(after.json)
            elif before is not None and matched:
                gone = before.summary
                removed.append(msgspec.json.encode(RunKey(namespace=gone.namespace, name=gone.name, uid=gone.uid)))
        if not is_touched:
            return b""
        return b"".join(self._event("changes", selection, {"added": added, "changed": changed, "removed": removed}))

    def _since(self, version: int) -> Iterable[RowChange]:
        """Return one change for each run that changed after this version."""
        found: dict[Key, RowChange] = {}
        for until, changes in reversed(self._log):
            if until <= version:
                break
            for change in changes:
                later = found.get(change.key)
                found[change.key] = RowChange(change.key, change.before, change.after if later is None else later.after)
        return [change for change in found.values() if change.before is not None or change.after is not None]

    def _event(self, kind: str, selection: Selection, lists: Mapping[str, list[bytes]]) -> Iterator[bytes]:
        """Yield an event in pieces of bounded size."""
        counts = msgspec.json.encode(selection.filter.counts(selection.phases)).decode()
        head = f'id: {self._token(selection.digest)}\nevent: {kind}\ndata: {{"counts":{counts}'.encode()
        return _pieces(head, lists)

    def _token(self, digest: str, version: int | None = None) -> str:
        return f"{self._epoch}.{digest}.{self._version if version is None else version}"

    # ------------------------------------------------------------------------------------------ changes

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._dirty[namespace, name] = None
            if self._selections and self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_at(max(loop.time(), self._next_batch_at), self._announce)

    def _announce(self) -> None:
        self._timer = None
        self._next_batch_at = asyncio.get_running_loop().time() + BATCH_SECONDS
        self._refresh()
        if self._announced < self._version:
            self._announced = self._version
            wake, self._wake = self._wake, asyncio.Event()
            wake.set()

    def _refresh(self) -> None:
        """Bring the rows up to date with the mirror."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        changes = []
        for key in dirty:
            before, run = self._rows.pop(key, None), self._mirror.runs.get(key)
            after = row_of(run) if run is not None else None
            if after is not None:
                self._rows[key] = after
            self.namespaces[key[0]] += (after is not None) - (before is not None)
            if not (before is not None and after is not None and after.looks_like(before)) and before is not after:
                changes.append(RowChange(key, before, after))
        self.namespaces += Counter()  # drops namespaces without runs
        if not changes:
            return
        self._version += 1
        self._batches.clear()
        self._log.append((self._version, changes))
        self._logged += len(changes)
        while self._logged > LOG_LENGTH:
            self._dropped, oldest = self._log.popleft()
            self._logged -= len(oldest)
        for selection in self._selections.values():
            selection.note(changes)


_PIECE_ITEMS = 128


def _pieces(head: bytes, lists: Mapping[str, list[bytes]]) -> Iterator[bytes]:
    for name, items in lists.items():
        yield head + f',"{name}":['.encode()
        for start in range(0, len(items), _PIECE_ITEMS):
            yield (b"," if start else b"") + b",".join(items[start : start + _PIECE_ITEMS])
        head = b"]"
    yield head + b"}\n\n"
