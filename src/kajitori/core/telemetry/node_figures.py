"""Figures of a node over time: those of the node itself and of each of its GPUs, whether or not a run holds them.

A cluster has as many of them as it has GPUs, so they are stored in few bytes: whole numbers of a step that is smaller
than the figure's noise, and one number for all GPUs if they have the same. With eight busy GPUs an interval takes about
100 bytes, where bands (`core.telemetry.bands`) would take 2,000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from kajitori.core.telemetry.levels import shown_seconds
from kajitori.core.telemetry.quantities import NODE, NODE_GPU, Quantity, Unit
from kajitori.core.telemetry.report import NodeMinute, floats_of
from kajitori.core.telemetry.ring import UNKNOWN, summary

MAX_HOLDERS = 64
"""Most runs that are remembered of one interval."""

_STEPS: Mapping[Unit, float] = {Unit.CORES: 0.01, Unit.BYTES: float(1 << 20)}
"""Steps of stored numbers by unit; 1 for all others."""

Holders = Mapping[str, int]
"""The GPUs that each run holds on a node, as bits, by namespace and name of the run: `vision/bert`. Runs without GPUs
have 0."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The figures of a node in one interval."""

    gpus: int
    """Number of GPUs."""
    row: Sequence[float]
    """A value for each quantity in NODE, then for each in NODE_GPU of the first GPU, and so on. NaN: not measured."""
    holders: Holders = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeInterval:
    """The figures of a node in the interval that begins at `start`, in seconds since 1970."""

    seconds: int
    start: int
    figures: NodeFigures


def quantities_of(gpus: int) -> tuple[Quantity, ...]:
    """Return the quantity of each value in a row."""
    return NODE + NODE_GPU * gpus


def figures_of(minute: NodeMinute, holders: Holders) -> NodeFigures:
    """Return the figures that an agent reported. Quantities that only the agent knows are left out."""
    row = _chosen(NODE, minute.names, floats_of(minute.values))
    values, width = floats_of(minute.gpu_values), len(minute.gpu_names)
    for gpu in range(minute.gpus):
        row += _chosen(NODE_GPU, minute.gpu_names, values[gpu * width : (gpu + 1) * width])
    return NodeFigures(minute.gpus, row, dict(list(holders.items())[:MAX_HOLDERS]))


def _chosen(quantities: Iterable[Quantity], names: Sequence[str], values: Sequence[float]) -> list[float]:
    known = dict(zip(names, values, strict=True))
    return [known.get(quantity.name, UNKNOWN) for quantity in quantities]


# ---------------------------------------------------------------------------------------------- intervals


def merged(parts: Sequence[NodeFigures]) -> NodeFigures:
    """Return the figures of a longer interval from those of its parts, which have the same length, in the order of
    time."""
    gpus = max(part.gpus for part in parts)
    quantities = quantities_of(gpus)
    rows = [[*part.row, *(UNKNOWN for _ in range(len(quantities) - len(part.row)))] for part in parts]
    holders: dict[str, int] = {}
    for part in parts:
        for run, held in part.holders.items():
            holders[run] = holders.get(run, 0) | held
    return NodeFigures(gpus, summary(quantities, rows), dict(list(holders.items())[:MAX_HOLDERS]))


def coarser(intervals: Iterable[NodeInterval], seconds: int) -> list[NodeInterval]:
    """Return the intervals of one node merged to a length, in the order of time."""

    def start_of(each: NodeInterval) -> int:
        return each.start - each.start % seconds

    ordered = sorted(intervals, key=lambda each: each.start)
    return [
        NodeInterval(seconds, start, merged([each.figures for each in parts]))
        for start, parts in groupby(ordered, key=start_of)
    ]


def shown(intervals: Sequence[NodeInterval], points: int) -> list[NodeInterval]:
    """Return at most `points` intervals of one node in the order of time, all of the same length."""
    if not intervals:
        return []
    first, last = min(each.start for each in intervals), max(each.start + each.seconds for each in intervals)
    longest = max(each.seconds for each in intervals)
    alike = coarser(intervals, longest)  # else a mean would count ten minutes as much as one
    return coarser(alike, shown_seconds(first, last, longest, points))


# ---------------------------------------------------------------------------------------------- storage

_Stored = tuple[int, list[int | list[int | None] | None], dict[str, int]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def pack(figures: NodeFigures) -> bytes:
    """Return the figures as history stores them: number of GPUs, numbers of steps by quantity, and holders.

    Quantities have no names, so new ones come last in NODE_GPU, and none is taken away.
    """
    stored: list[int | list[int | None] | None] = [_steps(NODE[i], figures.row[i]) for i in range(len(NODE))]
    for place, quantity in enumerate(NODE_GPU, len(NODE)):
        several = [_steps(quantity, value) for value in figures.row[place :: len(NODE_GPU)][: figures.gpus]]
        stored.append(several if len(set(several)) > 1 else next(iter(several), None))
    return _encode((figures.gpus, stored, figures.holders))


def unpack(document: bytes) -> NodeFigures:
    """Return the figures in a stored document. Raises ValueError if it is not one."""
    gpus, stored, holders = _decode(document)
    of_node = [_value(quantity, number) for quantity, number in zip(NODE, stored, strict=False)]
    columns = []
    for quantity, numbers in zip(NODE_GPU, stored[len(NODE) :], strict=False):
        several = numbers if isinstance(numbers, list) else [numbers] * gpus
        columns.append([_value(quantity, number) for number in several])
    missing = [[UNKNOWN] * gpus] * (len(NODE_GPU) - len(columns))
    of_gpus = [value for gpu in zip(*columns, *missing, strict=True) for value in gpu]
    return NodeFigures(gpus, of_node + of_gpus, holders)


def _steps(quantity: Quantity, value: float) -> int | None:
    return round(value / _STEPS.get(quantity.unit, 1.0)) if math.isfinite(value) else None


def _value(quantity: Quantity, steps: object) -> float:
    if not isinstance(steps, int):
        return UNKNOWN
    step = _STEPS.get(quantity.unit, 1.0)
    return steps * step if step >= 1 else steps / round(1 / step)
