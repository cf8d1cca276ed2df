"""How much room a namespace's code may take in the store, all archives together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from kajitori.blobs.blobs import Blobs
from kajitori.codepack.packing import shown_size
from kajitori.errors import TooLarge

FRESH_SECONDS = 60.0
"""How long is believed what was counted; what this server stores meanwhile is added."""

BYTES, FILES = "bytes", "files"

_NAMED_ARCHIVES = 5
_NAMED_RUNS = 3
_DIGITS = 12


class NamespaceFull(TooLarge):
    """A namespace's code takes all that it may."""

    def __init__(
        self,
        namespace: str,
        used: str,
        allowed: str,
        largest: Sequence[tuple[str, int]],
        runs: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`used` and `allowed` in words. `largest` are digests and bytes; `runs`, where they are known, the names of
        those that refer to a digest."""
        self._facts = namespace, used, allowed, largest
        named = ", ".join(_named(digest, size_bytes, runs) for digest, size_bytes in largest)
        super().__init__(
            f"there is no room for more code in namespace {namespace}: it takes {used}, {allowed} are allowed. "
            f"The largest: {named or 'none'}",
            hint="remove runs that are not needed any more (kaji rm): code that no run refers to goes within two days",
        )

    def with_runs(self, runs: Mapping[str, Collection[str]]) -> NamespaceFull:
        """The same, with the names of the runs that keep the largest archives."""
        return NamespaceFull(*self._facts, runs)


@dataclass(frozen=True, slots=True)
class Room:
    """What the code of one namespace may take; None: not limited."""

    size_bytes: int | None = None
    """Compressed."""
    files: int | None = None
    """Whatever their size: a store keeps a name, and a block or a record, for each."""


class Rooms:
    """Of all namespaces. Several servers may each store a little more than is allowed before they notice."""

    def __init__(
        self,
        blobs: Blobs,
        root: str,
        limits: Callable[[], Room],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Under `root` in the store lie namespaces, and in each its archives by the digits of their digests."""
        self._blobs = blobs
        self._root = root
        self._limits = limits
        self._clock = clock
        self._known: dict[str, tuple[float, int, int]] = {}
        """When it was counted, and how many bytes and files there were; what was stored since is added."""

    async def take(self, namespace: str, size_bytes: int) -> None:
        """Counts a file of so many bytes as stored. Raises NamespaceFull where there is no room for it."""
        room = self._limits()
        if room.size_bytes is None and room.files is None:
            return
        at, used, files = self._known.get(namespace, (-FRESH_SECONDS, 0, 0))
        if self._clock() - at >= FRESH_SECONDS or _excess(room, used + size_bytes, files + 1):
            at, (held, files) = self._clock(), await self._count(namespace)
            used = held.total()
            if excess := _excess(room, used + size_bytes, files + 1):
                self._known[namespace] = at, used, files
                taken = f"{files} files" if excess == FILES else f"{shown_size(used)} (compressed)"
                allowed = f"{room.files} files" if excess == FILES else shown_size(room.size_bytes or 0)
                raise NamespaceFull(namespace, taken, allowed, held.most_common(_NAMED_ARCHIVES))
        self._known[namespace] = at, used + size_bytes, files + 1

    async def _count(self, namespace: str) -> tuple[Counter[str], int]:
        """The bytes of each archive, and the files of all."""
        held: Counter[str] = Counter()
        files = 0
        async with aclosing(self._blobs.under(f"{self._root}/{namespace}")) as blobs:
            async for blob in blobs:
                held[f"sha256:{blob.key.split('/')[2]}"] += blob.size_bytes
                files += 1
        return held, files


def _excess(room: Room, size_bytes: int, files: int) -> str:
    """What there would be too much of; empty where it fits."""
    if room.files is not None and files > room.files:
        return FILES
    return BYTES if room.size_bytes is not None and size_bytes > room.size_bytes else ""


def _named(digest: str, size_bytes: int, runs: Mapping[str, Collection[str]] | None) -> str:
    said = f"{digest[: len('sha256:') + _DIGITS]}… ({shown_size(size_bytes)}"
    if runs is None:
        return f"{said})"
    users = sorted(runs.get(digest, ()))
    more = f" and {len(users) - _NAMED_RUNS} more" if len(users) > _NAMED_RUNS else ""
    return f"{said}, {'of ' + ', '.join(users[:_NAMED_RUNS]) + more if users else 'of no run'})"
