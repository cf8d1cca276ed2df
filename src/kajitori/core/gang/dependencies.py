"""Dependencies between runs: a run with `after` in its spec is planned only after the named runs have ended, or are
healthy.

A condition that was seen to hold is written into the status and is not judged again, so later changes of the other run
do not matter. Once the run has had an attempt, no condition is judged any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.status.member_notes import count_members
from kajitori.core.gang.status.progress import earliest, finish
from kajitori.core.gang.types import Awaited, Run, SeenRun, Step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.dependencies import AfterState

MISSING_PATIENCE = timedelta(minutes=10)
"""Longest wait for a run that does not exist. Several runs may be applied at once, in any order."""

_SHOWN = 4
"""Number of runs that a message names."""


class _Verdict(Enum):
    MET = "met"
    WAITS = "waits"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class _Judgement:
    verdict: _Verdict
    words: str = ""
    """For WAITS: a phrase such as `prepare (Running) to succeed`. For NEVER: a sentence without its full stop."""
    until: datetime | None = None
    """For WAITS: the time at which it has to be judged again even if nothing changes."""


_MET = _Judgement(_Verdict.MET)


def waits_for_others(status: RunStatus, *, deleting: bool = False) -> bool:
    """Whether the conditions of a run's `after` still matter: it has not ended and has had no attempt."""
    return not (deleting or status.phase.is_final or status.attempts)


def wait_for_runs(run: Run, status: RunStatus, now: datetime) -> tuple[RunStatus, Step | None]:
    """Return the status with the conditions that hold now, and the step of a run that has to wait for others.

    The step is None if all conditions hold or held. It ends the run if a condition can no longer hold.
    """
    if not run.after or not waits_for_others(status):
        return status, None
    states = _progress_of_each(run.after, status.after, now)
    judged = [
        (state, _MET if state.met_at else _judge_condition(awaited, state, now))
        for awaited, state in zip(run.after, states, strict=True)
    ]
    after = [
        msgspec.structs.replace(state, met_at=state.met_at or format_time(now)) if found is _MET else state
        for state, found in judged
    ]
    status = count_members(run, msgspec.structs.replace(status, after=after), ())
    never = [found.words for _, found in judged if found.verdict is _Verdict.NEVER]
    if never:
        reason = Reason.DEPENDENCY_NEVER_SATISFIED
        message = f"it did not start: {_first_few(never, '; ')}"
        return status, Step(finish(status, Phase.FAILED, reason, message, now))
    waits = [found for _, found in judged if found.verdict is _Verdict.WAITS]
    if not waits:
        return _into_queue(status, now), None
    message = f"waits for {_first_few([found.words for found in waits], ', and for ')}"
    status = msgspec.structs.replace(
        status, phase=Phase.QUEUED, reason=Reason.WAITING_FOR_RUN, message=message[:1000], node_request=None
    )
    return status, Step(status, wake_at=earliest(*(found.until for found in waits)))


def _into_queue(status: RunStatus, now: datetime) -> RunStatus:
    """Return the status of a run that joins the queue. Its waiting time, which counts for its place, begins now."""
    if status.reason is not Reason.WAITING_FOR_RUN:
        return status
    return msgspec.structs.replace(status, reason=Reason.NOT_PLANNED_YET, message="", queued_at=format_time(now))


def without_pins(after: Sequence[AfterState]) -> list[AfterState]:
    """Return the conditions that held. A run that is resumed or restored looks the other runs up again by name."""
    return [state for state in after if state.met_at]


def has_to_see(status: RunStatus, awaited: Awaited, now: datetime) -> bool:
    """Return whether a waiting run has yet to note what it sees of another run. The other run is not removed before
    that.
    """
    states = {(state.run, state.condition): state for state in status.after}
    state = states.get((awaited.run, awaited.condition))
    if state is None or not state.uid:
        return True
    return not state.met_at and _judge_condition(awaited, state, now).verdict is not _Verdict.WAITS


def why_never(awaited: Awaited, now: datetime) -> str:
    """Return why the condition on a run that exists can no longer hold; empty if it holds or may hold later."""
    uid = awaited.seen.uid if awaited.seen is not None else ""
    judged = _judge_condition(awaited, AfterState(run=awaited.run, uid=uid), now)
    return judged.words if judged.verdict is _Verdict.NEVER else ""


