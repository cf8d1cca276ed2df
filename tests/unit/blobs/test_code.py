"""Code is readable once it is complete and correct, only in its own namespace, and while a run refers to it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from datetime import datetime, timedelta

import pytest
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.code import PARTS_MISSING, WRONG_DIGEST, Code, CodeLimits, CodeStore, Collected
from kajitori.blobs.stores.blobs import Blobs
from kajitori.codepack.parts import MAX_COMPRESSED_BYTES, PART_BYTES, compress, decompressed
from kajitori.errors import Conflict, InvalidInput, NotFound, TooLarge, Unavailable

HOUR = timedelta(hours=1)


class Archive:
    """Bytes that stand for an archive: the store does not read its content."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = _digest(content)
        self.parts = [content[begin : begin + PART_BYTES] for begin in range(0, len(content), PART_BYTES)]
        self.sums = [hashlib.sha256(part).hexdigest() for part in self.parts]

    async def put_parts(self, store: CodeStore, namespace: str = "team", numbers: list[int] | None = None) -> None:
        for number in range(len(self.parts)) if numbers is None else numbers:
            await store.put_part(namespace, self.digest, number, self.sums[number], compress(self.parts[number]))

    async def complete(self, store: CodeStore, namespace: str = "team") -> Code:
        return await store.complete(namespace, self.digest, self.sums, len(self.content))

    async def upload(self, store: CodeStore, namespace: str = "team") -> Code:
        await self.put_parts(store, namespace)
        return await self.complete(store, namespace)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


SMALL = Archive(b"small" * 1000)
LARGE = Archive(os.urandom(PART_BYTES) + bytes(PART_BYTES) + b"the rest")


async def _read(store: CodeStore, digest: str, namespace: str = "team") -> bytes:
    _, frames = await store.open(namespace, digest)
    return b"".join(decompressed([piece async for piece in frames]))


@pytest.fixture
def memory() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def store(memory: MemoryBlobs) -> CodeStore:
    return CodeStore(memory, lambda: CodeLimits(size_bytes=4 * PART_BYTES))


async def test_uploaded_code_is_read_back(blobs: Blobs) -> None:
    """From every kind of store."""
    store = CodeStore(blobs)
    assert await store.find("team", LARGE.digest) is None
    code = await LARGE.upload(store)
    compressed = sum(len(compress(part)) for part in LARGE.parts)
    assert code == Code(LARGE.digest, len(LARGE.content), tuple(LARGE.sums), compressed)
    assert await store.find("team", LARGE.digest) == code
    assert await _read(store, LARGE.digest) == LARGE.content
    usage = await store.usage("team")
    assert usage.blobs == 4
    assert PART_BYTES < usage.size_bytes < PART_BYTES + 10_000
    assert (await store.usage("other")).blobs == 0


async def test_nothing_is_readable_before_it_is_complete(store: CodeStore) -> None:
    await LARGE.put_parts(store)
    assert await store.find("team", LARGE.digest) is None
    with pytest.raises(NotFound, match="no code sha256"):
        await store.open("team", LARGE.digest)


async def test_an_interrupted_upload_can_be_resumed(memory: MemoryBlobs) -> None:
    """Another server knows which parts are stored."""
    await LARGE.put_parts(CodeStore(memory), numbers=[2, 0])
    other = CodeStore(memory)
    assert await other.parts("team", LARGE.digest) == {0: [LARGE.sums[0]], 2: [LARGE.sums[2]]}
    with pytest.raises(Conflict, match="1 of 3 parts") as refused:
        await LARGE.complete(other)
    assert refused.value.code == PARTS_MISSING
    await LARGE.put_parts(other, numbers=[1])
    await LARGE.complete(other)
    assert await _read(other, LARGE.digest) == LARGE.content


async def test_every_step_may_be_repeated(memory: MemoryBlobs, store: CodeStore) -> None:
    await LARGE.put_parts(store)
    await LARGE.put_parts(store)
    first = await LARGE.complete(store)
    before = dict(memory.held)
    assert await LARGE.complete(store) == first
    await LARGE.put_parts(store)
    assert memory.held == before


async def test_another_namespace_cannot_read_the_code(store: CodeStore) -> None:
    """Knowing a digest gives no access: a reader must belong to the namespace, or have the code."""
    await SMALL.upload(store, "team")
    assert await store.find("rivals", SMALL.digest) is None
    assert await store.parts("rivals", SMALL.digest) == {}
    with pytest.raises(NotFound):
        await store.open("rivals", SMALL.digest)
    with pytest.raises(Conflict):
        await SMALL.complete(store, "rivals")


