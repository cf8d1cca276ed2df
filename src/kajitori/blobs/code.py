"""Users' code, stored under the digest of its archive: uploaded in parts, readable once complete, removed when unused.

Any number of servers may serve one upload, since all of its state is in the blobs. Below `code/NAMESPACE/DIGEST/`:

    parts/GENERATION/NUMBER-SHA256    a part as a Zstandard frame; every writer writes the same
    complete/GENERATION               the list of parts, written once the digest of the whole archive was checked
    closed/GENERATION                 a mark: from now on, users are told to upload the code again

Removal takes two steps, so that neither an upload nor a run that is just being submitted loses its code. A generation
that no run refers to is first closed, and uploads then begin the next one. After a while no new run can refer to
a closed generation, and its bytes are removed. Ages are measured by the store's own clock.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from kajitori.blobs.code_room import CodeRoom, NamespaceFull, RoomLimits
from kajitori.blobs.stores.blobs import Blob, Blobs, Usage
from kajitori.codepack.layout import END, check_digest
from kajitori.codepack.packing import shown_size
from kajitori.codepack.parts import MAX_COMPRESSED_BYTES, PART_BYTES, decompress
from kajitori.errors import Conflict, Fault, InvalidInput, NotFound, TooLarge, Unavailable

PARTS_MISSING = "PartsMissing"
WRONG_DIGEST = "WrongDigest"

FORGOTTEN_AFTER = timedelta(days=1)
"""Time for which the mark of a closed generation is kept after its bytes were removed. It is longer than any server
takes from a read to the write that depends on it."""

PREFIX = "code"
_CHECKS_AT_ONCE = 2
CACHE_BYTES = 128 << 20
_PIECE_BYTES = 1 << 17  # size of the buffer that each of a thousand slow readers may fill
_MAX_MANIFEST_BYTES = 4 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SHA256_HINT = "write 64 digits of 0-9 and a-f"
_KEY = re.compile(rf"{PREFIX}/([^/]+)/([0-9a-f]{{64}})/(parts|complete|closed)/([0-9]{{8}})(/.*)?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """Limits of the store."""

    size_bytes: int = 1 << 30
    """Size of one archive, uncompressed."""
    namespace_bytes: int | None = None
    """Size of all code of a namespace in the store, compressed."""
    namespace_files: int | None = None
    """Number of files of a namespace in the store."""


class Code(msgspec.Struct, frozen=True):
    """A complete archive."""

    digest: str
    size_bytes: int
    """Size of the archive, uncompressed."""
    parts: tuple[str, ...]
    """SHA-256 of each part, uncompressed."""
    compressed_bytes: int
    """Size of all frames together, as a reader receives them."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection."""

    closed: int
    """Number of archives and uploads that were closed. They are removed later, unless a run begins to refer to them."""
    removed: int
    removed_bytes: int