def find_cycle(name: str, waits_for: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return the names of runs that wait for each other in a circle, from `name` to `name`; empty if there is none.

    `waits_for` returns the runs that a run still waits for.
    """
    came_from: dict[str, str] = {}
    to_visit = [name]
    while to_visit:
        current = to_visit.pop()
        for other in waits_for(current):
            if other == name:
                path = [name, current]
                while path[-1] != name:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path)) if current != name else (name, name)
            if other not in came_from:
                came_from[other] = current
                to_visit.append(other)
    return ()


def _progress_of_each(after: Sequence[Awaited], before: Sequence[AfterState], now: datetime) -> list[AfterState]:
    """Return the progress of each entry of `after`, with the UIDs of runs that are seen for the first time."""
    known = {(state.run, state.condition): state for state in before}
    found = []
    for awaited in after:
        state = known.get((awaited.run, awaited.condition))
        if state is None:
            state = AfterState(run=awaited.run, condition=awaited.condition, since=format_time(now))
        if not state.uid and awaited.seen is not None:
            state = msgspec.structs.replace(state, uid=awaited.seen.uid)
        found.append(state)
    return found


def _judge_condition(awaited: Awaited, state: AfterState, now: datetime) -> _Judgement:
    name = awaited.run
    if awaited.cycle:
        return _never(f"it would wait for itself ({' → '.join(awaited.cycle)})")
    seen = awaited.seen
    if seen is None and not state.uid:
        return _judge_missing(name, state, now)
    if awaited.condition == "ended":
        return _judge_end(name, state, seen)
    if awaited.condition == "healthy":
        return _judge_health(name, state, seen)
    return _judge_success(name, state, seen)


def _judge_missing(name: str, state: AfterState, now: datetime) -> _Judgement:
    deadline = (parse_time(state.since) or now) + MISSING_PATIENCE
    if now < deadline:
        return _Judgement(_Verdict.WAITS, f"{name} (there is no run of this name yet)", deadline)
    return _never(f"there was no run {name} within {format_duration(int(MISSING_PATIENCE.total_seconds()))}")


def _judge_end(name: str, state: AfterState, seen: SeenRun | None) -> _Judgement:
    if seen is None or seen.uid != state.uid:
        return _MET  # it was deleted, so it has ended
    if seen.phase.is_final and not seen.is_parked:
        return _MET
    return _Judgement(_Verdict.WAITS, f"{name} ({_describe_run(name, seen)}) to end")


def _judge_success(name: str, state: AfterState, seen: SeenRun | None) -> _Judgement:
    if seen is None or seen.uid != state.uid:
        return _never(f"{name} was deleted before it succeeded")
    if seen.phase is Phase.SUCCEEDED:
        return _MET
    if seen.phase is Phase.FAILED:
        reason = f" ({seen.reason.value})" if seen.reason is not Reason.NONE else ""
        return _never(f"{name} failed{reason}")
    if seen.deleting:
        return _never(f"{name} is being deleted and did not succeed")
    if seen.phase is Phase.STOPPED and not seen.is_parked:
        return _never(f"{name} was stopped")
    if seen.type != "batch":
        return _never(f"{name} is a {seen.type}, which never succeeds by itself")
    return _Judgement(_Verdict.WAITS, f"{name} ({_describe_run(name, seen)}) to succeed")


def _judge_health(name: str, state: AfterState, seen: SeenRun | None) -> _Judgement:
    if seen is None or seen.uid != state.uid:
        return _never(f"{name} was deleted before it was healthy")
    if seen.is_healthy and not seen.deleting:
        return _MET
    if seen.deleting:
        return _never(f"{name} is being deleted and was not healthy")
    if seen.phase.is_final and not seen.is_parked:
        return _never(f"{name} ended before it was healthy ({seen.phase.value})")
    if not seen.has_health_check:
        return _never(f"{name} has no health check")
    unready = ", not healthy" if seen.phase is Phase.RUNNING else ""
    return _Judgement(_Verdict.WAITS, f"{name} ({_describe_run(name, seen)}{unready}) to be healthy")


def _describe_run(name: str, seen: SeenRun) -> str:
    if seen.deleting:
        return "being deleted"
    return f"parked; kaji resume {name}" if seen.is_parked else seen.phase.value


def _never(words: str) -> _Judgement:
    return _Judgement(_Verdict.NEVER, words)


def _first_few(words: Sequence[str], separator: str) -> str:
    more = len(words) - _SHOWN
    shown = list(words[:_SHOWN]) + ([f"{more} more"] if more > 0 else [])
    return separator.join(shown)