@pytest.mark.parametrize("namespace", ["", "a/b", "..", "A", "team/../rivals", "a" * 64, "-a"])
async def test_an_invalid_namespace_is_refused(store: CodeStore, namespace: str) -> None:
    with pytest.raises(InvalidInput, match="namespace"):
        await store.find(namespace, SMALL.digest)
    with pytest.raises(InvalidInput, match="namespace"):
        await store.put_part(namespace, SMALL.digest, 0, SMALL.sums[0], compress(SMALL.content))


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "0" * 63, "sha256:" + "A" * 64, "0" * 64, "md5:0", "sha256:../x"]
)
async def test_an_invalid_digest_is_refused(store: CodeStore, digest: str) -> None:
    with pytest.raises(InvalidInput, match="digest"):
        await store.find("team", digest)


async def test_a_part_with_another_digest_is_refused(memory: MemoryBlobs, store: CodeStore) -> None:
    frame = compress(SMALL.content)
    for sha256, sent in (("0" * 64, frame), (SMALL.sums[0], frame[:-1]), (SMALL.sums[0], compress(b"other"))):
        with pytest.raises(InvalidInput):
            await store.put_part("team", SMALL.digest, 0, sha256, sent)
    for number, sha256 in ((-1, SMALL.sums[0]), (0, "nonsense")):
        with pytest.raises(InvalidInput):
            await store.put_part("team", SMALL.digest, number, sha256, frame)
    assert memory.held == {}


async def test_the_limits_of_archives_are_enforced(memory: MemoryBlobs, store: CodeStore) -> None:
    bomb = compress(bytes(PART_BYTES + 1))
    with pytest.raises(InvalidInput, match="more than"):
        await store.put_part("team", SMALL.digest, 0, SMALL.sums[0], bomb)
    with pytest.raises(TooLarge, match="at most"):
        await store.put_part("team", SMALL.digest, 0, SMALL.sums[0], bytes(MAX_COMPRESSED_BYTES + 1))
    with pytest.raises(TooLarge, match=r"32\.0 MiB are allowed"):
        await store.put_part("team", SMALL.digest, 4, SMALL.sums[0], compress(SMALL.content))
    with pytest.raises(TooLarge, match=r"the code has 32\.0 MiB"):
        await store.complete("team", SMALL.digest, ["0" * 64] * 5, 4 * PART_BYTES + 1)
    assert memory.held == {}


async def test_parts_that_do_not_form_the_archive_are_refused(store: CodeStore) -> None:
    """Wrong order, wrong size, another archive's parts: the code stays unreadable until the right parts arrive."""
    await LARGE.put_parts(store)
    mixed = [LARGE.sums[1], LARGE.sums[0], LARGE.sums[2]]
    for number, sha256 in enumerate(mixed[:2]):
        await store.put_part("team", LARGE.digest, number, sha256, compress(LARGE.parts[1 - number]))
    size = len(LARGE.content)
    with pytest.raises(InvalidInput) as refused:
        await store.complete("team", LARGE.digest, mixed, size)
    assert refused.value.faults[0].code == WRONG_DIGEST
    with pytest.raises(InvalidInput, match="size"):
        await store.complete("team", LARGE.digest, LARGE.sums, size + 1)
    with pytest.raises(InvalidInput, match="there are 2"):
        await store.complete("team", LARGE.digest, LARGE.sums[:2], size)
    with pytest.raises(InvalidInput, match=r"parts\[1\]"):
        await store.complete("team", LARGE.digest, [LARGE.sums[0], "x", LARGE.sums[2]], size)
    with pytest.raises(InvalidInput, match="size"):
        await store.complete("team", LARGE.digest, [], 0)
    assert await store.find("team", LARGE.digest) is None
    await LARGE.complete(store)


async def test_only_the_last_part_may_be_short(store: CodeStore) -> None:
    content = bytes(PART_BYTES) + b"x" * 2000
    cut = [content[:1000], content[1000 : PART_BYTES + 1000]]
    digest = _digest(content)
    sums = [hashlib.sha256(part).hexdigest() for part in cut]
    for number, part in enumerate(cut):
        await store.put_part("team", digest, number, sums[number], compress(part))
    with pytest.raises(InvalidInput, match="part 0 has 1000 bytes"):
        await store.complete("team", digest, sums, PART_BYTES + 1000)


async def test_unused_code_is_removed_in_two_steps(memory: MemoryBlobs, store: CodeStore) -> None:
    await SMALL.upload(store)
    await LARGE.upload(store)
    wanted = {("team", LARGE.digest)}
    memory.time += HOUR
    assert await store.collect(lambda: wanted, HOUR) == Collected(0, 0, 0)
    memory.time += timedelta(seconds=1)
    assert await store.collect(lambda: wanted, HOUR) == Collected(1, 0, 0)
    assert await store.find("team", SMALL.digest) is None
    assert await _read(store, SMALL.digest) == SMALL.content
    memory.time += 2 * HOUR
    assert await store.collect(lambda: wanted, HOUR) == Collected(0, 0, 0)
    memory.time += timedelta(seconds=1)
    done = await store.collect(lambda: wanted, HOUR)
    assert (done.closed, done.removed) == (0, 1)
    assert done.removed_bytes > 0
    with pytest.raises(NotFound):
        await store.open("team", SMALL.digest)
    assert await _read(store, LARGE.digest) == LARGE.content
    memory.time += timedelta(days=2)
    await store.collect(lambda: wanted, HOUR)
    assert not [key for key in memory.held if SMALL.digest[7:] in key]
    assert await _read(store, LARGE.digest) == LARGE.content


