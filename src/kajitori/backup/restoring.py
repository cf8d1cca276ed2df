"""Restores from a backup everything that is missing in a cluster.

Existing runs with the same name, rows of history, blobs and settings are not changed. So a backup can be restored any
number of times, even into the cluster from which it was taken, and while runs are running.
"""

from __future__ import annotations

import asyncio
import getpass
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from kajitori.backup.archive import About, lines_of, reading, verify
from kajitori.backup.taking import (
    BLOBS,
    HISTORY,
    INSTALLATION_LINES,
    NAMESPACE_LINES,
    RUN_LINES,
    SECRET_LINES,
    cluster_id,
)
from kajitori.blobs import logs, results
from kajitori.blobs.stores.blobs import Blobs
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.recording import closed_now, state_of
from kajitori.core.formats.times import parse_time
from kajitori.core.gang.restoring import restored
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.usage.records import AuditEntry
from kajitori.errors import AlreadyExists, NotFound
from kajitori.history.dump import TABLES, Record, Table, complete, load, prepare, rename, renamed_runs, unknown_expired
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.decoding import decode
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS

T = TypeVar("T")

ROWS_AT_ONCE = 1_000
HEAD_START_SECONDS = 1.5
"""Time by which runs that had nodes are queued before the other runs."""
_HAD_NODES = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING)
ADMINISTRATORS = "system:masters"
PIECE = 1 << 20
Say = Callable[[str], None]
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The destination of a restore."""

    client: KubeClient
    history: History | None = None
    blobs: Blobs | None = None
    missing_runs: bool = False
    """Whether to restore runs that were deleted after the backup, if it was taken from the same cluster."""
    with_secrets: bool = False


@dataclass
class Report:
    """Result of a restore, or of its dry run."""

    queued: list[str] = field(default_factory=list)
    """Restored runs that are queued, as `namespace/name`."""
    ended: list[str] = field(default_factory=list)
    """Restored runs that had ended."""
    kept: Counter[str] = field(default_factory=Counter)
    """Number of runs that were not restored, by reason."""
    objects: list[str] = field(default_factory=list)
    """Namespaces, ConfigMaps and Secrets that were created."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows of history that were read, by table."""
    blobs: int = 0
    """Number of blobs that were missing and were stored."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A run to restore. `made` is its object if an earlier, interrupted restore has created it already."""

    document: dict[str, Any]
    run: RunObject
    made: RunObject | None = None


async def restore(path: Path, destination: Destination, now: datetime, say: Say, *, dry_run: bool = False) -> Report:
    """Restore a backup; with `dry_run` only report what would be done. The backup is verified first, as a whole."""
    about, _ = await asyncio.to_thread(verify, path)
    say(f"The backup of {about.taken_at} is complete.")
    report = Report(notes=list(_restore_notes(about, destination)))
    chosen = await _choose(path, about, destination, report)
    if dry_run:
        return report
    if about.history is not None and destination.history is None and report.queued:
        say("Without --history, the usage of these runs until the backup is not recorded.")
    await _make_objects(path, destination, report)
    made = {one.run.metadata.uid: await _create_run(destination.client, one) for one in chosen}
    uids = {old: run.metadata.uid for old, run in made.items()}
    if destination.history is not None:
        await _restore_history(path, about, destination.history, chosen, uids, report)
    if destination.blobs is not None:
        await _restore_blobs(path, destination.blobs, report)
        for one in chosen:
            await _copy_blobs(destination.blobs, one.run, uids[one.run.metadata.uid])
    taken_at = parse_time(about.taken_at) or now
    await _write_statuses(destination.client, chosen, made, taken_at, now)
    if destination.history is not None:
        await destination.history.note([_audit_entry(about, report, now)])
    return report


def _restore_notes(about: About, destination: Destination) -> Iterator[str]:
    if about.history is None:
        yield "The backup has no history."
    elif destination.history is None:
        yield "History is not restored: name the database with --history."
    if not about.blobs:
        yield "The backup has no code and no logs."
    elif destination.blobs is None:
        yield "Code and logs are not restored: name the store with --blobs."
    if about.secrets and not destination.with_secrets:
        yield "Secrets are not restored: ask for them with --with-secrets."


# ---------------------------------------------------------------------------------------------- runs


