"""Researchers' code, under the digest of its archive: uploaded in parts, readable once whole, removed when unused.

Any number of servers may serve one upload: all that is known of it lies in the blobs. Below `code/NAMESPACE/DIGEST/`:

    parts/GENERATION/NUMBER-SHA256    a part as a Zstandard frame; whoever writes it again writes the same
    complete/GENERATION               the list of parts, written when the whole archive was read and its digest right
    closed/GENERATION                 nobody is told any more that he need not upload it

Removing takes two steps, so that neither an upload nor a run that is just being submitted loses its code: a generation
that nobody refers to is first closed, and from then on uploads begin the next one. Nothing can refer anew to one that
was closed for long, so its bytes can go, whatever others do meanwhile. Ages are by the store's own clock.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from kajitori.blobs.blobs import Blob, Blobs, Usage
from kajitori.blobs.code_room import NamespaceFull, Room, Rooms
from kajitori.blobs.parts_cache import PartsCache
from kajitori.codepack.layout import END, check_digest
from kajitori.codepack.packing import shown_size
from kajitori.codepack.parts import MAX_COMPRESSED_BYTES, PART_BYTES, decompress
from kajitori.errors import Conflict, Fault, InvalidInput, NotFound, TooLarge, Unavailable

PARTS_MISSING = "PartsMissing"
WRONG_DIGEST = "WrongDigest"

FORGOTTEN_AFTER = timedelta(days=1)
"""Marks of closed generations go so much later than their bytes: nobody takes so long from looking to writing."""

_ROOT = "code"
_CHECKS_AT_ONCE = 2
_PIECE_BYTES = 1 << 17  # what a thousand slow readers may have in their buffers, each
_MAX_MANIFEST_BYTES = 4 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SHA256_HINT = "write 64 digits of 0-9 and a-f"
_KEY = re.compile(rf"{_ROOT}/([^/]+)/([0-9a-f]{{64}})/(parts|complete|closed)/([0-9]{{8}})(/.*)?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What the store takes."""

    size_bytes: int = 1 << 30
    """Of one archive, uncompressed."""
    namespace_bytes: int | None = None
    """Of all that a namespace has in the store, compressed."""
    namespace_files: int | None = None
    """How many files that may be."""


class Code(msgspec.Struct, frozen=True):
    """An archive that is complete."""

    digest: str
    size_bytes: int
    """Of the archive, uncompressed."""
    parts: tuple[str, ...]
    """SHA-256 of each, uncompressed."""
    compressed_bytes: int
    """Of all frames together: so much is read."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round of tidying up did."""

    closed: int
    """Archives and uploads that go next, unless somebody begins to refer to them."""
    removed: int
    removed_bytes: int