async def test_a_run_submitted_at_the_last_moment_keeps_its_code(memory: MemoryBlobs, store: CodeStore) -> None:
    """The client was told that the code is stored; then the code was closed, then the run was submitted."""
    await SMALL.upload(store)
    memory.time += 2 * HOUR
    assert await store.find("team", SMALL.digest) is not None
    await store.collect(set, HOUR)
    for _ in range(5):
        memory.time += 3 * HOUR
        assert (await store.collect(lambda: {("team", SMALL.digest)}, HOUR)).removed == 0
    assert await _read(store, SMALL.digest) == SMALL.content


async def test_code_that_was_closed_is_uploaded_again(memory: MemoryBlobs, store: CodeStore) -> None:
    """The removal does not affect the new upload."""
    await SMALL.upload(store)
    memory.time += 2 * HOUR
    await store.collect(set, HOUR)
    assert await store.parts("team", SMALL.digest) == {}
    memory.time += 3 * HOUR
    await SMALL.upload(store)
    assert (await store.collect(set, HOUR)).removed == 1
    assert await store.find("team", SMALL.digest) is not None
    assert await _read(store, SMALL.digest) == SMALL.content


async def test_only_abandoned_uploads_are_removed(memory: MemoryBlobs, store: CodeStore) -> None:
    """This holds if another upload of the namespace has the same digest. Runs refer only to complete code."""
    await LARGE.put_parts(store, numbers=[0])
    memory.time += HOUR
    await LARGE.put_parts(store, numbers=[1])
    memory.time += HOUR
    assert await store.collect(set, HOUR) == Collected(0, 0, 0)
    memory.time += timedelta(seconds=1)
    assert (await store.collect(lambda: {("team", LARGE.digest)}, HOUR)).closed == 1
    assert await store.parts("team", LARGE.digest) == {}
    memory.time += timedelta(days=2)
    assert (await store.collect(set, HOUR)).removed == 1
    memory.time += timedelta(days=2)
    await store.collect(set, HOUR)
    assert memory.held == {}


async def test_other_blobs_in_the_store_are_left_alone(memory: MemoryBlobs, store: CodeStore) -> None:
    for key in ("logs/team/x", "code/team/readme", "code/x"):
        await memory.put(key, b"x")
    memory.time += timedelta(days=30)
    await store.collect(set, HOUR)
    assert sorted(memory.held) == ["code/team/readme", "code/x", "logs/team/x"]


@pytest.mark.parametrize("seed", range(12))
async def test_no_run_ever_misses_its_code(seed: int) -> None:
    """Clients, servers and two collectors act in any order, while time passes in leaps. No writer pauses for longer
    than the time after which unused code is removed."""
    chance = random.Random(seed)
    memory = MemoryBlobs(chance, step=HOUR / 100)
    archives = [Archive(b"%d" % number * 2000) for number in range(2)]
    runs: list[tuple[str, str]] = []
    writing: list[datetime] = []
    at_work = True

    def leap(time: timedelta) -> None:
        memory.time += max(min([time, *(since + HOUR / 2 - memory.time for since in writing)]), timedelta())

    async def client() -> None:
        store = CodeStore(memory)
        for _ in range(12):
            archive = chance.choice(archives)
            asked_at = began = memory.time
            writing.append(began)
            try:
                if await store.find("team", archive.digest) is None:
                    await archive.put_parts(store)
                    asked_at = memory.time
                    await archive.complete(store)
            except Conflict:
                continue
            finally:
                writing.remove(began)
            leap(HOUR * chance.choice([0, 0, 0.3]))
            for _ in range(chance.choice([0, 30])):
                await asyncio.sleep(0)
            if memory.time - asked_at > HOUR:
                continue
            run = ("team", archive.digest)
            runs.append(run)
            for _ in range(chance.randint(0, 3)):
                leap(HOUR * chance.choice([0, 0.5, 3, 30]))
                await asyncio.sleep(0)
                await read(store, archive)
            runs.remove(run)

    async def read(store: CodeStore, archive: Archive) -> None:
        while True:
            began = memory.time
            try:
                assert await _read(store, archive.digest) == archive.content
                return
            except (NotFound, Unavailable):
                assert memory.time - began > HOUR, "only who stands still in the middle may have to begin again"

    async def tidy() -> None:
        store = CodeStore(memory)
        while at_work:
            await store.collect(lambda: set(runs), HOUR)

    tidying = [asyncio.create_task(tidy()) for _ in range(2)]
    await asyncio.gather(*(client() for _ in range(3)))
    at_work = False
    await asyncio.gather(*tidying)
    for _ in range(4):
        memory.time += timedelta(days=2)
        await CodeStore(memory).collect(set, HOUR)
    assert memory.held == {}
