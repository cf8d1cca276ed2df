"""One interface to a store of blobs: bytes under keys, written whole or not at all.

A key is a path of plain segments (`code/vision/…`). Every store says what went wrong in the same errors: NotFound (no
such blob), Unavailable (it does not answer, or refuses this server), StorageFull. What these say never
holds credentials: neither those of the URL's options nor what a cloud's answer repeats of them.
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kajitori.errors import Fault, InvalidInput, NotFound, StorageFull, TooLarge

CHUNK_BYTES = 1 << 20
"""Pieces in which blobs are read."""


_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199})*", re.ASCII)
_MAX_KEY_LENGTH = 900  # Azure and S3 take 1024, with the prefix of the URL
_PLACES = ("s3", "az", "gs")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{2,221}", re.ASCII)
"""No cloud has shorter ones; capitals and '_' old ones have."""


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


async def open_blobs(url: str, options: Mapping[str, str] | None = None, *, field: str = "blobs") -> Blobs:
    """The store at a URL: `file:///folder`, `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix`.

    `options` are the settings of the S3, Azure or Google client in object_store's words (`endpoint`, `region`,
    `access_key_id`, `account_name`, …); what they leave open is taken from the environment, as those clouds' own tools
    do. A folder is made if it is missing, and what a crashed writer left in it is removed. `field` is how messages name
    the setting. Raises InvalidInput with every fault at once, Unavailable where a folder can't be used.
    """
    options = dict(options or {})
    faults: list[Fault] = []
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    place = field if field.startswith("--") else f"{field}.url"
    if parts.scheme not in (*_PLACES, "file"):
        hint = "such as file:///var/lib/kajitori/blobs, s3://bucket/prefix, az://container/prefix or gs://bucket/prefix"
        raise InvalidInput.one(place, "names no kind of store", value=parts.scheme[:80], hint=hint)
    if "@" in parts.netloc or parts.query or parts.fragment:
        hint = "credentials and settings stand in the environment" + (
            "" if field.startswith("--") else f" or in {field}.options"
        )
        faults.append(Fault(place, "has more than a place and a path", shown, hint))
    if parts.scheme == "file":
        folder = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not folder.startswith("/") or "\0" in folder:
            faults.append(Fault(place, "is not the path of a folder", shown, "write file:///var/lib/kajitori/blobs"))
        if options:
            message = "a folder takes no options"
            faults += [Fault(f"{field}.options.{name}", message, hint="leave it out") for name in sorted(options)]
        if faults:
            raise InvalidInput(faults)
        from kajitori.blobs.folder import open_folder

        return await open_folder(Path(folder))
    prefix = parts.path.strip("/")
    what, bucket = "container" if parts.scheme == "az" else "bucket", parts.netloc.rpartition("@")[2]
    example = f"{parts.scheme}://{what}/prefix"
    if not bucket:
        faults.append(Fault(place, f"names no {what}", shown, f"write {example}"))
    elif not _BUCKET.fullmatch(bucket):
        hint = f"a {what} has 3 characters or more: letters, digits, '-', '_' and '.'; write {example}"
        faults.append(Fault(place, f"{bucket!r:.80} can't be the name of a {what}", shown, hint))
    if prefix and not _KEY.fullmatch(prefix):
        hint = "letters, digits, '-', '_' and '.' between slashes; no part begins with a dot"
        faults.append(Fault(place, f"{prefix!r:.80} is no prefix", shown, hint))
    if faults:
        raise InvalidInput(faults)
    from kajitori.blobs.cloud import open_objects

    return open_objects(parts.scheme, parts.netloc, prefix, options, field=field)


def check_key(key: str) -> str:
    """The key itself. Raises ValueError for what could leave the store or mean two things."""
    if len(key) > _MAX_KEY_LENGTH or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.200} is not a blob's key")
    return key


def no_such_blob(key: str, where: str) -> NotFound:
    """The error for a blob that is not there."""
    return NotFound(f"there is no blob {key} in {where}")


def store_full(where: str) -> StorageFull:
    """The error for a store that has no room left."""
    hint = "whoever runs the platform has to make room there; nothing was stored"
    return StorageFull(f"the store {where} is full", hint=hint)