async def _choose(path: Path, about: About, destination: Destination, report: Report) -> list[_Chosen]:
    """Return the runs to restore."""
    present = {
        (run.metadata.namespace, run.metadata.name): run
        for run in (await destination.client.list(RUNS, type=RunObject)).items
    }
    is_same = bool(about.cluster) and about.cluster == await cluster_id(destination.client)
    removed, ended = await asyncio.to_thread(changes_during_backup, path, about)
    renamed: Mapping[str, str] = {}
    if destination.history is not None and about.history is not None:
        renamed = await renamed_runs(await destination.history.open())
    chosen = []
    for document in _documents_of(path, RUN_LINES):
        run = decode(msgspec.json.encode(document), RunObject)
        run = msgspec.structs.replace(run, status=ended.get(run.metadata.uid, run.status))
        meta = run.metadata
        found = present.get((meta.namespace, meta.name))
        why = _reason_to_skip(run, found, removed, renamed, is_same and not destination.missing_runs)
        if why:
            report.kept[why] += 1
            continue
        chosen.append(_Chosen(document, run, found))
        is_over = run.status is not None and run.status.phase.is_final
        (report.ended if is_over else report.queued).append(f"{meta.namespace}/{meta.name}")
    return chosen


def _reason_to_skip(
    run: RunObject, found: RunObject | None, removed: set[str], renamed: Mapping[str, str], is_same: bool
) -> str:
    """Return why a run is not restored; empty if it is."""
    uid = run.metadata.uid
    if found is not None:
        if found.metadata.uid == uid:
            return "exist and stay as they are"
        if found.metadata.annotations.get(names.ANNOTATION_RESTORED) != uid:
            return "are not restored, because another run has their name now"
        return "were restored before" if found.status is not None else ""
    if uid in renamed:
        return "were restored before and deleted since"
    if uid in removed or run.metadata.deletion_timestamp:
        return "were being removed when the backup was taken"
    return "were deleted since the backup (--missing-runs restores them)" if is_same else ""


def changes_during_backup(path: Path, about: About) -> tuple[set[str], dict[str, RunStatus | None]]:
    """Return what happened to the runs of a backup while it was taken, as history shows it, which was read after them.

    The first result has the UIDs of runs that were removed, the second one the statuses of runs that ended.
    """
    if about.history is None:
        return set(), {}
    taken_at = parse_time(about.taken_at)
    since = taken_at.timestamp() * 1000 if taken_at is not None else 0
    removed, ended = set[str](), dict[str, RunStatus | None]()
    present = {
        run["metadata"]["uid"] for run in _documents_of(path, RUN_LINES)
    }  # history may have millions of other runs
    if not present:
        return removed, ended
    for record in _documents_of(path, f"{HISTORY}runs.jsonl"):
        if record["uid"] not in present:
            continue
        if record["removed_at"] is not None:
            removed.add(record["uid"])
        elif record["ended_at"] is not None and record["seen_at"] >= since:
            ended[record["uid"]] = decode(record["document"].encode(), RunObject).status
    return removed, ended


async def _create_run(client: KubeClient, one: _Chosen) -> RunObject:
    """Create the object of a run. This impersonates its owner, since the API server accepts runs of the caller only.
    The controller ignores the run until it has a status."""
    if one.made is not None:
        return one.made
    meta, owner = one.run.metadata, one.run.owner
    maker = client.in_name_of(owner, ADMINISTRATORS) if owner else client
    annotations = {**meta.annotations, names.ANNOTATION_RESTORED: meta.uid}
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    document = {
        "apiVersion": RUNS.api_version,
        "kind": RUNS.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": dict(meta.labels),
            "annotations": annotations,
        },
        "spec": one.document.get("spec", {}),
    }
    return decode(msgspec.json.encode(await maker.create(RUNS, document)), RunObject)


async def _write_statuses(
    client: KubeClient, chosen: list[_Chosen], made: Mapping[str, RunObject], taken_at: datetime, now: datetime
) -> None:
    """Write the statuses of the runs; from then on the controller reconciles them. Runs that had nodes come first,
    since waiting runs would otherwise take these nodes."""
    had_nodes = [one.run for one in chosen if one.run.current_status.phase in _HAD_NODES]
    others = [one.run for one in chosen if one.run.current_status.phase not in _HAD_NODES]
    for run in had_nodes:
        await _write_status(client, run, made[run.metadata.uid], taken_at, now)
    if had_nodes and any(run.current_status.phase is Phase.QUEUED for run in others):
        await asyncio.sleep(HEAD_START_SECONDS)
    for run in others:
        await _write_status(client, run, made[run.metadata.uid], taken_at, now)


async def _write_status(client: KubeClient, run: RunObject, made: RunObject, taken_at: datetime, now: datetime) -> None:
    meta, status = made.metadata, restored(run.current_status, taken_at, now)
    status = msgspec.structs.replace(status, observed_generation=meta.generation)
    patch = {"status": to_document(status)}
    await client.patch(RUNS, meta.name, patch, meta.namespace, subresource="status")


# ---------------------------------------------------------------------------------------------- the rest


