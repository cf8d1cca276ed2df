"""Waiting and running runs with their expected times as rows of tables, and their changes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from kajitori.api.streams.live_rows import LiveRows, RowChange
from kajitori.api.views.queue import QueueCounts, QueueKey, QueueTableRow, QueueView
from kajitori.cluster.background import cancel_all
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.core.spec.reasons import Phase
from kajitori.errors import KajitoriError
from kajitori.kube.resources import Resource

log = logging.getLogger(__name__)

SHARE = 0.05
"""Largest share of the time that is spent on working out the expected times, however many pages are open."""
SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 10.0
"""Shortest and longest pause between two rounds."""
AGAIN_SECONDS = 30.0
"""Time after which expected times are worked out again, although nothing has changed in the cluster."""

STATES = ("waiting", "running", "dependent")


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One run as a row, the row's JSON, and the text that is searched."""

    summary: QueueTableRow
    json: bytes
    text: str

    @property
    def state(self) -> str:
        return self.summary.state

    @property
    def key_json(self) -> bytes:
        return msgspec.json.encode(QueueKey(namespace=self.summary.namespace, name=self.summary.name))


def row_of(summary: QueueTableRow) -> QueueRow:
    """Return the row with its JSON and its text."""
    words = (summary.name, summary.namespace, summary.owner, summary.gpu_type, summary.reason, summary.nodes)
    others = (other.run for other in summary.after)
    return QueueRow(summary, msgspec.json.encode(summary), "\n".join((*words, *others)).casefold())


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """The runs that a list or a stream shows. Empty sets exclude nothing."""

    states: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    gpu_types: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    """Each has to occur in the run's name, namespace, owner, GPU type, reason or nodes, in any case."""

    def covers(self, row: QueueRow) -> bool:
        """Whether a run matches, whether it waits or runs."""
        run = row.summary
        return (
            (not self.namespaces or run.namespace in self.namespaces)
            and (not self.owners or run.owner in self.owners)
            and (not self.gpu_types or run.gpu_type in self.gpu_types)
            and all(word in row.text for word in self.words)
        )

    def matches(self, row: QueueRow) -> bool:
        """Whether a run matches."""
        return (not self.states or row.state in self.states) and self.covers(row)

    def counts(self, states: Mapping[str, int]) -> QueueCounts:
        """Return the view of the number of covered runs by state."""
        by_state = {state: states[state] for state in STATES if states.get(state)}
        total = sum(number for state, number in by_state.items() if not self.states or state in self.states)
        return QueueCounts(total=total, states=by_state)

    @property
    def digest(self) -> str:
        """A short text that differs between filters."""
        conditions = [sorted(each) for each in (self.states, self.namespaces, self.owners, self.gpu_types, self.words)]
        return hashlib.blake2s(repr(conditions).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one round: the view of the queue, and the rows of all waiting and running runs."""

    view: QueueView
    rows: Sequence[QueueRow] = field(default=())


Make = Callable[[], Awaitable[Outcome]]


class QueueRows(LiveRows[Key, QueueRow]):
    """The rows of all runs that wait or run, and a log of their latest changes.

    Expected times depend on the whole cluster, so all rows are worked out together: while streams are open whenever the
    cluster has changed, otherwise when they are asked for.
    """

    def __init__(self, mirror: Mirror, clock: Callable[[], float]) -> None:
        super().__init__()
        self.view: QueueView | None = None
        """The queue as the last round found it."""
        self._clock = clock
        self._changed = asyncio.Event()
        self._valid_until = 0.0
        self._turn = asyncio.Lock()
        self._readers = 0
        self._task: asyncio.Task[None] | None = None
        self._tell_changed: list[Callable[[Iterable[Key]], None]] = []
        self._unsubscribe = mirror.on_change(self._note)

    def close(self) -> None:
        """Stop following the mirror."""
        self._unsubscribe()
        super().close()

    def on_change(self, tell: Callable[[Iterable[Key]], None]) -> None:
        """Call `tell` after each round with the runs whose rows have changed."""
        self._tell_changed.append(tell)

    def start_of(self, run: RunObject) -> str:
        """Return when a waiting run is expected to start, as the last round found it; empty if that is not known or the
        run does not wait."""
        row = self._rows.get((run.metadata.namespace, run.metadata.name))
        waits = row is not None and row.state != "running" and row.summary.uid == run.metadata.uid
        return row.summary.starts_at if row is not None and waits and run.current_status.phase is Phase.QUEUED else ""

    async def update(self, make: Make) -> None:
        """Work out all rows, unless they are still good enough. Callers at the same time share one round."""
        async with self._turn:
            began = self._clock()
            if began < self._valid_until:
                return
            self._changed.clear()
            outcome = await make()
            self._valid_until = self._clock() + min((self._clock() - began) / SHARE, LONGEST_SECONDS)
            self.view = outcome.view
            self._replace({(row.summary.namespace, row.summary.name): row for row in outcome.rows})

    @asynccontextmanager
    async def kept_current(self, make: Make) -> AsyncIterator[None]:
        """Work out the rows again and again while the context lasts; all open streams share the rounds."""
        await self.update(make)
        self._readers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._follow_cluster(make), name="queue-rows")
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and self._task is not None:
                task, self._task = self._task, None
                await cancel_all([task])

    async def _follow_cluster(self, make: Make) -> None:
        while True:
            await asyncio.sleep(max(SHORTEST_SECONDS, self._valid_until - self._clock()))
            try:
                async with asyncio.timeout(AGAIN_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass
            try:
                await self.update(make)
            except KajitoriError as error:
                log.info("the expected times of the queue cannot be worked out now: %s", error)
            except Exception:
                log.exception("the expected times of the queue cannot be worked out; this is a bug")

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        self._changed.set()

    def _refresh(self) -> None:
        """The rows change in `update` alone."""

    def _replace(self, rows: dict[Key, QueueRow]) -> None:
        before, self._rows = self._rows, rows
        keys = before.keys() | rows.keys()
        changes = [RowChange(key, before.get(key), rows.get(key)) for key in keys]
        changes = [change for change in changes if change.before != change.after]
        self._record(changes)
        self._notify()
        for tell in self._tell_changed:
            tell(change.key for change in changes)
