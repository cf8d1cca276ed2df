"""Converts a Run into the records of history: its facts, its attempts, and its usage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.lost_time import marks_of
from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.status.progress import finish
from kajitori.core.naming import names
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.usage import Segment, Usage
from kajitori.core.usage.ledger import members_of, nodes_of, open_ranks, release
from kajitori.core.usage.records import AttemptRecord, AuditEntry, RunRecord, RunState, SegmentRecord

Facts = tuple[object, ...]

CONTROLLER = "kajitori:controller"
"""The actor, in the audit trail, of the controller's own decisions."""


def facts_of(run: RunObject) -> Facts:
    """Return the facts of a run that history records: when they change, history gets a new record. Counts of members
    and messages are not part of them."""
    status = run.current_status
    attempt = status.attempt
    return (
        run.metadata.generation,
        run.metadata.labels,
        status.phase,
        status.reason,
        status.restarts,
        status.interruptions,
        status.attempts,
        attempt is not None and (attempt.created, attempt.started_at),
        status.usage.last if status.usage is not None else 0,
        status.stretches,
        status.finished_at,
        status.phase.is_final and (status.memory, status.members, status.message),
    )


def was_never_started(run: RunObject) -> bool:
    """Whether a run was created stopped, as `docker create` does it, and has not been started yet.

    Such a run is not an ended run, and history has no record of it.
    """
    status = run.status
    if status is not None:
        return status.reason is Reason.NOT_STARTED
    return run.metadata.generation == 1 and read_stored(run.spec).stopped


def state_of(
    run: RunObject, status: RunStatus, now: datetime, *, confirmed: int | None, removed: bool = False
) -> RunState:
    """Return the complete record of a run for history. `confirmed` is the number of the last segment that history has;
    None if that is not known. With `removed`, the run's object is deleted now, which stops a run that has not ended.
    """
    meta, spec = run.metadata, read_stored(run.spec)
    if removed and not status.phase.is_final:
        status = finish(status, Phase.STOPPED, Reason.DELETING, "deleted before its end", now)
    sweep = status.members.total if status.sweep is not None else 0
    members = sweep or spec.members
    record = RunRecord(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        owner=run.owner,
        type="sweep" if spec.is_sweep else spec.type,
        phase=status.phase.value,
        reason=status.reason.value,
        created_at=_parse_seconds(meta.creation_timestamp) or 0,
        started_at=_parse_seconds(status.started_at),
        ended_at=_parse_seconds(status.finished_at),
        removed_at=int(now.timestamp()) if removed else None,
        members=members,
        gpus=spec.gpus * members,
        attempts=status.attempts,
        seen_at=int(now.timestamp() * 1000),
        document=document_of(run, status),
    )
    usage = status.usage
    attempts = tuple(_attempts_of(status))
    if usage is None:
        return RunState(run=record, attempts=attempts, marks=marks_of(status, now))
    news = [segment for segment in usage.closed if segment.id > (confirmed or 0)]
    expected = max(usage.first, (confirmed or usage.first - 1) + 1)
    has_gap = usage.last >= expected and (not news or news[0].id > expected)
    return RunState(
        run=record,
        attempts=attempts,
        segments=tuple(_segments_of(status, usage, confirmed or 0)),
        ledger=usage.first,
        last=usage.last,
        totals=tuple(usage.totals) if has_gap else (),
        since=record.created_at,
        until=int(now.timestamp()),
        marks=marks_of(status, now),
    )


def closed_now(run: RunObject, now: datetime) -> RunStatus:
    """Return the status of a run after its object disappeared: all of its segments are closed."""
    status, moment = run.current_status, format_time(now)
    return release(
        status,
        {attempt: dict.fromkeys(ranks, moment) for attempt, ranks in open_ranks(status.usage).items()},
    )


def document_of(run: RunObject, status: RunStatus) -> bytes:
    """Return the Run as history keeps it: without the ledger, and without the Pod template, which follows from policy
    and spec."""
    meta = run.metadata
    attempt = status.attempt
    if attempt is not None:
        attempt = msgspec.structs.replace(attempt, template="")
    kept = msgspec.structs.replace(status, attempt=attempt, usage=None, removal_waits="")
    metadata = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "generation": meta.generation,
        "creationTimestamp": meta.creation_timestamp,
        "labels": meta.labels,
        "annotations": {key: value for key, value in meta.annotations.items() if key.startswith(names.GROUP)},
    }
    return msgspec.json.encode({"metadata": metadata, "spec": run.spec, "status": to_document(kept)})


