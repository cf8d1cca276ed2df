"""Everything that the planner's next cycle will decide by, as the mirror shows it now, for whoever asks about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kajitori.api.context import Api
from kajitori.cluster.outlook import Applicant, Line
from kajitori.cluster.situation import this_moment
from kajitori.core.queue.freeing import Situation
from kajitori.core.queue.preemption_cycle import Settled

ANSWER_SECONDS = 0.5
"""What each part of an answer may take where a long queue makes it hard."""


@dataclass(frozen=True, slots=True)
class Standing:
    """All that wait, in order, and the cluster that they wait for."""

    line: Line
    waiting: tuple[Applicant, ...]
    settled: Settled
    """Who has nodes already that others are leaving for him."""
    asked: Situation


async def standing(api: Api, newcomer: Applicant | None = None) -> Standing:
    """How things stand now; with one more run, whether or not it is among those that wait."""
    now = api.now()
    waiting = await api.applicants.all(now)
    if newcomer is not None:
        waiting = [each for each in waiting if each.request.key != newcomer.request.key]
    everybody = (*waiting, newcomer) if newcomer is not None else tuple(waiting)
    line = api.outlook.line_up(everybody, now)
    moment = this_moment(api.cluster, api.outlook.endings(now), now.timestamp())
    asked = newcomer.request.key if newcomer is not None else ""
    first = [each.request.key for each in api.preemptions.freed_for(everybody)]
    before = first[: first.index(asked)] if asked in first else first
    theirs = [each for each in waiting if each.request.key in before]
    settled = api.preemptions.settle(theirs, moment.snapshot, now)  # what was freed for them is theirs
    queue = [queued for queued in line.queue if queued.gang.key not in settled.keys]
    if asked in first:  # then it is its turn, whatever its place
        turns = {key: turn for turn, key in enumerate((*before, asked))}
        queue.sort(key=lambda queued: turns.get(queued.gang.key, len(turns)))
    situation = await moment.situation(queue, asked=asked, used=settled.state)
    return Standing(line, everybody, settled, situation)


def stop_watch() -> Callable[[], bool]:
    """Begins to measure the time that a part of an answer may take; says whether there is some left."""
    until = time.monotonic() + ANSWER_SECONDS
    return lambda: time.monotonic() < until
