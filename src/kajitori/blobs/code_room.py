"""Limits the room that all archives of a namespace's code together take in the store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from kajitori.blobs.stores.blobs import Blobs
from kajitori.codepack.packing import shown_size
from kajitori.errors import TooLarge

FRESH_SECONDS = 60.0
"""Time for which a count is used. Files that this server stores meanwhile are added to it."""

BYTES, FILES = "bytes", "files"

_NAMED_ARCHIVES = 5
_NAMED_RUNS = 3
_DIGITS = 12


class NamespaceFull(TooLarge):
    """There is no room left for a namespace's code."""

    def __init__(
        self,
        namespace: str,
        used: str,
        allowed: str,
        largest: Sequence[tuple[str, int]],
        runs: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`used` and `allowed` are texts. `largest` has digests and sizes in bytes of the largest archives, and `runs`
        the names of the runs that refer to each digest, if they are known."""
        self._facts = namespace, used, allowed, largest
        named = ", ".join(_description_of(digest, size_bytes, runs) for digest, size_bytes in largest)
        super().__init__(
            f"there is no room for more code in namespace {namespace}: it uses {used}, {allowed} are allowed. "
            f"The largest: {named or 'none'}",
            hint="remove runs that are no longer needed (kaji rm): unused code is removed within two days",
        )

    def with_runs(self, runs: Mapping[str, Collection[str]]) -> NamespaceFull:
        """Return the same error with the names of the runs that keep the largest archives."""
        return NamespaceFull(*self._facts, runs)


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """The limits for the code of one namespace; None means no limit."""

    size_bytes: int | None = None
    """Compressed size."""
    files: int | None = None
    """Number of files of any size: a store keeps a name, and a block or a record, for each."""


class CodeRoom:
    """Counts the room of all namespaces. Several servers may each store a little more than allowed before they
    notice."""

    def __init__(
        self,
        blobs: Blobs,
        root: str,
        limits: Callable[[], RoomLimits],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keys of files are ROOT/NAMESPACE/DIGITS/…, with the digits of the archive's digest."""
        self._blobs = blobs
        self._root = root
        self._limits = limits
        self._clock = clock
        self._known: dict[str, tuple[float, int, int]] = {}
        """By namespace: the time of the count, and the bytes and files, including files that were stored since."""

    async def take(self, namespace: str, size_bytes: int) -> None:
        """Count a file of this size as stored. Raises NamespaceFull if there is no room for it."""
        room = self._limits()
        if room.size_bytes is None and room.files is None:
            return
        at, used, files = self._known.get(namespace, (-FRESH_SECONDS, 0, 0))
        if self._clock() - at >= FRESH_SECONDS or _exceeded_limit(room, used + size_bytes, files + 1):
            at, (held, files) = self._clock(), await self._count(namespace)
            used = held.total()
            if excess := _exceeded_limit(room, used + size_bytes, files + 1):
                self._known[namespace] = at, used, files
                taken = f"{files} files" if excess == FILES else f"{shown_size(used)} (compressed)"
                allowed = f"{room.files} files" if excess == FILES else shown_size(room.size_bytes or 0)
                raise NamespaceFull(namespace, taken, allowed, held.most_common(_NAMED_ARCHIVES))
        self._known[namespace] = at, used + size_bytes, files + 1

    async def _count(self, namespace: str) -> tuple[Counter[str], int]:
        """Return the size of each archive, and the number of all files."""
        held: Counter[str] = Counter()
        files = 0
        async with aclosing(self._blobs.under(f"{self._root}/{namespace}")) as blobs:
            async for blob in blobs:
                held[f"sha256:{blob.key.split('/')[2]}"] += blob.size_bytes
                files += 1
        return held, files


def _exceeded_limit(room: RoomLimits, size_bytes: int, files: int) -> str:
    """Return the limit that would be exceeded: BYTES or FILES; empty if none would be."""
    if room.files is not None and files > room.files:
        return FILES
    return BYTES if room.size_bytes is not None and size_bytes > room.size_bytes else ""


def _description_of(digest: str, size_bytes: int, runs: Mapping[str, Collection[str]] | None) -> str:
    words = f"{digest[: len('sha256:') + _DIGITS]}… ({shown_size(size_bytes)}"
    if runs is None:
        return f"{words})"
    users = sorted(runs.get(digest, ()))
    more = f" and {len(users) - _NAMED_RUNS} more" if len(users) > _NAMED_RUNS else ""
    return f"{words}, {'of ' + ', '.join(users[:_NAMED_RUNS]) + more if users else 'of no run'})"