def decisions_of(run: RunObject) -> Iterator[AuditEntry]:
    """Yield the controller's decisions about a run for the audit trail. Each decision has a key of its own, so it is
    written only once."""
    meta, status = run.metadata, run.current_status
    about = {"actor": CONTROLLER, "namespace": meta.namespace, "object": f"run {meta.name}"}
    if status.reason is Reason.REFUSED:
        yield AuditEntry(
            key=f"{meta.uid}/refused/{status.observed_generation}",
            at=_parse_millis(status.finished_at),
            action="admit run",
            outcome="refused",
            rule="policy",
            message=status.message,
            **about,
        )
    for asked in status.preemption.each if status.preemption is not None else ():
        yield AuditEntry(
            key=f"{meta.uid}/preempted/{asked.uid}/{asked.attempts}",
            at=_parse_millis(asked.since),
            action="preempt run",
            outcome="done",
            rule="guarantee" if asked.guaranteed else "priority",
            message=f"for {asked.who or asked.by}",
            **about,
        )
    setback = status.setback
    if setback is not None:
        yield AuditEntry(
            key=f"{meta.uid}/restarted/{setback.attempt}/{setback.at}",
            at=_parse_millis(setback.at),
            action="restart run",
            outcome="done",
            rule=setback.reason,
            message=setback.message,
            **about,
        )


def removal_of(run: RunObject, now: datetime, rule: str) -> AuditEntry:
    """Return the entry about the removal of a run's object by the controller."""
    meta = run.metadata
    return AuditEntry(
        key=f"{meta.uid}/{rule}",
        at=int(now.timestamp() * 1000),
        actor=CONTROLLER,
        action="remove run",
        namespace=meta.namespace,
        object=f"run {meta.name}",
        outcome="done",
        rule=rule,
    )


def _attempts_of(status: RunStatus) -> Iterator[AttemptRecord]:
    attempt, setback = status.attempt, status.setback
    if attempt is not None:
        yield AttemptRecord(
            number=attempt.number,
            nodes=attempt.nodes,
            planned_at=attempt.planned_at,
            started_at=attempt.started_at,
            ended_at=status.finished_at,
            reason=(status.reason.value or status.phase.value) if status.finished_at else "",
            message=status.message if status.finished_at else "",
        )
    if setback is not None and setback.attempt and (attempt is None or setback.attempt != attempt.number):
        yield AttemptRecord(
            number=setback.attempt, nodes="", ended_at=setback.at, reason=setback.reason, message=setback.message
        )


def _segments_of(status: RunStatus, usage: Usage, confirmed: int) -> Iterator[SegmentRecord]:
    for segment in usage.closed:
        if segment.id > confirmed:
            yield SegmentRecord(
                id=segment.id,
                attempt=segment.attempt,
                members=members_of(segment),
                since=_parse_seconds(segment.since) or 0,
                until=_parse_seconds(segment.until) or 0,
                nodes=nodes_of(segment, status.attempt),
                gpu_type=segment.gpu_type,
                gpus=segment.gpus,
                cpu_millis=segment.cpu_millis,
                memory_bytes=segment.memory_bytes,
                started=_parse_seconds(segment.started),
                ended=_parse_seconds(segment.ended),
                cause=segment.cause,
                culprit=segment.culprit,
                after=segment.after,
                saves_every=segment.saves_every,
                counts=_ends_counted(segment),
            )


def _ends_counted(segment: Segment) -> int:
    """Return how many ends of attempts a segment stands for. The end of a gang's attempt is counted with its rank 0.
    Members that live independently count one each; their parts do not say when an attempt was broken."""
    if not segment.cause:
        return 0
    ranks = expand_ranks(segment.ranks)
    return int(0 in ranks) if segment.ended else len(ranks)


def _parse_seconds(text: str) -> int | None:
    moment = parse_time(text)
    return int(moment.timestamp()) if moment is not None else None


def _parse_millis(text: str) -> int:
    return (_parse_seconds(text) or 0) * 1000