class CodeStore:
    """The code of all namespaces. Who may ask for which namespace was decided before."""

    def __init__(self, blobs: Blobs, limits: Callable[[], CodeLimits] = CodeLimits) -> None:
        """`limits` are asked for anew each time: policy may change."""
        self._limits = limits
        self._blobs = blobs
        self._rooms = Rooms(blobs, _ROOT, lambda: Room(limits().namespace_bytes, limits().namespace_files))
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._cache = PartsCache()

    @property
    def limits(self) -> CodeLimits:
        """Those in force now."""
        return self._limits()

    async def find(self, namespace: str, digest: str) -> Code | None:
        """The code, if it is complete and a run may begin to refer to it; else it has to be uploaded."""
        place = _Place.of(namespace, digest)
        return await self._manifest(place, await self._generation(place))

    async def parts(self, namespace: str, digest: str) -> dict[int, list[str]]:
        """What of an upload is there: the SHA-256 of each part by its number."""
        place = _Place.of(namespace, digest)
        found: dict[int, list[str]] = {}
        async with aclosing(self._blobs.under(place.parts(await self._generation(place)))) as blobs:
            async for blob in blobs:
                number, _, sha256 = blob.key.rpartition("/")[2].partition("-")
                found.setdefault(int(number), []).append(sha256)
        return found

    def check_part(self, number: int, sha256: str) -> None:
        """Raises InvalidInput or TooLarge for a part that can't be one, before its bytes are there."""
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
        """Stores a part: a Zstandard frame whose content has this SHA-256. Done twice, it is done once.

        Raises InvalidInput for a frame that is not what was said, TooLarge for a part beyond the limits; NamespaceFull
        where there is no room for it: then nothing of the upload stays.
        """
        place = _Place.of(namespace, digest)
        self.check_part(number, sha256)
        if len(frame) > MAX_COMPRESSED_BYTES:
            raise TooLarge(f"a part has at most {MAX_COMPRESSED_BYTES} bytes, compressed; this one has {len(frame)}")
        found = (await asyncio.to_thread(_sum_up, frame)).sha256
        if found != sha256:
            hint = "it was damaged on its way, or the file was edited: send it again"
            raise InvalidInput.one("sha256", f"the part has {found}", value=sha256, hint=hint)
        generation = await self._generation(place)
        if await self._manifest(place, generation) is not None:
            return
        try:
            await self._rooms.take(namespace, len(frame))
        except NamespaceFull:
            await self._give_up(place, generation)
            raise
        await self._blobs.put(place.part(generation, number, sha256), frame)

    async def complete(self, namespace: str, digest: str, parts: Sequence[str], size_bytes: int) -> Code:
        """Makes an upload readable, once all of it was read and is what its digest says. It may be asked again.

        Raises InvalidInput where it is not, Conflict (code PartsMissing) where parts are still to come.
        """
        place = _Place.of(namespace, digest)
        self._check_whole(parts, size_bytes)
        generation = await self._generation(place)
        known = await self._manifest(place, generation)
        if known is not None:
            return known
        there = await self.parts(namespace, digest)
        missing = [number for number, sha256 in enumerate(parts) if sha256 not in there.get(number, ())]
        if missing:
            raise _parts_missing(digest, missing, len(parts))
        async with self._checks:
            try:
                compressed = await self._check_content(place, generation, parts, size_bytes)
            except NotFound:
                raise _parts_missing(digest, range(len(parts)), len(parts)) from None
        if await self._generation(place) != generation:  # it took so long that the upload was given up
            raise _parts_missing(digest, range(len(parts)), len(parts))
        code = Code(digest, size_bytes, tuple(parts), compressed)
        await self._blobs.put(place.complete(generation), msgspec.json.encode(code))
        return code

    async def open(self, namespace: str, digest: str) -> tuple[Code, AsyncGenerator[bytes, None]]:
        """The code and its parts' bytes, one frame after the other. Raises NotFound."""
        place = _Place.of(namespace, digest)
        complete = [int(blob.key.rpartition("/")[2]) async for blob in self._blobs.under(place.complete())]
        for generation in reversed(complete):  # the newest; older ones are on their way out
            code = await self._manifest(place, generation)
            if code is not None:
                return code, self._stream(place, generation, code)
        raise no_such_code(namespace, digest)

    async def usage(self, namespace: str) -> Usage:
        """What a namespace's code takes in the store."""
        return await self._blobs.usage(f"{_ROOT}/{_checked_namespace(namespace)}")

    async def collect(self, referenced: Callable[[], Collection[tuple[str, str]]], older_than: timedelta) -> Collected:
        """Closes what nobody refers to and nobody wrote for `older_than`; removes what was closed for twice as long.

        `referenced` answers (namespace, digest) of all Runs that exist, ended ones too, since they can be resumed. It
        is asked once, after the clock was read, and what it says may be at most `older_than` old. So whoever was told
        that his code is there has that long to submit his run, and a server has that long from looking at an upload to
        writing. This may be interrupted at any moment, and several may do it at once.
        """
        now = await self._blobs.now()
        wanted = referenced()
        closed = removed = removed_bytes = 0
        async for place, generations in self._all():
            read = set()
            if (place.namespace, place.digest) in wanted:
                read = _still_read(generations, now - 2 * older_than)
            for number, each in generations.items():
                if number in read:
                    continue
                if each.closed_at is None:
                    if now - each.written_at > older_than:
                        await self._blobs.put(place.closed(number), b"-")
                        closed += 1
                elif each.keys and now - each.closed_at > 2 * older_than:
                    await self._blobs.delete(place.complete(number))
                    await self._blobs.delete(*each.keys)
                    removed += 1
                    removed_bytes += each.size_bytes
            if not any(each.keys for each in generations.values()):
                last = max(each.written_at for each in generations.values())
                if now - last > 2 * older_than + FORGOTTEN_AFTER:
                    await self._blobs.delete(*(place.closed(number) for number in generations))
        return Collected(closed, removed, removed_bytes)

    async def _give_up(self, place: _Place, generation: int) -> None:
        async with aclosing(self._blobs.under(place.parts(generation))) as blobs:
            keys = [blob.key async for blob in blobs]
        await self._blobs.delete(*keys)

    async def _generation(self, place: _Place) -> int:
        """The one that uploads go to: after the last that was closed."""
        closed = [int(blob.key.rpartition("/")[2]) async for blob in self._blobs.under(place.closed())]
        return max(closed, default=0) + 1

    async def _manifest(self, place: _Place, generation: int) -> Code | None:
        try:
            content = await self._blobs.read(place.complete(generation), limit_bytes=_MAX_MANIFEST_BYTES)
            return msgspec.json.decode(content, type=Code)
        except NotFound:
            return None
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the store holds a damaged list of the parts of {place.digest}") from error

    async def _stream(self, place: _Place, generation: int, code: Code) -> AsyncGenerator[bytes, None]:
        for number, sha256 in enumerate(code.parts):
            key = place.part(generation, number, sha256)
            try:
                frame = await self._cache.get(key, partial(self._blobs.read, key, limit_bytes=MAX_COMPRESSED_BYTES))
            except NotFound as error:
                raise Unavailable(f"part {number} of {place.digest} is gone from the store") from error
            for begin in range(0, len(frame), _PIECE_BYTES):
                yield frame[begin : begin + _PIECE_BYTES]

    async def _check_content(self, place: _Place, generation: int, parts: Sequence[str], size_bytes: int) -> int:
        """The bytes of all frames, if together they are what the digest says. Raises InvalidInput if not."""
        whole = hashlib.sha256()
        size = compressed = 0
        for number, sha256 in enumerate(parts):
            frame = await self._blobs.read(place.part(generation, number, sha256), limit_bytes=MAX_COMPRESSED_BYTES)
            part = await asyncio.to_thread(_sum_up, frame, whole)
            size += part.size_bytes
            compressed += len(frame)
            if number < len(parts) - 1 and part.size_bytes != PART_BYTES:
                hint = f"all but the last have {PART_BYTES}"
                raise InvalidInput.one("parts", f"part {number} has {part.size_bytes} bytes", hint=hint)
        if size != size_bytes:
            raise InvalidInput.one("size", f"the parts have {size} bytes", value=str(size_bytes), hint="upload again")
        if f"sha256:{whole.hexdigest()}" != place.digest:
            hint = "a file was edited meanwhile, or another archive's parts were named: upload again"
            message = f"the parts together are sha256:{whole.hexdigest()}"
            raise InvalidInput.one("digest", message, value=place.digest, hint=hint, code=WRONG_DIGEST)
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

    async def _all(self) -> AsyncIterator[tuple[_Place, dict[int, _Generation]]]:
        """All that is there, one digest after the other."""
        place: _Place | None = None
        generations: dict[int, _Generation] = {}
        async with aclosing(self._blobs.under(_ROOT)) as blobs:
            async for blob in blobs:
                parsed = _KEY.fullmatch(blob.key)
                if parsed is None:
                    continue  # nothing of ours
                namespace, sha256, kind, number, _ = parsed.groups()
                here = _Place(namespace, f"sha256:{sha256}")
                if here != place:
                    if place is not None:
                        yield place, generations
                    place, generations = here, {}
                generations.setdefault(int(number), _Generation()).note(kind, blob)
        if place is not None:
            yield place, generations


