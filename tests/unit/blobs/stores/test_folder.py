"""Blobs in a folder: no partial file is visible, and killed writers leave nothing."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.folder import TEMPORARY, _Draft
from kajitori.blobs.stores.opening import open_blobs
from kajitori.errors import NotFound, Unavailable

_WRITER = """
import asyncio, sys
from kajitori.blobs.stores.opening import open_blobs
async def endless():
    yield b"x" * 100_000
    print("writing", flush=True)
    await asyncio.Event().wait()
async def main():
    await (await open_blobs(sys.argv[1])).put("key", endless())
asyncio.run(main())
"""

_FILLER = """
import asyncio, resource, sys
from kajitori.errors import KajitoriError
from kajitori.blobs.stores.opening import open_blobs
async def pieces():
    for _ in range(40): yield b"x" * 100_000
async def main():
    blobs = await open_blobs(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    for content in (b"x" * 4_000_000, pieces()):
        try: await blobs.put("key", content)
        except KajitoriError as error: print(error.code, error.message)
asyncio.run(main())
"""


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_only_the_owner_can_read_the_folder(tmp_path: Path) -> None:
    blobs = await open_blobs((tmp_path / "a" / "b c").as_uri())
    await blobs.put("code/team/x", b"secret")
    for path in (tmp_path / "a").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


async def test_files_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    """Opening the store does not disturb a writer that is still at work."""
    url = tmp_path.as_uri()
    blobs = await open_blobs(url)
    await blobs.put("key", b"old")
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", _WRITER, url, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"writing\n"
        assert len(_files(tmp_path / TEMPORARY)) == 1
        await open_blobs(url)
        assert len(_files(tmp_path / TEMPORARY)) == 1
    finally:
        writer.kill()
        await writer.wait()
    assert len(_files(tmp_path / TEMPORARY)) == 1
    blobs = await open_blobs(url)
    assert _files(tmp_path) == ["key"]
    assert await blobs.read("key", limit_bytes=9) == b"old"


async def test_a_temporary_file_removed_as_abandoned_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between creating the temporary file and locking it, another process may remove it as abandoned."""
    import fcntl

    await open_blobs(tmp_path.as_uri())
    lock = fcntl.flock
    removed: list[str] = []

    def tidied_up_before(handle: int, operation: int) -> None:
        if not removed:
            removed.extend(_files(tmp_path))
            for name in removed:
                (tmp_path / name).unlink()
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", tidied_up_before)
    draft = _Draft(tmp_path / TEMPORARY)
    draft.write(b"content")
    draft.publish(tmp_path / "key")
    draft.discard()
    assert len(removed) == 1
    assert (tmp_path / "key").read_bytes() == b"content"
    assert _files(tmp_path) == ["key"]


async def test_a_file_system_without_locks_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have none. Files of other writers are then left alone."""
    import fcntl

    def no_locks(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    blobs = await open_blobs(tmp_path.as_uri())
    (tmp_path / TEMPORARY / "somebody").write_bytes(b"")
    await blobs.put("key", b"content")
    blobs = await open_blobs(tmp_path.as_uri())
    assert await blobs.read("key", limit_bytes=99) == b"content"
    assert _files(tmp_path) == [f"{TEMPORARY}/somebody", "key"]


async def test_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    """A limit on the file size stands for the full disk: the kernel fails the same write."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _FILLER, tmp_path.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [f"StorageFull the store {tmp_path.as_uri()} is full"] * 2, done.stderr
    assert _files(tmp_path) == []


async def test_an_unusable_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="Not a directory"):
        await open_blobs((tmp_path / "file" / "blobs").as_uri())


async def test_empty_folders_of_removed_blobs_are_removed(tmp_path: Path, folder: Blobs) -> None:
    root = tmp_path / "blobs"
    for key in ("a/b/c/1", "a/b/c/2", "a/d"):
        await folder.put(key, b"x")
    await folder.delete("a/b/c/1", "a/b/c/2")
    assert sorted(path.name for path in (root / "a").iterdir()) == ["d"]
    await folder.delete("a/d")
    assert [path.name for path in root.iterdir()] == [TEMPORARY]


async def test_writers_and_removers_in_one_folder_do_not_collide(folder: Blobs) -> None:
    """A folder is removed with its last blob, and created again with the next."""

    async def worry(key: str) -> None:
        for _ in range(20):
            await folder.put(key, b"x")
            await folder.delete(key)

    await asyncio.gather(*(worry(f"a/b/{number}") for number in range(6)))
    assert [blob.key async for blob in folder.under()] == []


async def test_a_reader_can_finish_reading_a_removed_blob(folder: Blobs) -> None:
    await folder.put("key", b"a" * 3_000_000)
    reading = folder.get("key")
    first = await anext(reading)
    await folder.put("key", b"b" * 10)
    await folder.delete("key")
    rest = [piece async for piece in reading]
    assert first + b"".join(rest) == b"a" * 3_000_000


_SEGMENT = st.sampled_from(["a", "b", "B", "a-", "a.b", "0", "_"])
_KEY = st.lists(_SEGMENT, min_size=1, max_size=3).map(lambda parts: "/".join([*parts, "blob"]))
_STEP = st.one_of(
    st.tuples(st.just("put"), _KEY, st.lists(st.binary(max_size=20), max_size=3)),
    st.tuples(st.just("delete"), _KEY, st.just(None)),
    st.tuples(st.just("list"), st.one_of(st.just(""), _SEGMENT), st.just(None)),
    st.tuples(st.just("get"), _KEY, st.tuples(st.integers(0, 25), st.none() | st.integers(0, 25))),
)


@given(st.lists(_STEP, max_size=15))
@settings(max_examples=40)
def test_a_folder_behaves_as_a_dictionary(steps: list[tuple[str, str, Any]]) -> None:
    """After any sequence of operations."""

    async def follow(root: str) -> None:
        blobs = await open_blobs(Path(root).as_uri())
        model: dict[str, bytes] = {}
        for verb, key, extra in steps:
            if verb == "put":
                await blobs.put(key, _stream(extra))
                model[key] = b"".join(extra)
            elif verb == "delete":
                await blobs.delete(key)
                model.pop(key, None)
            elif verb == "list":
                found = [(blob.key, blob.size_bytes) async for blob in blobs.under(key)]
                expected = {stored: len(model[stored]) for stored in model if not key or stored.startswith(f"{key}/")}
                assert found == sorted(expected.items(), key=lambda item: item[0].encode())
            elif key in model:
                start, length = extra
                end = len(model[key]) if length is None else start + length
                read = [piece async for piece in blobs.get(key, start=start, length=length)]
                assert b"".join(read) == model[key][start:end]
            else:
                with pytest.raises(NotFound):
                    await blobs.head(key)
        assert _files(Path(root) / TEMPORARY) == []

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(follow(root))


async def _stream(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
