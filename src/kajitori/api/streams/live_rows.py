"""Rows of a table and their changes, shared by every list and every stream of changes of that table.

Each version of a row is encoded once. Streams keep no backlog: a stream remembers only the version that its reader has,
and asks for the changes since then when the reader is ready for more. Changes that are too old are not kept; a reader
that needs them gets a snapshot. So a slow reader costs no memory, and no stream costs a watch on the API server.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kajitori.api.answers.packed import Packed

BATCH_SECONDS = 1.0
"""Shortest time between two batches of changes."""

LOG_LENGTH = 10_000
"""Number of changes of rows that are kept for readers that reconnect or are slow."""

HEARTBEAT_SECONDS = 15.0
"""Time without changes after which a stream sends a heartbeat."""

RECONNECT_MILLIS = 2000
"""Time after which a browser opens a stream again that broke off."""

OPENING = f"retry: {RECONNECT_MILLIS}\n\n".encode()
"""The beginning of every stream of changes."""

_PIECE_ITEMS = 128


class TableRow(Protocol):
    """One row of a table."""

    @property
    def json(self) -> bytes:
        """The row as lists and streams show it."""

    @property
    def key_json(self) -> bytes:
        """The names that identify a row which no longer exists."""

    @property
    def state(self) -> Any:
        """The state by which rows are counted."""


K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=TableRow)
T = TypeVar("T", bound=TableRow, contravariant=True)


class RowFilter(Protocol[T]):
    """The rows that a list or a stream shows. Equal filters share their batches."""

    def __hash__(self) -> int: ...

    def covers(self, row: T) -> bool:
        """Whether a row matches, its state aside."""

    def matches(self, row: T) -> bool:
        """Whether a row matches."""

    def counts(self, states: Mapping[Any, int]) -> object:
        """Return the view of the number of covered rows by state."""

    @property
    def digest(self) -> str:
        """A short text that differs between filters."""


@dataclass(frozen=True, slots=True)
class RowChange(Generic[K, R]):
    """A row before and after a change; None: it did not exist."""

    key: K
    before: R | None
    after: R | None


@dataclass(eq=False, slots=True)
class Selection(Generic[R]):
    """The filter of open streams, with the number of covered rows by state."""

    filter: RowFilter[R]
    digest: str
    states: Counter[Any] = field(default_factory=Counter)
    users: int = 0

    def note(self, changes: Iterable[RowChange[Any, R]]) -> None:
        """Count changes."""
        for change in changes:
            for row, number in ((change.before, -1), (change.after, 1)):
                if row is not None and self.filter.covers(row):
                    self.states[row.state] += number


class LiveRows(ABC, Generic[K, R]):
    """The rows of one table, and a log of their latest changes. A subclass keeps them up to date in `_refresh`."""

    def __init__(self) -> None:
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._rows: dict[K, R] = {}
        self._log: deque[tuple[int, list[RowChange[K, R]]]] = deque()
        self._logged = 0
        self._dropped = 0
        """Highest version whose changes are not in the log any more."""
        self._selections: dict[RowFilter[R], Selection[R]] = {}
        self._encoded_batches: dict[tuple[str, int], bytes] = {}
        """Batches up to the present version, by selection and the version before."""
        self.answers: dict[str, Packed] = {}
        """Large answers about the present version, by their tags."""
        self._wake = asyncio.Event()
        self._announced = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next_batch_at = 0.0

    def close(self) -> None:
        """Stop announcing changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rows(self) -> Iterable[R]:
        """Return all rows as they are now."""
        self._refresh()
        return self._rows.values()

    def token(self, row_filter: RowFilter[R]) -> str:
        """Return the present version, as a reader with this filter sends it back to `since`."""
        return self._token(row_filter.digest)

    # ------------------------------------------------------------------------------------------ streams

    @contextmanager
    def selecting(self, row_filter: RowFilter[R]) -> Iterator[Selection[R]]:
        """Yield the selection of these rows, which is shared with other streams, while the context lasts."""
        self._refresh()
        selection = self._selections.get(row_filter)
        if selection is None:
            states = Counter(row.state for row in self._rows.values() if row_filter.covers(row))
            selection = self._selections[row_filter] = Selection(row_filter, row_filter.digest, states)
        selection.users += 1
        try:
            yield selection
        finally:
            selection.users -= 1
            if not selection.users:
                del self._selections[row_filter]

    async def follow(
        self, selection: Selection[R], token: str, *, items: bool, goes_on: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the token that the reader has after each piece of the stream, and the piece: a snapshot, or changes
        since `token`, then further changes and heartbeats while `goes_on` returns true."""
        since = self.version_of(token, selection)
        while goes_on():
            if since is None or not self.can_continue(since):
                since, pieces = self.snapshot(selection, items=items)
                for piece in pieces:
                    yield self.token_at(selection, since), piece
            else:
                since, batch = self.changes(selection, since)
                if batch:
                    yield self.token_at(selection, since), batch
            if not await self.newer_than(since, HEARTBEAT_SECONDS):
                yield self.token_at(selection, since), self.heartbeat(selection, since)

    def version_of(self, token: str, selection: Selection[R]) -> int | None:
        """Return the version that a token stands for; None if the changes since then are not known."""
        epoch, _, rest = token.partition(".")
        digest, _, text = rest.partition(".")
        if epoch != self._epoch or digest != selection.digest or not (text.isascii() and text.isdigit()):
            return None
        version = int(text)
        return version if version <= self._version and self.can_continue(version) else None

    def token_at(self, selection: Selection[R], version: int) -> str:
        """Return the token of a reader that has this version."""
        return self._token(selection.digest, version)

    def can_continue(self, version: int) -> bool:
        """Whether all changes since this version are known."""
        return version >= self._dropped

    def snapshot(self, selection: Selection[R], *, items: bool) -> tuple[int, Iterator[bytes]]:
        """Return the present version, and the event of the stream that shows all selected rows, in pieces."""
        self._refresh()
        rows = [row.json for row in self._rows.values() if selection.filter.matches(row)] if items else []
        return self._version, self._event("snapshot", selection, {"items": rows})

    def changes(self, selection: Selection[R], since: int) -> tuple[int, bytes]:
        """Return the present version, and the event of the stream with the changes since a version that can be
        continued; empty if there are none."""
        self._refresh()
        batch = self._encoded_batches.get((selection.digest, since))
        if batch is None:
            batch = self._encoded_batches[selection.digest, since] = self._batch(selection, since)
        return self._version, batch

    def heartbeat(self, selection: Selection[R], version: int) -> bytes:
        """Return an event that only says that the connection lives. A page that hears nothing for much longer than
        HEARTBEAT_SECONDS can tell that its connection is dead. The reader remembers the version."""
        return f"id: {self.token_at(selection, version)}\nevent: heartbeat\ndata: {{}}\n\n".encode()

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

    def _batch(self, selection: Selection[R], since: int) -> bytes:
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
                removed.append(before.key_json)
        if not is_touched:
            return b""
        return b"".join(self._event("changes", selection, {"added": added, "changed": changed, "removed": removed}))

    def _since(self, version: int) -> Iterable[RowChange[K, R]]:
        """Return one change for each row that changed after this version."""
        net_changes: dict[K, RowChange[K, R]] = {}
        for until, changes in reversed(self._log):
            if until <= version:
                break
            for change in changes:
                later = net_changes.get(change.key)
                net_changes[change.key] = RowChange(
                    change.key, change.before, change.after if later is None else later.after
                )
        return [change for change in net_changes.values() if change.before is not None or change.after is not None]

    def _event(self, kind: str, selection: Selection[R], lists: Mapping[str, list[bytes]]) -> Iterator[bytes]:
        """Yield an event in pieces of bounded size."""
        counts = msgspec.json.encode(selection.filter.counts(selection.states)).decode()
        head = f'id: {self._token(selection.digest)}\nevent: {kind}\ndata: {{"counts":{counts}'.encode()
        return _pieces(head, lists)

    def _token(self, digest: str, version: int | None = None) -> str:
        return f"{self._epoch}.{digest}.{self._version if version is None else version}"

    # ------------------------------------------------------------------------------------------ changes

    @abstractmethod
    def _refresh(self) -> None:
        """Bring the rows up to date, and record what changed."""

    def _schedule(self, pause_seconds: float = 0.0) -> None:
        """Announce changes to the open streams soon: at most one batch in BATCH_SECONDS, and none before the pause."""
        if self._selections and self._timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time() + pause_seconds, self._next_batch_at)
            self._timer = loop.call_at(at, self._announce)

    def _announce(self) -> None:
        self._timer = None
        self._next_batch_at = asyncio.get_running_loop().time() + BATCH_SECONDS
        self._refresh()
        self._notify()

    def _notify(self) -> None:
        """Wake the streams if there is something new."""
        if self._announced < self._version:
            self._announced = self._version
            wake, self._wake = self._wake, asyncio.Event()
            wake.set()

    def _record(self, changes: list[RowChange[K, R]]) -> None:
        """Make a new version of the table with these changes, which the rows have already."""
        if not changes:
            return
        self._version += 1
        self._encoded_batches.clear()
        self.answers.clear()
        self._log.append((self._version, changes))
        self._logged += len(changes)
        while self._logged > LOG_LENGTH:
            self._dropped, oldest = self._log.popleft()
            self._logged -= len(oldest)
        for selection in self._selections.values():
            selection.note(changes)


async def stream_of(
    rows: LiveRows[Any, R],
    row_filter: RowFilter[R],
    token: str,
    *,
    items: bool,
    within: AbstractAsyncContextManager[None] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the stream of changes of the rows that a filter selects, for a reader that has the version `token`.

    items: whether snapshots contain the rows. within: a context that stays open as long as the stream.
    """
    yield OPENING
    async with within or nullcontext():
        with rows.selecting(row_filter) as selection:
            async with aclosing(rows.follow(selection, token, items=items)) as pieces:
                async for _, piece in pieces:
                    yield piece


def _pieces(head: bytes, lists: Mapping[str, list[bytes]]) -> Iterator[bytes]:
    for name, items in lists.items():
        yield head + f',"{name}":['.encode()
        for start in range(0, len(items), _PIECE_ITEMS):
            yield (b"," if start else b"") + b",".join(items[start : start + _PIECE_ITEMS])
        head = b"]"
    yield head + b"}\n\n"
