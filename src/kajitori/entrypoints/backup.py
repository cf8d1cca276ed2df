"""`kaji backup` and `kaji restore`, with the operator's rights, while the cluster is in use."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from kajitori.backup.archive import SUFFIX, About, Contents, about, verify
from kajitori.backup.restoring import Destination, Report, restore
from kajitori.backup.taking import Source, take
from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.configuration.cluster_file import CLUSTER_FILE
from kajitori.configuration.options.operators import BackupOptions
from kajitori.core.formats.times import parse_time
from kajitori.entrypoints.parts.stores import blobs_of, history_of
from kajitori.entrypoints.process import existing
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unavailable
from kajitori.history.store import History
from kajitori.kube.client import KubeClient

Say = Callable[[str], None]
PIECE = 1 << 20
_NAME = "kajitori-%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Found:
    """One backup in a folder or a store."""

    name: str
    size_bytes: int
    taken_at: datetime | None
    """None if the file is not a complete backup."""
    fault: str = ""


def back_up(options: BackupOptions, target: str, say: Say, *, results: bool = False, secrets: bool = False) -> str:
    """Take a backup; return its path or URL. A file gets its name only once it is complete."""

    async def work() -> str:
        now = datetime.now(UTC)
        async with (
            _open_cluster_and_history(options) as (client, history, blobs),
            _file_to_write(target, now) as (path, where),
        ):
            source = Source(
                client=client,
                namespace=options.namespace,
                history=history,
                blobs=blobs,
                with_results=results,
                with_secrets=secrets,
            )
            if history is None:
                say("Without --history, the backup will have no history.")
            if blobs is None:
                say("Without --blobs, the backup will have no code and no logs.")
            await take(path, source, now, say)
        return where

    return asyncio.run(work())


def bring_back(
    options: BackupOptions,
    source: str,
    say: Say,
    *,
    dry_run: bool = False,
    missing_runs: bool = False,
    secrets: bool = False,
) -> Report:
    """Restore a backup; with `dry_run` only report what would be done."""

    async def work() -> Report:
        async with _read(source) as path, _open_cluster_and_history(options) as (client, history, blobs):
            there = Destination(
                client=client, history=history, blobs=blobs, missing_runs=missing_runs, with_secrets=secrets
            )
            return await restore(path, there, datetime.now(UTC), say, dry_run=dry_run)

    return asyncio.run(work())


def check(source: str) -> tuple[About, Contents]:
    """Read a backup as a whole. Raises InvalidInput if it is cut off or damaged."""

    async def work() -> tuple[About, Contents]:
        async with _read(source) as path:
            return await asyncio.to_thread(verify, path)

    return asyncio.run(work())


def listed(place: str) -> list[Found]:
    """Return the backups in a folder or a store, the newest first. Only their beginnings are read.

    Raises NotFound if there is no such folder.
    """

    async def work() -> list[Found]:
        if "://" not in place:
            if await asyncio.to_thread(Path(place).is_file):
                raise NotFound(f"{place} is a file, not a folder", hint=f"to check it: kaji backup verify {place}")
            if not await asyncio.to_thread(Path(place).is_dir):
                raise NotFound(f"there is no folder {place}", hint="name the folder or the store of the backups")
            files = await asyncio.to_thread(lambda: sorted(Path(place).glob(f"*{SUFFIX}")))
            return [_found_backup(path, path.name, path.stat().st_size) for path in files]
        found, store = [], await open_blobs(place, field="PLACE")
        async with aclosing(store.under()) as blobs:
            for blob in [blob async for blob in blobs if blob.key.endswith(SUFFIX)]:
                with tempfile.TemporaryDirectory(prefix="kaji-backup-") as folder:
                    path = Path(folder) / "beginning"
                    async with aclosing(store.get(blob.key, length=PIECE)) as content:
                        path.write_bytes(b"".join([piece async for piece in content]))
                    found.append(_found_backup(path, blob.key, blob.size_bytes))
        return found

    return sorted(asyncio.run(work()), key=lambda one: one.taken_at or datetime.min.replace(tzinfo=UTC), reverse=True)


def _found_backup(path: Path, name: str, size_bytes: int) -> Found:
    try:
        return Found(name, size_bytes, parse_time(about(path).taken_at))
    except KajitoriError as error:
        return Found(name, size_bytes, None, error.message)


@asynccontextmanager
async def _open_cluster_and_history(
    options: BackupOptions,
) -> AsyncIterator[tuple[KubeClient, History | None, Blobs | None]]:
    options = _with_data(options)
    async with (
        existing(options.kubeconfig, options.context) as client,
        history_of(options.history, options.history_password_file) as history,
    ):
        yield client, history, await blobs_of(options.blobs)


def _with_data(options: BackupOptions) -> BackupOptions:
    """Return the options, completed from the data folder of a running `kaji up`."""
    if options.data is None:
        return options
    folder = options.data.resolve()
    try:
        kubeconfig = json.loads((folder / CLUSTER_FILE).read_text())["kubeconfig"]
    except (OSError, ValueError, KeyError) as error:
        hint = f"start it first: kaji up --data {options.data}"
        message = "is not the folder of a running kaji up"
        raise InvalidInput.one("--data", message, value=str(folder), hint=hint) from error
    return replace(
        options,
        data=None,
        kubeconfig=Path(kubeconfig),
        history=options.history or f"sqlite://{quote(str(folder / 'history.db'))}",
        blobs=options.blobs or f"file://{quote(str(folder / 'blobs'))}",
    )


@asynccontextmanager
async def _file_to_write(target: str, now: datetime) -> AsyncIterator[tuple[Path, str]]:
    """Yield the file to write, and the path or URL of the backup."""
    name = f"{now.strftime(_NAME)}{SUFFIX}"
    if "://" not in target:
        path = await asyncio.to_thread(_new_file, target, name)
        yield path, str(path)
        return
    place, key = _store_and_key(target, name)
    store = await open_blobs(place, field="TARGET")
    await _check_place(store)
    with tempfile.TemporaryDirectory(prefix="kaji-backup-") as folder:
        path = Path(folder) / name
        yield path, f"{place.rstrip('/')}/{key}"
        await store.put(key, _pieces_of(path))


async def _check_place(store: Blobs) -> None:
    """Raise Unavailable before the backup is taken if the bucket does not exist. An account that may only write cannot
    be checked, which is no fault."""
    try:
        async with aclosing(store.under("kajitori")) as found:
            async for _ in found:
                break
    except Unavailable as error:
        if error.code == "NoBucket":
            raise


def _new_file(target: str, name: str) -> Path:
    path = Path(target)
    path = path / name if path.is_dir() or target.endswith("/") else path
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise InvalidInput.one("TARGET", f"{path} exists", value=target, hint="choose another name, or a folder")
    return path


@asynccontextmanager
async def _read(source: str) -> AsyncIterator[Path]:
    """Yield a backup as a file of this machine."""
    if "://" not in source:
        yield Path(source)
        return
    place, key = _store_and_key(source, "")
    if not key:
        hint = "kaji backup ls PLACE shows names"
        raise InvalidInput.one("SOURCE", f"names no file that ends with {SUFFIX}", value=source, hint=hint)
    store = await open_blobs(place, field="SOURCE")
    with tempfile.TemporaryDirectory(prefix="kaji-backup-") as folder:
        path = Path(folder) / "backup"
        try:
            with path.open("wb") as file:
                async with aclosing(store.get(key)) as content:
                    async for piece in content:
                        await asyncio.to_thread(file.write, piece)
        except NotFound as error:
            raise NotFound(f"there is no backup {source}", hint=f"see them all: kaji backup ls {place}") from error
        yield path


def _store_and_key(url: str, name: str) -> tuple[str, str]:
    """Return the URL of a store and the key of a backup in it; `name` if the URL names none."""
    if not url.endswith(SUFFIX):
        return url, name
    place, _, key = url.rpartition("/")
    return place, key


async def _pieces_of(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