def _parts_missing(digest: str, missing: Sequence[int], parts: int) -> Conflict:
    named = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
    return Conflict(
        f"{len(missing)} of {parts} parts of {digest} are not here: {named}",
        hint="upload them, then ask again",
        code=PARTS_MISSING,
    )


def no_such_code(namespace: str, digest: str) -> NotFound:
    """The error for code that is not there, or not complete."""
    hint = "it has to be uploaded first; `kaji run --code` does that"
    return NotFound(f"there is no code {digest} in namespace {namespace}", hint=hint)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the blobs of a namespace's code are."""

    namespace: str
    digest: str

    @classmethod
    def of(cls, namespace: str, digest: str) -> _Place:
        return cls(_checked_namespace(namespace), check_digest(digest))

    def parts(self, generation: int) -> str:
        return f"{self._root}/parts/{generation:08}"

    def part(self, generation: int, number: int, sha256: str) -> str:
        return f"{self.parts(generation)}/{number:06}-{sha256}"

    def complete(self, generation: int | None = None) -> str:
        return f"{self._root}/complete" + (f"/{generation:08}" if generation is not None else "")

    def closed(self, generation: int | None = None) -> str:
        return f"{self._root}/closed" + (f"/{generation:08}" if generation is not None else "")

    @property
    def _root(self) -> str:
        return f"{_ROOT}/{self.namespace}/{self.digest.removeprefix('sha256:')}"


@dataclass(slots=True)
class _Generation:
    """What there is of one."""

    keys: list[str] = field(default_factory=list)
    """Of its parts, and of what makes it complete."""
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


def _still_read(generations: dict[int, _Generation], since: datetime) -> set[int]:
    """Those that a member may be reading: the newest that is complete, and what was the newest since that time."""
    read = set()
    for number in sorted(generations, reverse=True):
        complete_at = generations[number].complete_at
        if complete_at is not None:
            read.add(number)
            if complete_at < since:
                break
    return read


@dataclass(frozen=True, slots=True)
class _Sum:
    sha256: str
    size_bytes: int


def _sum_up(frame: bytes, whole: hashlib._Hash | None = None) -> _Sum:
    """What a part is, out of its frame; added to the sum of the whole."""
    part = decompress(frame)
    if whole is not None:
        whole.update(part)
    return _Sum(hashlib.sha256(part).hexdigest(), len(part))


def _checked_namespace(namespace: str) -> str:
    if not _NAMESPACE.fullmatch(namespace):
        hint = "use lower-case letters, digits and dashes, at most 63"
        raise InvalidInput.one("namespace", f"{namespace!r:.80} is not a name", value=namespace[:80], hint=hint)
    return namespace