async def _make_objects(path: Path, destination: Destination, report: Report) -> None:
    """Create the namespaces, ConfigMaps of the installation and Secrets that are missing."""
    parts = [(NAMESPACE_LINES, NAMESPACES), (INSTALLATION_LINES, CONFIG_MAPS)]
    if destination.with_secrets:
        parts.append((SECRET_LINES, SECRETS))
    for name, resource in parts:
        for document in _documents_of(path, name):
            meta = document["metadata"]
            try:
                if resource is not NAMESPACES:
                    await _ensure_namespace(destination.client, meta["namespace"])
                await destination.client.create(resource, document)
            except AlreadyExists:
                continue
            report.objects.append(f"{resource.kind} {meta.get('namespace', '')}/{meta['name']}".replace(" /", " "))


async def _ensure_namespace(client: KubeClient, name: str) -> None:
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


async def _restore_history(
    path: Path, about: About, history: History, chosen: list[_Chosen], uids: Mapping[str, str], report: Report
) -> None:
    """Add the rows that are missing and the usage of the restored runs until the backup; then write the new UIDs of
    these runs into the rows."""
    database = await history.open()
    if about.history is not None:
        target = await prepare(database, about.history)
        gone: set[str] = set()
        report.rows = {table.name: 0 for table in TABLES}
        async with aclosing(_computed_ahead(_history_pages(path))) as pages:
            async for table, records in pages:
                if table.name == "runs" and target.skip_before:
                    gone |= await unknown_expired(database, records, target.skip_before)
                kept = [record for record in records if not table.run or record[table.run] not in gone]
                await load(database, table, kept, target)
                report.rows[table.name] += len(records)
        await complete(database, about.history)
    taken_at = parse_time(about.taken_at) or datetime.now(UTC)
    for start in range(0, len(chosen), ROWS_AT_ONCE):
        part = [one.run for one in chosen[start : start + ROWS_AT_ONCE]]
        await history.record(state_of(run, closed_now(run, taken_at), taken_at, confirmed=None) for run in part)
    await rename(database, uids)


async def _restore_blobs(path: Path, blobs: Blobs, report: Report) -> None:
    """Store the blobs that are missing."""
    with reading(path) as entries:
        while (entry := await asyncio.to_thread(next, entries, None)) is not None:
            name, content = entry
            if not name.startswith(BLOBS):
                continue
            key = name.removeprefix(BLOBS)
            try:
                await blobs.head(key)
            except NotFound:
                await blobs.put(key, _pieces_of(content))
                report.blobs += 1


async def _copy_blobs(blobs: Blobs, run: RunObject, uid: str) -> None:
    """Copy the logs and results of a restored run: their keys contain its UID."""
    namespace, old = run.metadata.namespace, run.metadata.uid
    for prefix in (logs.PREFIX, results.PREFIX):
        async with aclosing(blobs.under(f"{prefix}/{namespace}/{old}")) as found:
            keys = [blob.key async for blob in found]
        for key in keys:
            fresh = key.replace(f"/{old}/", f"/{uid}/", 1)
            try:
                await blobs.head(fresh)
            except NotFound:
                await blobs.put(fresh, blobs.get(key))


async def _pieces_of(content: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(content.read, PIECE):
        yield piece


def _documents_of(path: Path, wanted: str) -> Iterator[Any]:
    with reading(path) as entries:
        for name, content in entries:
            if name == wanted:
                yield from lines_of(content)
                return


def _history_pages(path: Path) -> Iterator[tuple[Table, list[Record]]]:
    """Yield the rows of all tables, page by page. The backup is read once."""
    tables = {f"{HISTORY}{table.name}.jsonl": table for table in TABLES}
    with reading(path) as entries:
        for name, content in entries:
            if name in tables:
                lines = lines_of(content)
                while page := list(itertools.islice(lines, ROWS_AT_ONCE)):
                    yield tables[name], page


async def _computed_ahead(items: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items. A thread computes the next one while the present one is used."""
    computed = asyncio.ensure_future(asyncio.to_thread(next, items, None))
    try:
        while (item := await computed) is not None:
            computed = asyncio.ensure_future(asyncio.to_thread(next, items, None))
            yield item
    finally:
        await asyncio.wait([computed])


def _audit_entry(about: About, report: Report, now: datetime) -> AuditEntry:
    return AuditEntry(
        key=f"restore/{about.taken_at}/{now.timestamp()}",
        at=int(now.timestamp() * 1000),
        actor=f"kaji restore ({getpass.getuser()})",
        action="restore backup",
        object=f"backup {about.taken_at}",
        outcome="done",
        message=f"{len(report.queued)} runs queued, {len(report.ended)} ended runs, {report.blobs} blobs",
    )
