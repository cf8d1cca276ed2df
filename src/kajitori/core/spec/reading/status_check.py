"""Validation of a stored status. Kajitori alone should write it, but users with the permission can write anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kajitori.core.formats.node_lists import expand, expand_ranks
from kajitori.core.formats.quantities import parse_cpu_millis, parse_memory_bytes
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.array import MAX_INDEX, MAX_MEMBERS
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Resize
from kajitori.core.spec.status_parts.health import RunHealth
from kajitori.core.spec.status_parts.members import MemoryPeak, SweepState
from kajitori.core.spec.status_parts.node_request import NodeRequest
from kajitori.core.spec.status_parts.suspicions import IdleState, SlowPlace, Stretch, Stuck
from kajitori.core.spec.status_parts.usage import Holding, Usage

_COUNTS = ("attempts", "restarts", "interruptions", "failed_starts", "resumes", "observed_generation")
_MEMBER_COUNTS = ("total", "pending", "running", "succeeded", "failed")
_TIMES = ("not_before", "queued_at", "started_at", "finished_at")
_LARGEST = 2**31
_MOST_SECONDS = 2**50
_MOST_BYTES = 2**63
_LAST_YEAR = 9000
"""Latest year of a time, so that durations can still be added to it."""
_SHOWN = 200
_DIGITS = 10


class _Resources(msgspec.Struct):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class _Container(msgspec.Struct, rename="camel"):
    name: str
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    """The fields of a Pod template that Kajitori reads."""

    containers: list[_Container]
    init_containers: list[_Container] = []
    termination_grace_period_seconds: int = 30
    scheduler_name: str = ""
    priority: int = 0
    overhead: dict[str, str] = {}
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Template(msgspec.Struct):
    spec: _PodSpec
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def damage(status: RunStatus) -> str:
    """Return the first fault of a status, in words; empty if the status is valid."""
    return next(_faults(status), "")


def damaged(document: object, why: str) -> RunStatus:
    """Return the status that replaces an invalid one: the run has failed. Counters that must not repeat are kept."""
    known: Mapping[str, Any] = document if isinstance(document, dict) else {}
    attempt = known.get("attempt")
    number = attempt.get("number") if isinstance(attempt, dict) else 0
    return RunStatus(
        phase=Phase.FAILED,
        reason=Reason.STATUS_DAMAGED,
        message=f"its status was changed from outside and is not valid any more: {why[:_SHOWN]}",
        attempts=max(_count(known.get("attempts")), _count(number)),
        resumes=_count(known.get("resumes")),
    )


def _faults(status: RunStatus) -> Iterator[str]:
    """Yield the faults of a status, in words."""
    yield from _count_faults(status)
    yield from _times_faults("", status, _TIMES)
    yield from _past_faults(status)
    yield from _waiting_faults(status)
    yield from _finding_faults(status)
    if status.sweep is not None:
        yield from _sweep_faults(status.sweep)
    if status.usage is not None:
        yield from _usage_faults(status.usage)
    if status.attempt is not None:
        yield from _attempt_faults(status, status.attempt)


def _count_faults(status: RunStatus) -> Iterator[str]:
    yield from _number_faults("", status, _COUNTS)
    if not 0 <= status.rested_seconds < _MOST_SECONDS:
        yield f"restedSeconds is {status.rested_seconds}"
    yield from _number_faults("members.", status.members, _MEMBER_COUNTS)


def _past_faults(status: RunStatus) -> Iterator[str]:
    """Yield faults of what the run did before: its last setback, its running time, its memory peak."""
    if status.setback is not None:
        yield from _number_faults("setback.", status.setback, ("attempt",))
        yield from _time_faults("setback.at", status.setback.at)
    if status.ran is not None:
        yield from _number_faults("ran.", status.ran, ("seconds",))
        yield from _time_faults("ran.until", status.ran.until)
    if status.memory is not None:
        yield from _memory_faults(status.memory)


def _waiting_faults(status: RunStatus) -> Iterator[str]:
    """Yield faults of what the run waits for: preemptors, other runs, nodes, messages to people."""
    for asked in status.preemption.each if status.preemption is not None else ():
        yield from _number_faults("preemption.", asked, ("attempts",))
        yield from _ranks_faults("preemption.ranks", asked.ranks)
        yield from _time_faults("preemption.since", asked.since)
    if status.preemption is not None and any(not other.ranks for other in status.preemption.others):
        yield "preemption.others are not of members"
    for other in status.after:
        yield from _times_faults("after.", other, ("since", "met_at"))
    if status.resize is not None:
        yield from _resize_faults(status.resize)
    if status.node_request is not None:
        yield from _request_faults(status.node_request)
    for notice in status.notices.waiting if status.notices is not None else ():
        yield from _time_faults("notices.at", notice.at)


def _finding_faults(status: RunStatus) -> Iterator[str]:
    """Yield faults of findings about members: their health, a stuck run, idle GPUs, slow places."""
    if status.health is not None:
        yield from _health_faults(status.health)
    if status.stuck is not None:
        yield from _stuck_faults(status.stuck)
    if status.idle is not None:
        yield from _idle_faults(status.idle)
    if status.keep_limit is not None:
        yield from _times_faults("keepLimit.", status.keep_limit, ("asked", "until"))
    for place in status.slow:
        yield from _slow_faults(place)
    for stretch in status.stretches:
        yield from _stretch_faults(stretch)


def _health_faults(health: RunHealth) -> Iterator[str]:
    yield from _number_faults("health.", health, ("healthy", "starting", "unhealthy"))
    yield from _ranks_faults("health.ranks", health.ranks)
    yield from _time_faults("health.since", health.since)


def _stuck_faults(stuck: Stuck) -> Iterator[str]:
    yield from _number_faults("stuck.", stuck, ("attempt",))
    yield from _ranks_faults("stuck.ranks", stuck.ranks)
    yield from _time_faults("stuck.since", stuck.since)
    yield from _time_faults("stuck.lookedAt", stuck.looked_at)


def _slow_faults(place: SlowPlace) -> Iterator[str]:
    yield from _number_faults("slow.", place, ("attempt",))
    yield from _ranks_faults("slow.ranks", place.ranks)
    yield from _time_faults("slow.at", place.at)
    if not place.at:
        yield "a slow place has no time"


def _stretch_faults(stretch: Stretch) -> Iterator[str]:
    yield from _number_faults("stretches.", stretch, ("attempt",))
    yield from _times_faults("stretches.", stretch, ("since", "until"))
    if not stretch.since:
        yield "a stretch has no since"


def _usage_faults(usage: Usage) -> Iterator[str]:
    for number in (usage.first, usage.last, *(segment.id for segment in usage.closed)):
        if not 0 <= number < _MOST_BYTES:
            yield f"usage has the number {number}"
    for part in (*usage.open, *usage.closed, *usage.totals):
        yield from _number_faults("usage.", part, ("gpus", "cpu_millis", "memory_bytes"), _MOST_BYTES)
    for total in usage.totals:
        if not 0 <= total.member_seconds < _MOST_BYTES:
            yield f"usage.totals.memberSeconds is {total.member_seconds}"
    for holding in (*usage.open, *usage.closed):
        yield from _holding_faults(holding)
    for segment in usage.closed:
        yield from _time_faults("usage.until", segment.until)


def _holding_faults(holding: Holding) -> Iterator[str]:
    """Yield faults of the members, times and nodes of a segment of usage."""
    yield from _ranks_faults("usage.ranks", holding.ranks)
    yield from _times_faults("usage.", holding, ("since", "started", "ended"))
    if abs(holding.saves_every) > _MOST_SECONDS:
        yield f"usage.savesEvery is {holding.saves_every}"
    try:
        nodes = expand(holding.nodes)
    except ValueError as error:
        yield f"usage.nodes: {error}"
        return
    if not holding.since or (nodes and len(nodes) != len(expand_ranks(holding.ranks))):
        yield f"usage has {len(nodes)} nodes since {holding.since!r:.40}"


def _resize_faults(resize: Resize) -> Iterator[str]:
    try:
        nodes = expand(resize.nodes)
    except ValueError as error:
        yield f"resize.nodes: {error}"
    else:
        if not 1 <= resize.fewest <= len(nodes):
            yield f"resize.fewest is {resize.fewest} of {len(nodes)} nodes"
    yield from _time_faults("resize.since", resize.since)


def _sweep_faults(sweep: SweepState) -> Iterator[str]:
    yield from _number_faults("sweep.", sweep, ("longest_seconds", "member_seconds"), _MOST_SECONDS)
    ranges = {"succeeded": sweep.succeeded, "failed": sweep.failed, "again": sweep.again, **sweep.restarts}
    for name, text in ranges.items():
        yield from _ranks_faults(f"sweep.{name}", text)
    for count in sweep.restarts:
        if not (count.isascii() and count.isdigit() and len(count) < _DIGITS):
            yield f"sweep.restarts counts {count!r:.40}"


def _ranks_faults(name: str, text: str) -> Iterator[str]:
    try:
        ranks = expand_ranks(text, limit=MAX_MEMBERS)
    except ValueError as error:
        yield f"{name}: {error}"
    else:
        if any(rank > MAX_INDEX for rank in ranks):
            yield f"{name} has indices above {MAX_INDEX}"


def _request_faults(request: NodeRequest) -> Iterator[str]:
    yield from _number_faults("nodeRequest.", request, ("nodes", "attempt", "number", "granted", "failures"))
    yield from _times_faults("nodeRequest.", request, ("since", "first_asked_at", "asked_at", "not_before"))


def _memory_faults(memory: MemoryPeak) -> Iterator[str]:
    numbers = ("peak_bytes", "limit_bytes", "total_bytes", "rank", "attempt")
    yield from _number_faults("memory.", memory, numbers, _MOST_BYTES)
    yield from _time_faults("memory.at", memory.at)


def _idle_faults(idle: IdleState) -> Iterator[str]:
    yield from _number_faults("idle.", idle, ("attempt", "gpus", "fewest", "most", "confirmed", "peak_percent"))
    yield from _times_faults("idle.", idle, ("since", "asked_at", "warned_at", "park_at", "parked_at"))
    if not idle.since:
        yield "idle.since is empty"


def _attempt_faults(status: RunStatus, attempt: Attempt) -> Iterator[str]:
    if not 1 <= attempt.number <= status.attempts:
        yield f"attempt.number is {attempt.number} of {status.attempts}"
    if not 0 <= attempt.port < 65_536:
        yield f"attempt.port is {attempt.port}"
    yield from _times_faults("attempt.", attempt, ("planned_at", "started_at"))
    try:
        nodes, ranks = expand(attempt.nodes), expand_ranks(attempt.ranks)
    except ValueError as error:
        yield f"attempt.nodes or attempt.ranks: {error}"
        return
    if not nodes or (ranks and len(ranks) != len(nodes)):
        yield f"attempt.nodes names {len(nodes)} nodes for {len(ranks) or 'all'} ranks"
    if attempt.template:  # a resumed run has none
        yield from _template_faults(attempt.template)


def _template_faults(template: str) -> Iterator[str]:
    try:
        spec = msgspec.json.decode(template, type=_Template).spec
        for amounts in _amounts_of(spec):
            for resource, amount in amounts.items():
                parse_cpu_millis(amount) if resource == "cpu" else parse_memory_bytes(amount)
    except ValueError as error:  # base class of msgspec's and our own errors
        yield f"attempt.template: {error}"


def _amounts_of(spec: _PodSpec) -> Iterator[Mapping[str, str]]:
    """Yield the amounts of resources of a Pod and of its containers, by resource."""
    yield spec.overhead
    for resources in (spec.resources, *(one.resources for one in (*spec.containers, *spec.init_containers))):
        yield resources.requests
        yield resources.limits


def _number_faults(prefix: str, part: object, names: Iterable[str], end: int = _LARGEST) -> Iterator[str]:
    """Yield a fault for each of the named numbers that is negative, or not below `end`."""
    for name in names:
        number = getattr(part, name)
        if not 0 <= number < end:
            yield f"{prefix}{name} is {number}"


def _times_faults(prefix: str, part: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _time_faults(f"{prefix}{name}", getattr(part, name))


def _time_faults(name: str, text: str) -> Iterator[str]:
    try:
        moment = parse_time(text)
    except ValueError:
        yield f"{name} is {text[:40]!r}"
        return
    if moment is not None and (moment.tzinfo is None or moment.year > _LAST_YEAR):
        yield f"{name} is {text[:40]!r}"


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST
    return value if is_count else 0  # type: ignore[return-value]
