"""Write a cluster, its history and its blobs into a backup while everything runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from kajitori import __version__
from kajitori.backup.archive import About, BackupWriter, writing
from kajitori.blobs import code, history_outbox, logs, results
from kajitori.blobs.stores.blobs import Blobs
from kajitori.cluster.run_object import RUNS
from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.errors import NotFound
from kajitori.history.dump import TABLES, facts_of_dump, rows_of
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource

RUN_LINES, NAMESPACE_LINES = "cluster/runs.jsonl", "cluster/namespaces.jsonl"
INSTALLATION_LINES, SECRET_LINES = "cluster/installation.jsonl", "cluster/secrets.jsonl"
LEFT_OUT_LINES = "blobs-left-out.jsonl"
HISTORY, BLOBS = "history/", "blobs/"
SYSTEM = "kube-system"
PROGRESS_EVERY = 2_000


@dataclass(frozen=True, kw_only=True)
class Source:
    """The cluster, history and blobs that a backup reads."""

    client: KubeClient
    namespace: str
    """Namespace of the installation."""
    history: History | None = None
    blobs: Blobs | None = None
    with_results: bool = False
    """Whether to include the contents of results, not only their keys."""
    with_secrets: bool = False


async def take(path: Path, source: Source, now: datetime, say: Callable[[str], None]) -> About:
    """Write a backup to a file that does not exist yet.

    Runs are read first, then history in one transaction, then blobs. So history has what happens to the runs meanwhile,
    and the blobs that a run refers to are there, since they are stored before the run refers to them.
    """
    runs = [run async for run in _objects_of(source.client, RUNS)]
    history = await source.history.open() if source.history is not None else None
    facts = await facts_of_dump(history) if history is not None else None
    about = About(
        version=__version__,
        taken_at=format_time(now),
        cluster=await cluster_id(source.client),
        history=facts,
        blobs=source.blobs is not None,
        results=source.blobs is not None and source.with_results,
        secrets=source.with_secrets,
    )
    with writing(path, about) as writer:
        await _write_cluster(writer, source, runs)
        say(f"Runs: {len(runs)}")
        if history is not None:
            async with history.snapshot() as reader:
                for table in TABLES:
                    count = await _write_lines(writer, f"{HISTORY}{table.name}.jsonl", rows_of(reader, table))
                    say(f"History, {table.name}: {count}")
        if source.blobs is not None:
            say(f"Blobs: {await _write_blobs(writer, source.blobs, with_results=source.with_results)}")
    return about


async def cluster_id(client: KubeClient) -> str:
    """Return a cluster's identifier, the UID of its system namespace; empty if it has none."""
    try:
        return str((await client.get(NAMESPACES, SYSTEM))["metadata"].get("uid", ""))
    except NotFound:
        return ""


async def _write_cluster(writer: BackupWriter, source: Source, runs: list[Any]) -> None:
    client = source.client
    await _write_lines(writer, RUN_LINES, _async_items(runs))
    spaces = {run["metadata"]["namespace"] for run in runs}
    found = [one async for one in _objects_of(client, NAMESPACES) if one["metadata"]["name"] in spaces]
    await _write_lines(writer, NAMESPACE_LINES, _async_items([_portable_object(one) for one in found]))
    await _write_lines(writer, INSTALLATION_LINES, _made_by_install(client, source.namespace))
    if source.with_secrets:
        await _write_lines(writer, SECRET_LINES, _own_secrets(client, spaces | {source.namespace}))


async def _made_by_install(client: KubeClient, namespace: str) -> AsyncIterator[Any]:
    """Yield the ConfigMaps with settings, policy and address registry; everything else is rendered from them."""
    async for one in _objects_of(client, CONFIG_MAPS, namespace):
        if one["metadata"]["name"] != "kube-root-ca.crt":
            yield _portable_object(one)


async def _own_secrets(client: KubeClient, spaces: set[str]) -> AsyncIterator[Any]:
    """Yield the Secrets that Kajitori made and that no other object owns."""
    for namespace in sorted(spaces):
        async for one in _objects_of(client, SECRETS, namespace):
            is_ours = (one["metadata"].get("labels") or {}).get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
            belongs_to_object = bool(one["metadata"].get("ownerReferences"))
            if is_ours and not belongs_to_object:
                yield _portable_object(one)


async def _objects_of(client: KubeClient, resource: Resource, namespace: str | None = "") -> AsyncIterator[Any]:
    for one in (await client.list(resource, namespace or None)).items:
        yield {"apiVersion": resource.api_version, "kind": resource.kind, **one}


def _portable_object(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the fields that an API server sets itself."""
    meta = {
        key: one["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if key in one["metadata"]
    }
    left_out = ("metadata", "status") if one["kind"] != "Namespace" else ("metadata", "status", "spec")
    return {key: value for key, value in one.items() if key not in left_out} | {"metadata": meta}


async def _async_items(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def _write_lines(writer: BackupWriter, name: str, documents: AsyncIterator[Any]) -> int:
    count, waiting = 0, bytearray()
    with writer.entry(name) as file:
        async for document in documents:
            waiting += msgspec.json.encode(document) + b"\n"
            count += 1
            if count % PROGRESS_EVERY == 0:
                await asyncio.to_thread(_drain, file, waiting)
        await asyncio.to_thread(_drain, file, waiting)
    writer.counts[name.rpartition("/")[2].partition(".")[0]] = count
    return count


def _drain(file: IO[bytes], waiting: bytearray) -> None:
    file.write(waiting)
    waiting.clear()


async def _write_blobs(writer: BackupWriter, blobs: Blobs, *, with_results: bool) -> int:
    """Write code, kept logs, records that wait for history, and results: only their keys and sizes unless
    `with_results`. Return the number of blobs."""
    count, left_out = 0, []
    for prefix in (code.PREFIX, logs.PREFIX, history_outbox.PREFIX, results.PREFIX):
        async with aclosing(blobs.under(prefix)) as found:
            listed = [blob async for blob in found]
        for blob in sorted(listed, key=lambda blob: ("/parts/" not in blob.key, blob.key)):  # whole code comes last
            if prefix == results.PREFIX and not with_results:
                left_out.append({"key": blob.key, "bytes": blob.size_bytes, "in": blobs.where})
                continue
            with suppress(NotFound):  # it was deleted meanwhile
                await _write_blob(writer, blobs, blob.key)
                count += 1
    await _write_lines(writer, LEFT_OUT_LINES, _async_items(left_out))
    writer.counts["blobs"] = count
    return count


async def _write_blob(writer: BackupWriter, blobs: Blobs, key: str) -> None:
    with writer.entry(f"{BLOBS}{key}") as file:
        async with aclosing(blobs.get(key)) as content:
            async for piece in content:
                await asyncio.to_thread(file.write, piece)
