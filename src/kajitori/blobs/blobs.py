"""One interface to a store of blobs: bytes under keys, written whole or not at all.

A key is a path of plain segments (`code/vision/…`). Every store says what went wrong in the same errors: NotFound (no
such blob), Unavailable (it does not answer, or refuses this server), StorageFull. What these say never
holds credentials: neither those of the URL's options nor what a cloud's answer repeats of them.
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from kajitori.errors import NotFound, StorageFull, TooLarge

CHUNK_BYTES = 1 << 20
"""Pieces in which blobs are read."""


_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199})*", re.ASCII)
_MAX_KEY_LENGTH = 900  # Azure and S3 take 1024, with the prefix of the URL


@dataclass(frozen=True, slots=True)
class Blob:
    """What is known of a blob without reading it."""

    key: str
    size_bytes: int
    modified_at: datetime
    """By the clock of the store."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much lies under a prefix."""

    blobs: int
    size_bytes: int


class Blobs(ABC):
    """A store of blobs. All of it may be called at once, by any number of processes."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The store in words for people: its URL, which holds no secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    async def put(self, key: str, content: bytes | AsyncIterable[bytes]) -> int:
        """Stores a blob, in place of one that was there; answers its size in bytes.

        Until it returns, readers see what was there before: also when it fails, is cancelled, or its process dies.
        """

    @abstractmethod
    def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The blob's bytes from `start` on, at most `length`, as they come. Raises NotFound before the first."""

    @abstractmethod
    async def head(self, key: str) -> Blob:
        """What is known of a blob. Raises NotFound."""

    @abstractmethod
    def under(self, prefix: str = "") -> AsyncGenerator[Blob, None]:
        """The blobs whose keys begin with `prefix/` (empty: all), in the order of their keys."""

    @abstractmethod
    async def delete(self, *keys: str) -> None:
        """Removes blobs. One that is not there is as good as removed."""

    async def read(self, key: str, *, limit_bytes: int) -> bytes:
        """A whole small blob. Raises NotFound; TooLarge for one over the limit."""
        pieces = []
        size = 0
        async with aclosing(self.get(key)) as content:
            async for piece in content:
                size += len(piece)
                if size > limit_bytes:
                    raise TooLarge(f"blob {key} has more than {limit_bytes} bytes")
                pieces.append(piece)
        return b"".join(pieces)

    async def usage(self, prefix: str = "") -> Usage:
        """How many blobs lie under a prefix, and how many bytes they hold."""
        blobs = size = 0
        async with aclosing(self.under(prefix)) as found:
            async for blob in found:
                blobs += 1
                size += blob.size_bytes
        return Usage(blobs, size)

    async def now(self) -> datetime:
        """What time it is by the store's own clock: the only one that ages of blobs may be measured with.

        It writes and removes a small blob, so it also tells whether the store can be written.
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
    """The error for a blob that is not there."""
    return NotFound(f"there is no blob {key} in {where}")


def store_full(where: str) -> StorageFull:
    """The error for a store that has no room left."""
    hint = "whoever runs the platform has to make room there; nothing was stored"
    return StorageFull(f"the store {where} is full", hint=hint)
