"""The interface to a store of blobs: bytes under keys, written as a whole or not at all.

A key is a path of plain segments (`code/vision/…`). Every store raises the same errors: NotFound (no such blob),
Unavailable (it does not answer, or refuses this server), StorageFull. Their messages never contain
credentials, neither from the URL's options nor from a cloud's answer.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from kajitori.errors import NotFound, StorageFull, TooLarge

CHUNK_BYTES = 1 << 20
"""Size of the pieces in which blobs are read."""
CONCURRENT_READS = 32
"""Blobs that `read_many` reads at once."""


_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199})*", re.ASCII)
_MAX_KEY_LENGTH = 900  # Azure and S3 allow 1024, with the prefix of the URL


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob's properties, without its content."""

    key: str
    size_bytes: int
    modified_at: datetime
    """By the clock of the store."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Number and size of the blobs under a prefix."""

    blobs: int
    size_bytes: int


class Blobs(ABC):
    """A store of blobs. Any number of processes may use it at the same time."""

    look_seconds = 2.0
    """Interval at which a process looks for blobs that it expects from another process. Cloud stores charge for each
    look."""

    def __init__(self, where: str) -> None:
        self.where = where
        """`where` is the store's URL without secrets, for messages to users."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    async def put(self, key: str, content: bytes | AsyncIterable[bytes]) -> int:
        """Store a blob, replacing an existing one. Return its size in bytes.

        Readers see the old content until it returns. If it fails, is cancelled, or its process dies, the old content
        stays.
        """

    @abstractmethod
    async def create(self, key: str, content: bytes) -> bool:
        """Store a small blob unless there is one with this key. Return whether it was stored: of several processes
        that create the same blob, one succeeds."""

    @abstractmethod
    def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the blob's bytes from `start` on, at most `length`, as they arrive. Raises NotFound before the
        first."""

    @abstractmethod
    async def head(self, key: str) -> Blob:
        """Return the blob's properties. Raises NotFound."""

    @abstractmethod
    def under(self, prefix: str = "") -> AsyncGenerator[Blob, None]:
        """Yield the blobs below `prefix/` in the order of their keys; all blobs for an empty prefix."""

    @abstractmethod
    async def delete(self, *keys: str) -> None:
        """Remove blobs; a missing one counts as removed."""

    async def read(self, key: str, *, limit_bytes: int) -> bytes:
        """Return a whole small blob. Raises NotFound; TooLarge for one over the limit."""
        pieces = []
        size = 0
        async with aclosing(self.get(key)) as content:
            async for piece in content:
                size += len(piece)
                if size > limit_bytes:
                    raise TooLarge(f"blob {key} has more than {limit_bytes} bytes")
                pieces.append(piece)
        return b"".join(pieces)

    async def read_many(self, keys: Sequence[str], *, limit_bytes: int) -> dict[str, bytes]:
        """Return small blobs by their keys. Blobs that are missing or over the limit are left out."""
        slots = asyncio.Semaphore(CONCURRENT_READS)

        async def one(key: str) -> tuple[str, bytes] | None:
            async with slots:
                try:
                    return key, await self.read(key, limit_bytes=limit_bytes)
                except (NotFound, TooLarge):
                    return None

        return dict(filter(None, await asyncio.gather(*map(one, keys))))

    async def usage(self, prefix: str = "") -> Usage:
        """Return how many blobs are under a prefix, and their total size."""
        blobs = size = 0
        async with aclosing(self.under(prefix)) as found:
            async for blob in found:
                blobs += 1
                size += blob.size_bytes
        return Usage(blobs, size)

    async def now(self) -> datetime:
        """Return the time by the store's own clock, the only one that may measure the age of blobs.

        It writes and removes a small blob, so it also shows whether the store can be written.
        """
        key = f"probe/{secrets.token_hex(16)}"
        await self.put(key, b"?")
        try:
            return (await self.head(key)).modified_at
        finally:
            await self.delete(key)


def is_path(text: str) -> bool:
    """Return whether a text is a path of plain segments, as keys and prefixes of keys are."""
    return _PATH.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Return the key. Raises ValueError for one that is too long, could leave the store or is ambiguous."""
    if len(key) > _MAX_KEY_LENGTH or not is_path(key):
        raise ValueError(f"{key!r:.200} is not a blob's key")
    return key


def no_such_blob(key: str, where: str) -> NotFound:
    """Return the error for a missing blob."""
    return NotFound(f"there is no blob {key} in {where}")


def store_full(where: str) -> StorageFull:
    """Return the error for a store without free space."""
    hint = "its operators have to make room there; nothing was stored"
    return StorageFull(f"the store {where} is full", hint=hint)
