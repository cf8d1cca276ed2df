"""The last figures of runs, as a list of runs shows them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from kajitori.api.views.telemetry import RunFigures
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.times import format_time
from kajitori.core.gang.sweeps.results import objective_of
from kajitori.core.telemetry.bands import Bands, unpack
from kajitori.core.telemetry.collector import LAST_MINUTES, TelemetryCollector
from kajitori.core.telemetry.quantities import TRAINING_PREFIX
from kajitori.core.telemetry.training import RATED, STEP, TOTALS
from kajitori.errors import KajitoriError
from kajitori.history.store import History

MAX_KEPT = 20_000
"""Largest number of runs for which figures from history are remembered."""
SETTLED_SECONDS = 900.0
"""Time after the end of a run after which history has all of it."""
_ABOUT_WORK = frozenset((*RATED, *TOTALS, "epoch", "checkpoint_seconds", "work_seconds"))
"""Figures that tell how much was done, not how good it is."""
STANDARD = "loss"
"""The name that the documentation and `kaji stats` use for the main figure."""
_IN_LOOP = 200
"""Runs above which a thread reads their figures."""

_Key = tuple[str, int, str]


class PastFigures:
    """Remembers the figures of ended runs from history: they stay as they are until the run is resumed."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[_Key, RunFigures] = OrderedDict()

    async def of_runs(
        self, runs: Collection[RunObject], history: History | None, now: datetime
    ) -> dict[str, RunFigures]:
        """Return the figures by UID. They are missing while history does not answer."""
        keys = {run.metadata.uid: _key_of(run) for run in runs}
        figures = {uid: self._remembered[key] for uid, key in keys.items() if key in self._remembered}
        missing = [uid for uid in keys if uid not in figures]
        if missing and history is not None:
            with contextlib.suppress(KajitoriError):
                bands = await history.last_telemetry(missing, LAST_MINUTES)
                figures |= {
                    uid: figures_of([minute.bands for minute in bands.get(uid, ())], runs_now=False) for uid in missing
                }
        settled = format_time(now - timedelta(seconds=SETTLED_SECONDS))
        self._remembered |= {
            keys[uid]: figures[uid] for uid in missing if uid in figures and "" < keys[uid][2] < settled
        }
        while len(self._remembered) > MAX_KEPT:
            self._remembered.popitem(last=False)
        return figures


async def last_figures(
    collector: TelemetryCollector, past: PastFigures, history: History | None, runs: Sequence[RunObject], now: datetime
) -> dict[str, RunFigures]:
    """Return the last figures of runs by UID: from the collector if the run reported lately, else from history."""
    reporting = [run for run in runs if collector.last(run.metadata.uid)]
    others = [
        run for run in runs if run.status is not None and run.status.attempts and not collector.last(run.metadata.uid)
    ]
    is_large = len(reporting) > _IN_LOOP
    figures = await asyncio.to_thread(_newest, collector, reporting) if is_large else _newest(collector, reporting)
    figures |= await past.of_runs(others, history, now)
    return {uid: each for uid, each in figures.items() if each != RunFigures()}


def figures_of(newest_first: Sequence[Bands], *, runs_now: bool) -> RunFigures:
    """Return the figures in the newest bands of a run. A figure that is not in the newest ones is taken from older
    ones, because programs write some figures once in a few minutes."""
    names = dict.fromkeys(name for bands in newest_first for name in bands if name.startswith(TRAINING_PREFIX))
    main = main_figure(tuple(name.removeprefix(TRAINING_PREFIX) for name in names))
    gpus = newest_first[0].get("gpu.used") if newest_first and runs_now else None
    step = _last(newest_first, TRAINING_PREFIX + STEP)
    value = _last(newest_first, TRAINING_PREFIX + main) if main else None
    return RunFigures(
        gpu=round(gpus.median) if gpus is not None else None,
        least_gpu=round(gpus.least) if gpus is not None else None,
        least_rank=gpus.least_at.rank if gpus is not None else None,
        step=step[1] if step is not None else None,
        name=main if value is not None else "",
        value=value[0] if value is not None else None,
    )


@lru_cache(maxsize=1024)
def main_figure(names: tuple[str, ...]) -> str:
    """Return the main figure of a training: its loss if there is one, else a figure with the name of a loss or a score,
    else the first in the alphabet; empty if there is none."""
    candidates = sorted(name for name in names if name not in _ABOUT_WORK and not name.endswith(".rate"))
    return STANDARD if STANDARD in candidates else objective_of(candidates) or next(iter(candidates), "")


def _newest(collector: TelemetryCollector, runs: Iterable[RunObject]) -> dict[str, RunFigures]:
    figures = {}
    for run in runs:
        minutes = collector.last(run.metadata.uid)
        status = run.status
        now = status is not None and not status.phase.is_final and status.attempts == minutes[0].attempt
        figures[run.metadata.uid] = figures_of([unpack(each.document) for each in minutes], runs_now=now)
    return figures


def _last(newest_first: Iterable[Bands], name: str) -> tuple[float, float] | None:
    """Return the median and the largest value in the newest bands that have this figure."""
    for bands in newest_first:
        if name in bands:
            band = bands[name]
            return band.median, band.most
    return None


def _key_of(run: RunObject) -> _Key:
    status = run.status
    is_final = status is not None and status.phase.is_final
    attempts, ended = (status.attempts, status.finished_at if is_final else "") if status is not None else (0, "")
    return run.metadata.uid, attempts, ended
