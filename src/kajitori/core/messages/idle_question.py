"""The question to the owner of a run with idle GPUs: keep it, or park it?

The run's status stores the question, and each step follows from the status, the finding and the time. So a new leader
continues where the last one stopped, and asks no owner twice. Without a finding nothing happens: a run is parked only
if its GPUs are known to be idle now, its owner was asked and warned, and policy says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from kajitori.core.formats.node_lists import compress_ranks, expand_ranks
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.policy.idle import IdleGpus
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.suspicions import IdleState, KeepLimit
from kajitori.core.telemetry.bands import Place
from kajitori.core.telemetry.idle import Finding, Verdict

HOUR = 3600
_PLACES_LIMIT = 300


def held_gpus(status: RunStatus) -> tuple[int, str]:
    """Return the number of GPUs that a run holds now, and their type; empty if they are of several."""
    held = (
        [(each.gpus * len(expand_ranks(each.ranks)), each.gpu_type) for each in status.usage.open if each.gpus]
        if (status.usage is not None)
        else []
    )
    types = {gpu_type for _, gpu_type in held}
    return sum(gpus for gpus, _ in held), types.pop() if len(types) == 1 else ""


def held_by_attempt(status: RunStatus) -> dict[int, int]:
    """Return the number of GPUs that a run holds now, by attempt."""
    held: dict[int, int] = {}
    for each in status.usage.open if status.usage is not None else ():
        if each.gpus:
            held[each.attempt] = held.get(each.attempt, 0) + each.gpus * len(expand_ranks(each.ranks))
    return held


def with_question(
    status: RunStatus, finding: Finding | None, rules: IdleGpus, kept_until: datetime | None, now: datetime
) -> RunStatus:
    """Return the status with the finding about its GPUs, and with the next step of the question to its owner. `finding`
    is None if this process has not looked at the run yet; then the earlier finding stays. `kept_until` comes from the
    spec; policy limits it.
    """
    before = status.idle
    if before is not None and before.parked_at:
        return status
    status = _with_keep_limit(status, rules, kept_until, now)
    kept_until = kept_by_policy(status, kept_until)
    after = _with_finding(status, finding, now) if rules.enabled and status.phase is Phase.RUNNING else None
    if after is not None:
        is_known = finding is not None and finding.verdict is Verdict.IDLE
        after = _after_next_step(after, rules, kept_until, now, may_park=is_known)
    return status if after == before else msgspec.structs.replace(status, idle=after)


def _with_keep_limit(status: RunStatus, rules: IdleGpus, kept_until: datetime | None, now: datetime) -> RunStatus:
    """Return the status with the limit of an answer that is later than policy allows.

    The Web API refuses such an answer; kubectl can write it. Policy counts from when the answer was first seen, so the
    limit stays until there is another answer: otherwise a time far ahead would be within policy again in the end.
    """
    before = status.keep_limit
    asked = format_time(kept_until) if kept_until is not None else ""
    if before is not None and before.asked == asked:
        return status
    latest = now + timedelta(seconds=rules.longest_keep_seconds)
    is_late = kept_until is not None and kept_until > latest
    after = KeepLimit(asked=asked, until=format_time(latest)) if is_late else None
    return status if after == before else msgspec.structs.replace(status, keep_limit=after)


def kept_by_policy(status: RunStatus, kept_until: datetime | None) -> datetime | None:
    """Return the time until which a run with this `keepIdleUntil` is kept."""
    limit = status.keep_limit
    if limit is None or kept_until is None or limit.asked != format_time(kept_until):
        return kept_until
    return min(kept_until, parse_time(limit.until) or kept_until)


def _with_finding(status: RunStatus, finding: Finding | None, now: datetime) -> IdleState | None:
    """Return the state with the new finding; the one before if there is none."""
    attempt = status.attempt.number if status.attempt is not None else status.attempts
    before = status.idle if status.idle is not None and status.idle.attempt == attempt else None
    if finding is None or finding.verdict is Verdict.UNKNOWN:
        return before
    if finding.verdict is Verdict.USED or finding.attempt != attempt:
        return None
    since = datetime.fromtimestamp(finding.since, UTC)
    if before is not None and finding.is_older:  # a new leader knows only the last day
        since = min(since, parse_time(before.since) or since)
    _, gpu_type = held_gpus(status)
    is_perhaps = finding.verdict is Verdict.PERHAPS
    confirmed, places = 0, ""
    if is_perhaps and finding.places is not None:
        confirmed, places = len(finding.places), places_text(finding.places)
    elif is_perhaps and before is not None:  # a new leader has not asked the nodes yet
        confirmed, places = before.confirmed, before.places
    asked = before if not is_perhaps or confirmed else None
    return IdleState(
        since=format_time(since),
        attempt=attempt,
        gpus=finding.gpus,
        gpu_type=gpu_type,
        fewest=finding.idle.fewest,
        most=finding.idle.most,
        confirmed=confirmed,
        places=places,
        peak_percent=math.ceil(finding.peak),
        works=finding.works,
        asked_at=asked.asked_at if asked is not None else "",
        warned_at=asked.warned_at if asked is not None else "",
    )


def _after_next_step(
    state: IdleState, rules: IdleGpus, kept_until: datetime | None, now: datetime, *, may_park: bool
) -> IdleState:
    """Return the state after the next step: the owner is asked, then warned, then the run is parked."""
    is_kept = kept_until is not None and kept_until > now
    if is_kept or not state.is_proven:
        return msgspec.structs.replace(state, asked_at="", warned_at="", park_at="")
    asked, warned = parse_time(state.asked_at), parse_time(state.warned_at)
    if asked is None or (kept_until is not None and asked < kept_until):  # the owner's answer has run out
        asked, warned = now, None
    if rules.park is None or not state.is_certain:  # a run of which some GPUs work is never parked
        return msgspec.structs.replace(state, asked_at=format_time(asked), warned_at="", park_at="")
    warning = timedelta(seconds=rules.park.warning_seconds)
    park_at = asked + timedelta(seconds=rules.park.after_seconds)
    if warned is None and now >= park_at - warning:
        warned = now
    if warned is not None:
        park_at = max(park_at, warned + warning)
    is_due = may_park and warned is not None and now >= park_at
    return msgspec.structs.replace(
        state,
        asked_at=format_time(asked),
        warned_at=format_time(warned) if warned is not None else "",
        park_at=format_time(park_at),
        parked_at=format_time(now) if is_due else "",
    )


def due_at(status: RunStatus, rules: IdleGpus) -> datetime | None:
    """Return when the owner is to be warned, or the run parked; None if neither is going to happen."""
    idle = status.idle
    park_at = parse_time(idle.park_at) if idle is not None and not idle.parked_at else None
    if idle is None or park_at is None or rules.park is None:
        return None
    return park_at if idle.warned_at else park_at - timedelta(seconds=rules.park.warning_seconds)


# ---------------------------------------------------------------------------------------------- words and costs


def idle_seconds(state: IdleState, now: datetime) -> int:
    """Return for how long the GPUs have been idle; until the run was parked."""
    since, until = parse_time(state.since), parse_time(state.parked_at) or now
    return max(0, int((until - since).total_seconds())) if since is not None else 0


def gpu_hours(state: IdleState, now: datetime) -> float:
    """Return the GPU-hours that were held and not used, counting only GPUs that are known to be idle."""
    return state.fewest * idle_seconds(state, now) / HOUR


def cost(state: IdleState, now: datetime, prices: Mapping[str, float]) -> float:
    """Return what these GPU-hours cost, with the prices of an hour by GPU type."""
    return gpu_hours(state, now) * prices.get(state.gpu_type, prices.get("", 0.0))


def places_text(places: Sequence[Place]) -> str:
    """Return ranks and their GPUs as `3:0-7;12:4`, the beginning if that is long."""
    by_rank: dict[int, list[int]] = {}
    for place in sorted(places):
        by_rank.setdefault(place.rank, []).append(place.gpu)
    parts = [f"{rank}:{compress_ranks(gpus)}" for rank, gpus in by_rank.items()]
    while len(";".join(parts)) > _PLACES_LIMIT:
        parts.pop()
    return ";".join(parts)


def describe_gpus(state: IdleState) -> str:
    """Return the idle GPUs in words."""
    kind = f"{state.gpu_type} " if state.gpu_type else ""
    if state.is_certain:
        return f"{state.gpus} {kind}GPU{'s' if state.gpus != 1 else ''}"
    if state.confirmed:
        return f"{state.confirmed} of {state.gpus} {kind}GPUs"
    return f"{_describe_bounds(state)} of {state.gpus} {kind}GPUs"


def _describe_bounds(state: IdleState) -> str:
    return f"{state.fewest}" if state.fewest == state.most else f"{state.fewest} to {state.most}"


def describe_keep_limit(status: RunStatus, kept_until: datetime | None) -> str:
    """Return as a sentence that policy shortens the owner's answer; empty if it does not."""
    limit = status.keep_limit
    if limit is None or kept_by_policy(status, kept_until) == kept_until:
        return ""
    return (
        f"keepIdleUntil is {limit.asked}, which is later than policy allows (idleGpus.longestKeep): "
        f"the run is kept until {limit.until}; then answer again with `kaji keep`."
    )


def describe_idle(state: IdleState, now: datetime) -> str:
    """Return the evidence as a sentence."""
    minutes = idle_seconds(state, now) // 60 * 60
    if state.confirmed:
        named = ", ".join(f"rank {part.replace(':', ' GPU ')}" for part in state.places.split(";"))
        return (
            f"{describe_gpus(state)} idle in the whole last hour while others worked, say their nodes ({named}). "
            f"In each minute since {state.since}, {_describe_bounds(state)} were idle."
        )
    if not state.is_certain:
        return (
            f"In each minute since {state.since}, {describe_gpus(state)} were idle while others worked. "
            "They need not be the same all the time."
        )
    others = "Processors, disks or network worked" if state.works else "Processors, disks and network were quiet too"
    return (
        f"{describe_gpus(state)} idle since {state.since} ({format_duration(minutes)}): "
        f"at most {state.peak_percent} % utilisation in any minute. {others}."
    )
