"""When waiting runs are expected to start: the planner decides again at every expected end of a running run.

This is an estimate: it assumes that everything takes its expected time and that nothing else is submitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kajitori.core.placement.planner import Placement, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import Counts, Snapshot
from kajitori.core.queue.backfill.schedule import Schedule, schedule
from kajitori.core.queue.freeing import Simulation, StopWatch


@dataclass(frozen=True, slots=True)
class Forecast:
    """The decisions of the next cycle, and the expected starts after it."""

    now: Schedule
    starts: Mapping[str, float] = field(default_factory=dict)
    """Expected start of each run. A run is left out if its start depends on something without a known end, or if too
    many runs are ahead for a useful answer."""


def forecast(simulation: Simulation, stop_watch: StopWatch, *, until: str | None = None) -> Forecast:
    """Return when each run of the queue starts, as far as the time allows; with `until`, stop at the start of that
    run."""
    waiting, state = list(simulation.queue), simulation.snapshot.copy()
    endings, now = list(simulation.endings), simulation.now
    first: Schedule | None = None
    starts: dict[str, float] = {}
    has_time = stop_watch()
    while has_time() or first is None:
        found = schedule(state, waiting, endings, now, reserve=simulation.reserve, likely=simulation.likely)
        first = first or found
        started = {placement.key: placement for placement in found.placements}
        starts |= dict.fromkeys(started, now)
        if len(started) == len(waiting) or until in starts:
            break
        for run in waiting:
            placement = started.get(run.gang.key)
            if placement is not None:
                rows = rows_of(state, placement)
                occupy_rows(state, run.gang.member, rows)
                if math.isfinite(run.expected_seconds):
                    endings.append(Ending(run.gang.member, rows, now + run.expected_seconds))
        waiting = [run for run in waiting if run.gang.key not in started]
        if len(waiting) == 1 and found.reservations:  # no other run takes the reserved nodes
            starts |= {reservation.key: reservation.starts_at for reservation in found.reservations}
            break
        if not endings:
            break
        now = max(now, min(ending.ends_at for ending in endings))
        ended = [ending for ending in endings if ending.ends_at <= now]
        endings = [ending for ending in endings if ending.ends_at > now]
        _free_nodes(state, ended, endings)
    known = {reservation.key: reservation.starts_at for reservation in first.reservations}
    return Forecast(first, known | starts)


def rows_of(state: Snapshot, placement: Placement) -> Counts:
    """Return the rows of a placement's nodes."""
    return np.array([state.table.index[name] for name in placement.nodes], dtype=np.int64)


def _free_nodes(state: Snapshot, ended: Sequence[Ending], still_there: Sequence[Ending]) -> None:
    """Free the nodes of what has ended, in place."""
    for ending in ended:
        np.subtract.at(state.used, ending.rows, ending.member.amounts(state.table))
        np.subtract.at(state.members, ending.rows, 1)
        if ending.member.alone:
            state.alone[ending.rows] = False
    for ending in still_there:
        if ending.member.alone:
            state.alone[ending.rows] = True
