"""The disk of the embedded API server or of the blob store is full: writes are refused, and work again with more room.

The disk is a tmpfs of a few megabytes, which only root can mount.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.servers.embedded_server import MERGE, embedded_server

from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.folder import TEMPORARY
from kajitori.blobs.stores.opening import open_blobs
from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import compress
from kajitori.embedded.store import DataFolderUnusable, Store
from kajitori.errors import StorageFull

MAPS = "/api/v1/namespaces/default/configmaps"
DISK_MIB = 24
_LAZILY = 2


class Disk:
    """A disk of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave_bytes: int = 0) -> None:
        """Fill all room except this."""
        room = os.statvfs(self.path)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - leave_bytes)

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount the small tmpfs that this test fills: run it as root")
    libc = ctypes.CDLL(None, use_errno=True)
    place = tmp_path / "disk"
    place.mkdir()
    if libc.mount(b"kajitori-test", bytes(place), b"tmpfs", 0, f"size={DISK_MIB}m".encode()):
        error = os.strerror(ctypes.get_errno())
        pytest.skip(f"mounting a tmpfs is not permitted ({error}): run with CAP_SYS_ADMIN (docker run --privileged)")
    try:
        yield Disk(place)
    finally:
        libc.umount2(bytes(place), _LAZILY)


async def test_a_full_disk_keeps_exactly_the_acknowledged_writes(disk: Disk) -> None:
    """Watchers see no refused write, and reads work. Writes work again when there is room, also after a restart."""
    big = {"x": "y" * 200_000}
    async with embedded_server(disk.path, controllers=False) as api:
        await api.call("POST", MAPS, {"metadata": {"name": "first"}, "data": {"x": "1"}})
        disk.fill(leave_bytes=1 << 20)
        acknowledged = {"first"}
        async with api.watch(MAPS) as events:
            for number in range(20):
                answer = await api.call("POST", MAPS, {"metadata": {"name": f"n{number}"}, "data": big})
                if answer.code != 201:
                    break
                acknowledged.add(answer.name)
            assert (answer.code, answer.body["kind"], answer.body["reason"]) == (507, "Status", "InternalError")
            assert "could not be stored: database or disk is full" in answer.body["message"]
            refused = await api.call("PATCH", f"{MAPS}/first", {"data": big}, content_type=MERGE)
            assert refused.code == 507
            assert (await api.call("GET", f"{MAPS}/first")).body["data"] == {"x": "1"}
            assert {item["metadata"]["name"] for item in (await api.call("GET", MAPS)).body["items"]} == acknowledged
            disk.make_room()
            assert (await api.call("PATCH", f"{MAPS}/first", {"data": {"x": "2"}}, content_type=MERGE)).code == 200
            seen = await events.take(len(acknowledged) + 1)
        told = [(event["type"], event["object"]["metadata"]["name"]) for event in seen]
        assert {name for _, name in told} == acknowledged
        assert told[-1] == ("MODIFIED", "first")
    async with embedded_server(disk.path, controllers=False) as again:
        items = (await again.call("GET", MAPS)).body["items"]
        assert {item["metadata"]["name"] for item in items} == acknowledged
        assert (await again.call("GET", f"{MAPS}/first")).body["data"] == {"x": "2"}


async def test_a_server_that_cannot_start_on_a_full_disk_says_so(disk: Disk) -> None:
    """The error says what to do. The server starts when there is room."""
    disk.fill()
    with pytest.raises(DataFolderUnusable, match="disk is full") as refused:
        await Store.open(disk.path / "objects")
    assert "make room" in refused.value.hint
    disk.make_room()
    await (await Store.open(disk.path / "objects")).close()


async def test_a_refused_upload_continues_where_it_stopped(disk: Disk, tmp_path: Path) -> None:
    """Nothing of the part that did not fit is stored. The earlier parts are kept and not sent again."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "weights").write_bytes(random.Random(1).randbytes(20 << 20))
    packed, blobs = pack(folder), await open_blobs((disk.path / "blobs").as_uri())
    store = CodeStore(blobs)
    disk.fill(leave_bytes=12 << 20)
    await put_part(store, packed, 0)
    with pytest.raises(StorageFull, match=r"is full"):
        await put_part(store, packed, 1)
    assert list((disk.path / "blobs" / TEMPORARY).iterdir()) == []
    assert list(await store.parts("team", packed.digest)) == [0]
    assert await store.find("team", packed.digest) is None
    disk.make_room()
    for number in range(1, packed.parts):
        await put_part(store, packed, number)
    parts = [sha256_of(packed, number) for number in range(packed.parts)]
    code = await store.complete("team", packed.digest, parts, packed.size_bytes)
    assert code == await store.find("team", packed.digest)


async def put_part(store: CodeStore, packed: Pack, number: int) -> None:
    frame = compress(packed.part(number))
    await store.put_part("team", packed.digest, number, sha256_of(packed, number), frame)


def sha256_of(packed: Pack, number: int) -> str:
    return hashlib.sha256(packed.part(number)).hexdigest()


async def test_a_full_disk_keeps_the_earlier_part_of_a_log(disk: Disk) -> None:
    """The rest of the log is kept when there is room."""
    blobs: Blobs = await open_blobs((disk.path / "blobs").as_uri())
    kept, name = KeptLogs(blobs), MemberLogName("team", "uid", 1, 0)
    await kept.keep(name, b"so far\n")
    disk.fill()
    with pytest.raises(StorageFull):
        await kept.keep(name, b"so far\n" + b"and more\n" * 100_000)
    assert [piece async for piece in kept.read(name)] == [b"so far\n"]
    disk.make_room()
    await kept.keep(name, b"so far\nand more\n")
    assert [piece async for piece in kept.read(name)] == [b"so far\nand more\n"]
    assert list((disk.path / "blobs" / TEMPORARY).iterdir()) == []
