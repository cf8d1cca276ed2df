"""Damaged stores: damage is detected, damaged data is never served, and as much as possible is recovered."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kajitori.embedded.store import DataFolderUnusable, NotStored, Store, StoreDamaged
from kajitori.embedded.store.files import FILE, LOG, REPAIRING
from kajitori.embedded.store.journal import Journal
from kajitori.embedded.store.repair import repair

PODS = "/pods"
Contents = dict[tuple[str, str], bytes]


def obj(name: str, size: int = 10) -> dict[str, object]:
    where = {"namespace": "a"} if name.startswith(("p", "l")) else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **where}, "spec": {"x": "x" * size}}


def contents(store: Store) -> Contents:
    return {(record.resource, record.key): record.value for kind in store.resources() for record in store.records(kind)}


async def _fill(store: Store) -> None:
    """Write objects of all sizes; some are changed, some deleted; commits are large and small."""
    sizes = random.Random(5)
    for index in range(120):
        store.create(PODS, "a", f"p{index}", obj(f"p{index}", sizes.choice([10, 200, 2000, 9000])))
    await store.durable(store.revision)
    for index in range(0, 120, 3):
        present = store.get(PODS, "a", f"p{index}")
        assert present is not None
        store.update(present, obj(f"p{index}", sizes.choice([10, 3000])))
        if not index % 9:
            await store.durable(store.revision)
    for index in range(0, 120, 7):
        present = store.get(PODS, "a", f"p{index}")
        assert present is not None
        store.delete(present)
    for index in range(10):
        store.create("/nodes", "", f"n{index}", obj(f"n{index}", 500))
        await store.durable(store.revision)


class Stores:
    """Return a store that was closed, the same one as a killed process left it, and the contents of both."""

    def __init__(self, closed: Path, killed: Path, held: Contents) -> None:
        self.closed, self.killed, self.held = closed, killed, held


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("stores")

    async def make() -> Contents:
        store = await Store.open(folder / "closed")
        await _fill(store)
        shutil.copytree(folder / "closed", folder / "killed")
        held = contents(store)
        await store.close()
        return held

    return Stores(folder / "closed", folder / "killed", asyncio.run(make()))


def opened(folder: Path) -> Contents:
    """Return the contents of a store. Raises StoreDamaged."""

    async def read() -> Contents:
        store = await Store.open(folder)
        try:
            return contents(store)
        finally:
            await store.close()

    return asyncio.run(read())


DAMAGE = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from([1, 1, 4, 512])), min_size=1, max_size=4)
"""A place in a file, as a share of its size, and a number of bytes."""


@pytest.mark.parametrize(("state", "file"), [("closed", FILE), ("killed", LOG), ("killed", FILE)])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=DAMAGE, in_head=st.booleans(), flip=st.integers(1, 255))
def test_damaged_bytes_are_never_served_as_data(
    stores: Stores,
    tmp_path_factory: pytest.TempPathFactory,
    state: str,
    file: str,
    damage: list[tuple[float, int]],
    in_head: bool,
    flip: int,
) -> None:
    """Either the store is refused, or it has the contents that were written. A repaired store has a part of them, in
    their last state, and lists the lost ones or says that it cannot."""
    folder = tmp_path_factory.mktemp("damaged")
    try:
        shutil.copytree(getattr(stores, state), folder / "s")
        content = bytearray((folder / "s" / file).read_bytes())
        for share, count in damage:
            start = int(share * (200 if in_head else len(content)))
            for position in range(start, min(start + count, len(content))):
                content[position] ^= flip
        (folder / "s" / file).write_bytes(content)
        shutil.copytree(folder / "s", folder / "repaired")
        try:
            assert opened(folder / "s") == stores.held
        except StoreDamaged as error:
            assert "kaji up --repair" in error.hint and "backup" in error.hint
        done = repair(folder / "repaired")
        saved = opened(folder / "repaired")
        assert saved.items() <= stores.held.items()
        named = {(kind, f"{space}/{name}" if space else name) for kind, space, name in done.lost}
        missing = stores.held.keys() - saved.keys()
        assert missing <= named or done.may_lack_more
        assert named <= stores.held.keys() - saved.keys() or done.may_lack_more
        assert done.objects == len(saved)
        if done.kept is not None and (done.kept / file).exists():
            assert (done.kept / file).read_bytes()
    finally:
        shutil.rmtree(folder)


def test_one_damaged_byte_loses_one_object_which_is_named(stores: Stores, tmp_path: Path) -> None:
    """The other objects are there as before, and the damaged file beside the new one."""
    shutil.copytree(stores.closed, tmp_path / "s")
    file = tmp_path / "s" / FILE
    content = bytearray(file.read_bytes())
    content[content.index(stores.held["/nodes", "n3"]) + 250] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"are damaged: nodes n3 has a wrong checksum"):
        opened(tmp_path / "s")
    done = repair(tmp_path / "s")
    assert done.lost == (("/nodes", "", "n3"),)
    assert not done.may_lack_more
    assert opened(tmp_path / "s") == {key: value for key, value in stores.held.items() if key != ("/nodes", "n3")}
    assert done.kept is not None and (done.kept / FILE).read_bytes() == bytes(content)


def test_repairing_an_intact_store_changes_nothing(stores: Stores, tmp_path: Path) -> None:
    shutil.copytree(stores.killed, tmp_path / "s")
    done = repair(tmp_path / "s")
    assert (done.kept, done.objects, done.lost, done.damage) == (None, len(stores.held), (), "")
    assert opened(tmp_path / "s") == stores.held


@pytest.mark.parametrize("gone", ["empty", "gone"])
def test_a_missing_store_file_is_not_replaced_by_an_empty_one(stores: Stores, tmp_path: Path, gone: str) -> None:
    """An empty cluster in its place would end all runs."""
    shutil.copytree(stores.closed, tmp_path / "s")
    (tmp_path / "s" / FILE).unlink()
    if gone == "empty":
        (tmp_path / "s" / FILE).touch()
    with pytest.raises(StoreDamaged, match=f"{FILE} is {gone}"):
        opened(tmp_path / "s")
    done = repair(tmp_path / "s")
    assert (done.objects, done.may_lack_more) == (0, True)
    assert opened(tmp_path / "s") == {}


def test_an_unknown_format_is_damage(stores: Stores, tmp_path: Path) -> None:
    """A store of a later version is not damaged: that version reads it, and a repair does not touch it."""
    shutil.copytree(stores.closed, tmp_path / "s")
    with sqlite3.connect(tmp_path / "s" / FILE) as database:
        database.execute("PRAGMA user_version = 65537")
    database.close()
    assert repair(tmp_path / "s").objects == len(stores.held)
    with sqlite3.connect(tmp_path / "s" / FILE) as database:
        database.execute("PRAGMA user_version = 2")
        database.execute("ALTER TABLE objects RENAME COLUMN value TO document")
    database.close()
    with pytest.raises(DataFolderUnusable, match="format 2, this version of Kajitori writes 1"):
        repair(tmp_path / "s")


def test_an_interrupted_repair_is_continued(stores: Stores, tmp_path: Path) -> None:
    """After a stop at any step, the kept files are those from before the repair."""
    folder = tmp_path / "s"
    shutil.copytree(stores.killed, folder)
    (folder / "damaged-earlier").mkdir()
    for name in (FILE, LOG):
        shutil.copy(folder / name, folder / "damaged-earlier" / name)
    (folder / REPAIRING).write_text("damaged-earlier")
    (folder / LOG).unlink()
    with pytest.raises(StoreDamaged, match="its repair was interrupted"):
        opened(folder)
    done = repair(folder)
    assert done.kept == folder / "damaged-earlier"
    assert opened(folder) == stores.held


def test_files_of_an_earlier_version_get_checksums(stores: Stores, tmp_path: Path) -> None:
    """Files of an earlier version have no checksums; rows that it writes into our file have none either."""
    shutil.copytree(stores.closed, tmp_path / "s")
    file = tmp_path / "s" / FILE
    with sqlite3.connect(file) as database:
        database.execute("ALTER TABLE objects DROP COLUMN checksum")
    database.close()
    assert opened(tmp_path / "s") == stores.held
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM objects WHERE checksum IS NULL").fetchone() == (0,)
        database.execute("UPDATE objects SET checksum = NULL, value = replace(value, 'n3', 'n4') WHERE name = 'n3'")
    database.close()
    with pytest.raises(StoreDamaged, match="nodes n3"):
        opened(tmp_path / "s")


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "s")
    await _fill(store)
    yield store
    await store.close()


def _spoil(folder: Path) -> None:
    """Damage pages on disk that are not in memory."""
    with (folder / FILE).open("r+b") as file:
        file.write(b"\xff" * 100)
        file.seek(4096)
        file.write(b"\xff" * (1 << 20))
    (folder / LOG).write_bytes(b"")


async def test_damage_under_a_running_server_loses_nothing(
    running: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory has all objects: a write or the hourly check finds the damage, and the file is replaced."""
    held = contents(running)
    journal = running._journal
    assert isinstance(journal, Journal)
    _spoil(tmp_path / "s")
    with caplog.at_level(logging.ERROR):
        with pytest.raises(StoreDamaged) as found:
            await asyncio.to_thread(journal.check)
        running._found_damaged(found.value)
        late = running.create(PODS, "a", "late", obj("late"))
        await running.durable(running.revision)
    assert f"all {len(held)} objects were still in memory and were written to a new file" in caplog.text
    (kept,) = (tmp_path / "s").glob("damaged-*")
    assert (kept / FILE).read_bytes().startswith(b"\xff" * 100)
    await asyncio.to_thread(journal.check)
    await running.close()
    assert await _held_by(tmp_path / "s") == {**held, (PODS, "a/late"): late.value}


