"""The store in a folder."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from kajitori.embedded.store import Compacted, DataFolderInUse, DataFolderUnusable, NotStored, Store, StoreDamaged

PODS = "/pods"


def obj(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **more}


async def test_acknowledged_changes_survive_a_restart(tmp_path: Path) -> None:
    """Objects and the revision are kept; the revision never goes back, even if the last change was a deletion."""
    store = await Store.open(tmp_path)
    kept = store.create(PODS, "a", "kept", obj("kept"))
    gone = store.create(PODS, "a", "gone", obj("gone"))
    store.delete(gone)
    await store.durable(store.revision)
    revision = store.revision
    await store.close()
    again = await Store.open(tmp_path)
    assert again.revision > revision
    assert [record.value for record in again.records(PODS)] == [kept.value]
    await again.close()


async def test_revisions_are_not_reused_after_an_old_copy_is_restored(tmp_path: Path) -> None:
    """Earlier watchers are told to list again."""
    store = await Store.open(tmp_path / "store")
    store.create(PODS, "a", "kept", obj("kept"))
    await store.close()
    shutil.copytree(tmp_path / "store", tmp_path / "backup")
    store = await Store.open(tmp_path / "store")
    store.create(PODS, "a", "late", obj("late"))
    revision = store.revision
    await store.close()
    restored = await Store.open(tmp_path / "backup")
    assert restored.revision > revision
    with pytest.raises(Compacted):
        restored.watch(PODS, "", revision)
    await restored.close()


async def test_watchers_see_only_stored_changes(tmp_path: Path) -> None:
    """An event comes after its commit; many changes share one."""
    store = await Store.open(tmp_path)
    watcher = store.watch(PODS, "", store.revision)
    for index in range(100):
        store.create(PODS, "a", f"p{index}", obj(f"p{index}"))
    assert watcher.take() == []
    await store.durable(store.revision)
    assert len(watcher.take()) == 100
    assert store.durable_revision == store.revision
    await store.close()


async def test_a_second_server_is_refused(tmp_path: Path) -> None:
    """The folder is locked as long as the store is open."""
    store = await Store.open(tmp_path)
    with pytest.raises(DataFolderInUse) as refused:
        await Store.open(tmp_path)
    assert str(tmp_path) in refused.value.message
    assert "--data" in refused.value.hint
    await store.close()
    await (await Store.open(tmp_path)).close()


async def test_a_file_that_is_no_store_is_not_touched(tmp_path: Path) -> None:
    """Messages name a damaged file, a file of another format, and a path that is no folder."""
    (tmp_path / "store.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 50)
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(StoreDamaged, match=r"store\.sqlite has no valid header"):
        await Store.open(tmp_path)
    assert (tmp_path / "store.sqlite").read_bytes() == before
    other = tmp_path / "other"
    other.mkdir()
    database = sqlite3.connect(other / "store.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.execute("CREATE TABLE t (x)")
    database.commit()
    database.close()
    with pytest.raises(DataFolderUnusable, match="format 99"):
        await Store.open(other)
    with pytest.raises(DataFolderUnusable, match="can't be used"):
        await Store.open(tmp_path / "store.sqlite")


async def test_on_a_full_disk_unstored_changes_are_undone(tmp_path: Path) -> None:
    """Writers get an error, watchers see nothing, and with free space the store continues."""
    store = await Store.open(tmp_path)
    small = store.create(PODS, "a", "small", obj("small"))
    await store.durable(store.revision)
    await store.close()

    store = await Store.open(tmp_path, max_pages=20)
    watcher = store.watch(PODS, "", store.revision)
    current = store.get(PODS, "a", "small")
    assert current is not None
    store.update(current, obj("small", spec={"big": "x" * 300_000}))
    store.create(PODS, "a", "other", obj("other"))
    with pytest.raises(NotStored, match="full"):
        await store.durable(store.revision)
    assert watcher.take() == []
    assert [record.value for record in store.records(PODS)] == [small.value]
    store.create(PODS, "a", "fits", obj("fits"))
    await store.durable(store.revision)
    assert [event.record.name for event in watcher.take()] == ["fits"]
    await store.close()
    again = await Store.open(tmp_path)
    assert [record.name for record in again.records(PODS)] == ["fits", "small"]
    await again.close()


async def test_closing_stores_pending_changes(tmp_path: Path) -> None:
    """A change without a waiter is stored as well, and later ones are refused."""
    store = await Store.open(tmp_path)
    store.create(PODS, "a", "x", obj("x"))
    waiting = asyncio.create_task(store.durable(store.revision))
    await store.close()
    await waiting
    with pytest.raises(NotStored):
        store.create(PODS, "a", "y", obj("y"))
    again = await Store.open(tmp_path)
    assert [record.name for record in again.records(PODS)] == ["x"]
    await again.close()
