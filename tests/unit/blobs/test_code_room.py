"""The code of a namespace has a limit, in the store's own bytes."""

from __future__ import annotations

import os

import pytest
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.blobs.test_code import Archive

from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.blobs.code_room import CodeRoom, NamespaceFull, RoomLimits
from kajitori.codepack.parts import PART_BYTES

MIB = 1 << 20


def archive(parts: int) -> Archive:
    return Archive(os.urandom(parts * PART_BYTES))


async def test_code_without_room_is_refused_and_the_largest_archives_named() -> None:
    """Other namespaces and existing code are not affected; a larger limit applies at once."""
    memory, limit = MemoryBlobs(), [30 * MIB]
    store = CodeStore(memory, lambda: CodeLimits(namespace_bytes=limit[0]))
    small, large, more = archive(1), archive(2), archive(2)
    await small.upload(store)
    await large.upload(store)
    held = dict(memory.held)
    with pytest.raises(NamespaceFull) as refused:
        await more.put_parts(store)
    said = refused.value.message
    assert "namespace team" in said and "30.0 MiB are allowed" in said
    assert said.index(f"{large.digest[:19]}… (16.0 MiB)") < said.index(f"{small.digest[:19]}… (8.0 MiB)")
    assert memory.held == held
    await small.put_parts(store)  # already stored, so it needs no room
    await small.upload(store, "other")
    limit[0] = 50 * MIB
    await more.upload(store)


async def test_many_small_files_have_a_limit_of_their_own() -> None:
    """Many small parts, of one archive or of many, hardly count for a quota in bytes."""
    memory = MemoryBlobs()
    rooms = CodeRoom(memory, "code", lambda: RoomLimits(100 * MIB, files=5))
    for number in range(5):
        await rooms.take("team", 20)
        await memory.put(f"code/team/{'a' * 64}/parts/00000001/000000-{number}", bytes(20))
    with pytest.raises(NamespaceFull, match=r"it uses 5 files, 5 files are allowed\. The largest: sha256:aaaa"):
        await rooms.take("team", 20)
    await rooms.take("other", 20)
    await memory.delete(f"code/team/{'a' * 64}/parts/00000001/000000-0")
    await rooms.take("team", 20)


async def test_runs_that_keep_an_archive_are_named() -> None:
    full = NamespaceFull("team", "5 bytes", "4 bytes", [("sha256:" + "a" * 64, 3), ("sha256:" + "b" * 64, 2)])
    told = full.with_runs({"sha256:" + "a" * 64: {"r4", "r1", "r3", "r2", "r5"}}).message
    assert "aaaaaaaaaaaa… (3 bytes, of r1, r2, r3 and 2 more)" in told
    assert "bbbbbbbbbbbb… (2 bytes, of no run)" in told


async def test_the_size_of_stored_code_is_measured_rarely() -> None:
    """Later uploads are added to the count; before a refusal it is repeated, since code may have been removed."""
    memory, now = MemoryBlobs(), [0.0]
    rooms = CodeRoom(memory, "code", lambda: RoomLimits(100), clock=lambda: now[0])
    counted = 0
    count = rooms._count

    async def counting(namespace: str) -> object:
        nonlocal counted
        counted += 1
        return await count(namespace)

    rooms._count = counting  # type: ignore[method-assign,assignment]
    for _ in range(4):
        await rooms.take("team", 25)
    assert counted == 1
    await rooms.take("team", 25)
    assert counted == 2, "nothing of it came to be stored"
    now[0] = 61.0
    await rooms.take("team", 25)
    assert counted == 3
