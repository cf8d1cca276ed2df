"""Values of one rank as answers show them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from kajitori.api.views.telemetry import GpuStats, RankSeries, RankStats, Sample
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.telemetry.bands import RankMinute
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAINING_PREFIX, describe
from kajitori.core.telemetry.report import Answer, Series, named_values


def rank_series(answer: Answer, member: Series) -> list[RankSeries]:
    """Return the series of one member in a node's answer: training first, then the member, then its GPUs."""
    stamps = array("d")
    stamps.frombytes(member.at)
    times = [format_time(time_at(at)) for at in stamps]
    all_series = [
        _series_of(TRAINING_PREFIX + name, [format_time(time_at(at)) for at, _ in pairs], [value for _, value in pairs])
        for name, pairs in sorted(member.training.items())
    ]
    width = len(answer.member_names)
    values = array("f")
    values.frombytes(member.values)
    for place, name in enumerate(answer.member_names):
        all_series.append(_series_of(name, times, values[place::width]))
    gpus = array("f")
    gpus.frombytes(member.gpu_values)
    row = len(answer.gpu_names) * len(member.gpus)
    for place, name in enumerate(answer.gpu_names):
        for number, device in enumerate(member.gpus):
            series = _series_of(name, times, gpus[number * len(answer.gpu_names) + place :: row])
            series.gpu, series.device = number, device
            all_series.append(series)
    return [series for series in all_series if series.samples]


def _series_of(name: str, times: Sequence[str], values: Sequence[float]) -> RankSeries:
    about = describe(name)
    samples = [
        Sample(at=at, value=short_number(value))
        for at, value in zip(times, values, strict=True)
        if math.isfinite(value)
    ]
    return RankSeries(name=name, unit=about.unit.value, kind=about.kind.value, description=about.text, samples=samples)


def minute_stats(each: RankMinute, node: str) -> RankStats:
    """Return the values of one rank's minute."""
    minute = each.minute
    values = {TRAINING_PREFIX + name: value for name, value in sorted(minute.training.items()) if math.isfinite(value)}
    values |= {name: short_number(value) for name, value in named_values(each.member_names, minute.values)}
    return RankStats(
        rank=each.rank,
        node=node,
        values=values,
        gpus=_gpus(each.gpu_names, minute.gpus, minute.gpu_values),
        at=format_time(time_at(minute.minute * MINUTE_SECONDS)),
    )


def newest_stats(answer: Answer, member: Series, rank: int, node: str) -> RankStats | None:
    """Return the values of the last row of one member in a node's answer; None without a row."""
    times = array("d")
    times.frombytes(member.at)
    if not times:
        return None
    width, row = 4 * len(answer.member_names), 4 * len(answer.gpu_names) * len(member.gpus)
    values = {TRAINING_PREFIX + name: pairs[-1][1] for name, pairs in sorted(member.training.items()) if pairs}
    values |= {name: short_number(value) for name, value in named_values(answer.member_names, member.values[-width:])}
    return RankStats(
        rank=rank,
        node=node,
        values=values,
        gpus=_gpus(answer.gpu_names, member.gpus, member.gpu_values[-row:] if row else b""),
        at=format_time(time_at(times[-1])),
        live=True,
    )


def _gpus(names: Sequence[str], devices: Sequence[str], values: bytes) -> list[GpuStats]:
    width = 4 * len(names)
    return [
        GpuStats(
            device=device,
            values={
                name: short_number(value)
                for name, value in named_values(names, values[number * width : (number + 1) * width])
            },
        )
        for number, device in enumerate(devices)
    ]


def short_number(value: float) -> float:
    """Return a 32-bit value with the digits that it has."""
    return value if value.is_integer() else float(f"{value:.7g}")