class PartsCache:
    """Caches parts that many members read at the same time, so that each is read from the store once.

    The parts never change. The most recently used ones are kept, up to a limit of bytes.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._held_bytes = 0
        self._loading: dict[str, asyncio.Task[bytes]] = {}

    async def get(self, key: str, load: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the blob. Callers during a load share its result, or its error."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key, load))
        return await asyncio.shield(loading)  # if one caller is cancelled, the others still get the blob

    async def _load(self, key: str, load: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            blob = await load()
        finally:
            del self._loading[key]
        self._held[key] = blob
        self._held_bytes += len(blob)
        while self._held_bytes > self._limit_bytes:
            _, dropped = self._held.popitem(last=False)
            self._held_bytes -= len(dropped)
        return blob


class CodeStore:
    """The code of all namespaces. The caller has to check who may access a namespace."""

    def __init__(self, blobs: Blobs, limits: Callable[[], CodeLimits] = CodeLimits) -> None:
        """`limits` is called each time, since the policy may change."""
        self._limits = limits
        self._blobs = blobs
        self._room = CodeRoom(blobs, PREFIX, lambda: RoomLimits(limits().namespace_bytes, limits().namespace_files))
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._cache = PartsCache()

    @property
    def limits(self) -> CodeLimits:
        """The limits in force now."""
        return self._limits()

    async def find(self, namespace: str, digest: str) -> Code | None:
        """Return the code if it is complete and a run may begin to refer to it; None if it has to be uploaded."""
        archive = _ArchiveKeys.of(namespace, digest)
        return await self._read_manifest(archive, await self._upload_generation(archive))

    async def parts(self, namespace: str, digest: str) -> dict[int, list[str]]:
        """Return the uploaded parts: the SHA-256 values of each part by its number."""
        archive = _ArchiveKeys.of(namespace, digest)
        found: dict[int, list[str]] = {}
        async with aclosing(self._blobs.under(archive.parts(await self._upload_generation(archive)))) as blobs:
            async for blob in blobs:
                number, _, sha256 = blob.key.rpartition("/")[2].partition("-")
                found.setdefault(int(number), []).append(sha256)
        return found

    def check_part(self, number: int, sha256: str) -> None:
        """Check a part before its bytes are read. Raises InvalidInput or TooLarge."""
        faults = []
        if number < 0:
            faults.append(Fault("number", "is negative", str(number), "parts are counted from 0"))
        if not _SHA256.fullmatch(sha256):
            faults.append(
                Fault("sha256", "is not the SHA-256 of a part", sha256[:80], "write 64 digits of 0-9 and a-f")
            )
        if faults:
            raise InvalidInput(faults)
        if number * PART_BYTES >= self.limits.size_bytes:
            raise self._too_large()

    async def put_part(self, namespace: str, digest: str, number: int, sha256: str, frame: bytes) -> None:
        """Store a part, given as a Zstandard frame and the SHA-256 of its content. Repeating it changes nothing.

        Raises InvalidInput for a frame with another content, and TooLarge for a part beyond the limits. If there is no
        room for it, the whole upload is removed and NamespaceFull is raised.
        """
        archive = _ArchiveKeys.of(namespace, digest)
        self.check_part(number, sha256)
        if len(frame) > MAX_COMPRESSED_BYTES:
            raise TooLarge(f"a part has at most {MAX_COMPRESSED_BYTES} bytes, compressed; this one has {len(frame)}")
        found = (await asyncio.to_thread(_digest_frame, frame)).sha256
        if found != sha256:
            hint = "it was damaged on its way, or the file was edited: send it again"
            raise InvalidInput.one("sha256", f"the part has {found}", value=sha256, hint=hint)
        generation = await self._upload_generation(archive)
        if await self._read_manifest(archive, generation) is not None:
            return
        try:
            await self._room.take(namespace, len(frame))
        except NamespaceFull:
            await self._remove_upload(archive, generation)
            raise
        await self._blobs.put(archive.part(generation, number, sha256), frame)

    async def complete(self, namespace: str, digest: str, parts: Sequence[str], size_bytes: int) -> Code:
        """Read the whole upload, check its digest, and make it readable. It may be repeated.

        Raises InvalidInput if the content is wrong, Conflict (code PartsMissing) if parts are missing.
        """
        archive = _ArchiveKeys.of(namespace, digest)
        self._check_whole(parts, size_bytes)
        generation = await self._upload_generation(archive)
        known = await self._read_manifest(archive, generation)
        if known is not None:
            return known
        there = await self.parts(namespace, digest)
        missing = [number for number, sha256 in enumerate(parts) if sha256 not in there.get(number, ())]
        if missing:
            raise _parts_missing(digest, missing, len(parts))
        async with self._checks:
            try:
                compressed = await self._check_content(archive, generation, parts, size_bytes)
            except NotFound:
                raise _parts_missing(digest, range(len(parts)), len(parts)) from None
        if (
            await self._upload_generation(archive) != generation
        ):  # the upload was removed meanwhile, because it took too long
            raise _parts_missing(digest, range(len(parts)), len(parts))
        code = Code(digest, size_bytes, tuple(parts), compressed)
        await self._blobs.put(archive.complete(generation), msgspec.json.encode(code))
        return code

    async def open(self, namespace: str, digest: str) -> tuple[Code, AsyncGenerator[bytes, None]]:
        """Return the code and its parts' bytes, frame after frame. Raises NotFound."""
        archive = _ArchiveKeys.of(namespace, digest)
        complete = [int(blob.key.rpartition("/")[2]) async for blob in self._blobs.under(archive.complete())]
        for generation in reversed(complete):  # the newest first: older ones are about to be removed
            code = await self._read_manifest(archive, generation)
            if code is not None:
                return code, self._stream_parts(archive, generation, code)
        raise no_such_code(namespace, digest)

    async def usage(self, namespace: str) -> Usage:
        """Return how much a namespace's code uses in the store."""
        return await self._blobs.usage(f"{PREFIX}/{_checked_namespace(namespace)}")

    async def collect(self, referenced: Callable[[], Collection[tuple[str, str]]], older_than: timedelta) -> Collected:
        """Close generations that no run refers to and that were not written for `older_than`. Remove generations that
        were closed for twice this time.

        `referenced` returns (namespace, digest) of all existing Runs, including ended ones, since they can be resumed.
        It is called once, after the clock was read, and its answer may be at most `older_than` old. So a user may
        submit the run until `older_than` after the upload, and a server may take this time from reading an upload to
        writing. The collection may be interrupted at any moment, and several may run at once.
        """
        now = await self._blobs.now()
        wanted = referenced()
        closed = removed = removed_bytes = 0
        async for archive, generations in self._all_archives():
            read = set()
            if (archive.namespace, archive.digest) in wanted:
                read = _maybe_read(generations, now - 2 * older_than)
            for number, generation in generations.items():
                if number in read:
                    continue
                if generation.closed_at is None:
                    if now - generation.written_at > older_than:
                        await self._blobs.put(archive.closed(number), b"-")
                        closed += 1
                elif generation.keys and now - generation.closed_at > 2 * older_than:
                    await self._blobs.delete(archive.complete(number))
                    await self._blobs.delete(*generation.keys)
                    removed += 1
                    removed_bytes += generation.size_bytes
            if not any(generation.keys for generation in generations.values()):
                last = max(generation.written_at for generation in generations.values())
                if now - last > 2 * older_than + FORGOTTEN_AFTER:
                    await self._blobs.delete(*(archive.closed(number) for number in generations))
        return Collected(closed, removed, removed_bytes)

    async def _remove_upload(self, archive: _ArchiveKeys, generation: int) -> None:
        async with aclosing(self._blobs.under(archive.parts(generation))) as blobs:
            keys = [blob.key async for blob in blobs]
        await self._blobs.delete(*keys)

    async def _upload_generation(self, archive: _ArchiveKeys) -> int:
        """Return the generation of new uploads, which is the one after the last closed generation."""
        closed = [int(blob.key.rpartition("/")[2]) async for blob in self._blobs.under(archive.closed())]
        return max(closed, default=0) + 1

    async def _read_manifest(self, archive: _ArchiveKeys, generation: int) -> Code | None:
        try:
            content = await self._blobs.read(archive.complete(generation), limit_bytes=_MAX_MANIFEST_BYTES)
            return msgspec.json.decode(content, type=Code)
        except NotFound:
            return None
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the store holds a damaged list of the parts of {archive.digest}") from error

    async def _stream_parts(self, archive: _ArchiveKeys, generation: int, code: Code) -> AsyncGenerator[bytes, None]:
        for number, sha256 in enumerate(code.parts):
            key = archive.part(generation, number, sha256)
            try:
                frame = await self._cache.get(key, partial(self._blobs.read, key, limit_bytes=MAX_COMPRESSED_BYTES))
            except NotFound as error:
                raise Unavailable(f"part {number} of {archive.digest} is gone from the store") from error
            for begin in range(0, len(frame), _PIECE_BYTES):
                yield frame[begin : begin + _PIECE_BYTES]

    async def _check_content(
        self, archive: _ArchiveKeys, generation: int, parts: Sequence[str], size_bytes: int
    ) -> int:
        """Return the total size of the frames, if their content has the right digest. Raises InvalidInput if not."""
        whole = hashlib.sha256()
        size = compressed = 0
        for number, sha256 in enumerate(parts):
            frame = await self._blobs.read(archive.part(generation, number, sha256), limit_bytes=MAX_COMPRESSED_BYTES)
            part = await asyncio.to_thread(_digest_frame, frame, whole)
            size += part.size_bytes
            compressed += len(frame)
            if number < len(parts) - 1 and part.size_bytes != PART_BYTES:
                hint = f"all but the last have {PART_BYTES}"
                raise InvalidInput.one("parts", f"part {number} has {part.size_bytes} bytes", hint=hint)
        if size != size_bytes:
            raise InvalidInput.one("size", f"the parts have {size} bytes", value=str(size_bytes), hint="upload again")
        if f"sha256:{whole.hexdigest()}" != archive.digest:
            hint = "a file was edited meanwhile, or another archive's parts were named: upload again"
            message = f"the parts together are sha256:{whole.hexdigest()}"
            raise InvalidInput.one("digest", message, value=archive.digest, hint=hint, code=WRONG_DIGEST)
        return compressed

    def _check_whole(self, parts: Sequence[str], size_bytes: int) -> None:
        if size_bytes > self.limits.size_bytes:
            raise self._too_large(size_bytes)
        faults = []
        if size_bytes < len(END):
            faults.append(Fault("size", "is less than an archive has", str(size_bytes)))
        elif len(parts) != -(-size_bytes // PART_BYTES):
            expected = -(-size_bytes // PART_BYTES)
            hint = f"{size_bytes} bytes have {expected} parts of {PART_BYTES} bytes, the last one what is left"
            faults.append(Fault("parts", f"there are {len(parts)}", hint=hint))
        for number, sha256 in enumerate(parts):
            if not _SHA256.fullmatch(sha256):
                faults.append(Fault(f"parts[{number}]", "is not the SHA-256 of a part", sha256[:80], _SHA256_HINT))
        if faults:
            raise InvalidInput(faults[:20])

    def _too_large(self, size_bytes: int | None = None) -> TooLarge:
        has = f"has {shown_size(size_bytes)}" if size_bytes is not None else "is too large"
        return TooLarge(
            f"the code {has}; {shown_size(self.limits.size_bytes)} are allowed",
            hint="name in .kajiignore what the program does not need; data belong on a volume",
        )

    async def _all_archives(self) -> AsyncIterator[tuple[_ArchiveKeys, dict[int, _Generation]]]:
        """Yield everything in the store, one digest after the other."""
        archive: _ArchiveKeys | None = None
        generations: dict[int, _Generation] = {}
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            async for blob in blobs:
                parsed = _KEY.fullmatch(blob.key)
                if parsed is None:
                    continue  # the blob is not code
                namespace, sha256, kind, number, _ = parsed.groups()
                here = _ArchiveKeys(namespace, f"sha256:{sha256}")
                if here != archive:
                    if archive is not None:
                        yield archive, generations
                    archive, generations = here, {}
                generations.setdefault(int(number), _Generation()).note(kind, blob)
        if archive is not None:
            yield archive, generations


def _parts_missing(digest: str, missing: Sequence[int], parts: int) -> Conflict:
    named = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
    return Conflict(
        f"{len(missing)} of {parts} parts of {digest} are not here: {named}",
        hint="upload them, then ask again",
        code=PARTS_MISSING,
    )


def no_such_code(namespace: str, digest: str) -> NotFound:
    """Return the error for code that is missing or not complete."""
    hint = "it has to be uploaded first; `kaji run --code` does that"
    return NotFound(f"there is no code {digest} in namespace {namespace}", hint=hint)


@dataclass(frozen=True, slots=True)
class _ArchiveKeys:
    """The keys of one archive's blobs."""

    namespace: str
    digest: str

    @classmethod
    def of(cls, namespace: str, digest: str) -> _ArchiveKeys:
        return cls(_checked_namespace(namespace), check_digest(digest))

    def parts(self, generation: int) -> str:
        return f"{self._root_key}/parts/{generation:08}"

    def part(self, generation: int, number: int, sha256: str) -> str:
        return f"{self.parts(generation)}/{number:06}-{sha256}"

    def complete(self, generation: int | None = None) -> str:
        return f"{self._root_key}/complete" + (f"/{generation:08}" if generation is not None else "")

    def closed(self, generation: int | None = None) -> str:
        return f"{self._root_key}/closed" + (f"/{generation:08}" if generation is not None else "")

    @property
    def _root_key(self) -> str:
        return f"{PREFIX}/{self.namespace}/{self.digest.removeprefix('sha256:')}"


@dataclass(slots=True)
class _Generation:
    """The blobs of one generation."""

    keys: list[str] = field(default_factory=list)
    """Keys of its parts, and of its list of parts."""
    size_bytes: int = 0
    written_at: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))
    complete_at: datetime | None = None
    closed_at: datetime | None = None

    def note(self, kind: str, blob: Blob) -> None:
        self.written_at = max(self.written_at, blob.modified_at)
        if kind == "closed":
            self.closed_at = blob.modified_at
            return
        self.keys.append(blob.key)
        self.size_bytes += blob.size_bytes
        if kind == "complete":
            self.complete_at = blob.modified_at


def _maybe_read(generations: dict[int, _Generation], since: datetime) -> set[int]:
    """Return the generations that a member may be reading: the newest complete one, and each one that was the newest at
    some time after `since`."""
    read = set()
    for number in sorted(generations, reverse=True):
        complete_at = generations[number].complete_at
        if complete_at is not None:
            read.add(number)
            if complete_at < since:
                break
    return read


@dataclass(frozen=True, slots=True)
class _Checksum:
    sha256: str
    size_bytes: int


def _digest_frame(frame: bytes, whole: hashlib._Hash | None = None) -> _Checksum:
    """Return size and SHA-256 of the content of a frame; add the content to the hash `whole`."""
    part = decompress(frame)
    if whole is not None:
        whole.update(part)
    return _Checksum(hashlib.sha256(part).hexdigest(), len(part))


def _checked_namespace(namespace: str) -> str:
    if not _NAMESPACE.fullmatch(namespace):
        hint = "use lower-case letters, digits and dashes, at most 63"
        raise InvalidInput.one("namespace", f"{namespace!r:.80} is not a name", value=namespace[:80], hint=hint)
    return namespace