async def test_a_write_that_finds_damage_is_refused_once(running: Store, tmp_path: Path) -> None:
    """The next change is stored; on a failing disk the file is not replaced again and again."""
    held = contents(running)
    journal = running._journal
    assert isinstance(journal, Journal)

    def spoil() -> None:
        journal._database.close()
        shutil.copy(tmp_path / "other", tmp_path / "s" / FILE)
        (tmp_path / "s" / LOG).unlink(missing_ok=True)
        journal._database = sqlite3.connect(tmp_path / "s" / FILE, isolation_level=None, check_same_thread=False)

    (tmp_path / "other").write_bytes(b"no database" * 1000)
    spoil()
    running.create(PODS, "a", "late", obj("late"))
    with pytest.raises(NotStored, match="are damaged: file is not a database"):
        await running.durable(running.revision)
    assert contents(running) == held
    again = running.create(PODS, "a", "late", obj("late"))
    await running.durable(running.revision)
    held[PODS, "a/late"] = again.value
    spoil()
    for _ in range(2):
        running.create(PODS, "a", "later", obj("later"))
        with pytest.raises(NotStored, match="are damaged"):
            await running.durable(running.revision)
    assert contents(running) == held
    assert len(list((tmp_path / "s").glob("damaged-*"))) == 1


async def _held_by(folder: Path) -> Contents:
    store = await Store.open(folder)
    try:
        return contents(store)
    finally:
        await store.close()
