"""Bands over the ranks of a run: a summary of thousands of values.

A band has the minimum, three percentiles and the maximum of one quantity over all ranks (or all GPUs) of an attempt in
one interval, and the ranks of both extremes. Percentiles interpolate linearly between the two nearest values, as
`numpy.percentile` does by default (method 7 of Hyndman and Fan, 1996).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kajitori.core.telemetry.quantities import TRAINING_PREFIX
from kajitori.core.telemetry.report import MemberMinute

Floats = NDArray[np.float32]

TEMPERATURE = "gpu.temperature"

PERCENTILES = (0.1, 0.5, 0.9)


class Place(NamedTuple):
    """The place of an extreme: a rank, and the number of its GPU, counted from 0; -1 for quantities of the member."""

    rank: int
    gpu: int = -1


class Band(NamedTuple):
    """The values of one quantity over all ranks in one interval."""

    size: int
    """Number of values."""
    least: float
    p10: float
    median: float
    p90: float
    most: float
    least_at: Place
    most_at: Place


Bands = Mapping[str, Band]
"""Bands of one run, attempt and interval, by quantity."""


class RankMinute(NamedTuple):
    """One rank's minute, with the names of its quantities."""

    rank: int
    member_names: tuple[str, ...]
    gpu_names: tuple[str, ...]
    minute: MemberMinute


def hottest_celsius(minutes: Iterable[RankMinute]) -> dict[str, float]:
    """Return the temperature of the hottest GPU of each member, by the UID of its Pod; members without one are left
    out."""
    found: dict[str, float] = {}
    for each in minutes:
        if not each.minute.gpus or TEMPERATURE not in each.gpu_names:
            continue
        values = array("f", each.minute.gpu_values)[each.gpu_names.index(TEMPERATURE) :: len(each.gpu_names)]
        known = [value for value in values if math.isfinite(value)]
        if known:
            found[each.minute.uid] = max(known)
    return found


def bands_of(minutes: Sequence[RankMinute]) -> dict[str, Band]:
    """Return the bands over the minutes of an attempt's ranks, one for each quantity that any rank has a value of."""
    found: dict[str, Band] = {}
    by_names: dict[tuple[tuple[str, ...], tuple[str, ...]], list[RankMinute]] = {}
    for each in minutes:
        by_names.setdefault((each.member_names, each.gpu_names), []).append(each)
    if len(by_names) == 1:  # true unless agents of two versions report at the same time
        ((member_names, gpu_names),) = by_names
    else:
        member_names = tuple(dict.fromkeys(name for names, _ in by_names for name in names))
        gpu_names = tuple(dict.fromkeys(name for _, names in by_names for name in names))
        minutes = [_with_columns(each, member_names, gpu_names) for each in minutes]
    ranks = np.array([each.rank for each in minutes], dtype=np.int64)
    values = np.frombuffer(b"".join(each.minute.values for each in minutes), dtype=np.float32)
    found |= _bands_by_column(member_names, values.reshape(len(minutes), len(member_names)), ranks, None)
    counts = np.array([len(each.minute.gpus) for each in minutes], dtype=np.int64)
    if counts.any():
        gpus = np.frombuffer(b"".join(each.minute.gpu_values for each in minutes), dtype=np.float32)
        numbers = np.concatenate([np.arange(count) for count in counts])
        found |= _bands_by_column(
            gpu_names, gpus.reshape(int(counts.sum()), len(gpu_names)), np.repeat(ranks, counts), numbers
        )
    return found | _training_bands(minutes)


def _training_bands(minutes: Iterable[RankMinute]) -> dict[str, Band]:
    figures: dict[str, list[tuple[int, float]]] = {}
    for each in minutes:
        for name, value in each.minute.training.items():
            if math.isfinite(value):
                figures.setdefault(TRAINING_PREFIX + name, []).append((each.rank, value))
    found: dict[str, Band] = {}
    for name, pairs in figures.items():
        column = np.array([[value] for _, value in pairs], dtype=np.float64)
        found |= _bands_by_column((name,), column, np.array([rank for rank, _ in pairs]), None)
    return found


def _with_columns(each: RankMinute, member_names: tuple[str, ...], gpu_names: tuple[str, ...]) -> RankMinute:
    """Return the minute with the columns in this order; columns that the agent does not know are NaN."""

    def moved(names: tuple[str, ...], wanted: tuple[str, ...], values: bytes, rows: int) -> bytes:
        old = np.frombuffer(values, dtype=np.float32).reshape(rows, len(names))
        new = np.full((rows, len(wanted)), np.nan, dtype=np.float32)
        for place, name in enumerate(names):
            new[:, wanted.index(name)] = old[:, place]
        return new.tobytes()

    minute = each.minute
    return RankMinute(
        each.rank,
        member_names,
        gpu_names,
        msgspec.structs.replace(
            minute,
            values=moved(each.member_names, member_names, minute.values, 1),
            gpu_values=moved(each.gpu_names, gpu_names, minute.gpu_values, len(minute.gpus)),
        ),
    )


def _bands_by_column(
    names: Sequence[str],
    values: NDArray[np.float32] | NDArray[np.float64],
    ranks: NDArray[np.int64],
    gpus: NDArray[np.int64] | None,
) -> dict[str, Band]:
    """Return the band of each column that has a number."""
    values = np.where(np.isfinite(values), values, np.nan)
    order = np.argsort(values, axis=0, kind="stable")  # NaN last; equal values by row, which is by rank
    ordered = np.take_along_axis(values, order, axis=0)
    counts = (~np.isnan(values)).sum(axis=0)
    columns = np.flatnonzero(counts)
    if not len(columns):
        return {}
    last = counts[columns] - 1
    at = [ordered[np.zeros_like(last), columns], ordered[last, columns]]
    for share in PERCENTILES:
        place = share * last
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, last)
        low = ordered[below, columns].astype(np.float64)
        at.append(low + (ordered[above, columns] - low) * (place - below))
    first_rows, last_rows = order[0, columns], order[last, columns]

    def place_of(row: int) -> Place:
        return Place(int(ranks[row]), -1 if gpus is None else int(gpus[row]))

    return {
        names[int(column)]: Band(
            int(counts[column]),
            float(at[0][number]),
            float(at[2][number]),
            float(at[3][number]),
            float(at[4][number]),
            float(at[1][number]),
            place_of(first_rows[number]),
            place_of(last_rows[number]),
        )
        for number, column in enumerate(columns)
    }


# ---------------------------------------------------------------------------------------------- intervals


def merged(parts: Sequence[Bands]) -> dict[str, Band]:
    """Return bands over a longer interval from those of its parts, given in the order of time.

    Minimum and maximum stay exact, with their ranks. Percentiles become means of the parts' percentiles, weighted by
    the numbers of values, which is an approximation. Events remain a number per minute.
    """
    found: dict[str, list[Band]] = {}
    for part in parts:
        for name, band in part.items():
            found.setdefault(name, []).append(band)
    return {name: _merge_bands(bands) for name, bands in found.items()}


def _merge_bands(bands: Sequence[Band]) -> Band:
    if len(bands) == 1:
        return bands[0]
    least, most = min(bands, key=lambda band: band.least), max(bands, key=lambda band: band.most)
    weight = sum(band.size for band in bands)

    def mean(figures: Iterable[float]) -> float:
        return math.fsum(figure * band.size for figure, band in zip(figures, bands, strict=True)) / weight

    return Band(
        max(band.size for band in bands),
        least.least,
        mean(band.p10 for band in bands),
        mean(band.median for band in bands),
        mean(band.p90 for band in bands),
        most.most,
        least.least_at,
        most.most_at,
    )


# ---------------------------------------------------------------------------------------------- storage

_ALIKE = 1
"""Version of rows in which a quantity with one value has one number."""

_encode = msgspec.msgpack.Encoder().encode
_Stored = tuple[int, dict[str, msgspec.Raw]]
_decode = msgspec.msgpack.Decoder(_Stored).decode
_decode_row = msgspec.msgpack.Decoder(tuple[float, ...]).decode


def pack(bands: Bands) -> bytes:
    """Return the bands as history stores them: a band of one value as the value and its place alone.

    A longer interval of a single rank has one value per minute, so its extremes differ.
    """
    if isinstance(bands, StoredBands):
        return bands.document
    rows: dict[str, list[float]] = {}
    for name, band in bands.items():
        if band.size == 1 and (band.least, band.least_at) == (band.most, band.most_at):
            rows[name] = [_shorten_number(band.median), *band.least_at]
        else:
            figures = (band.least, band.p10, band.median, band.p90, band.most)
            rows[name] = [band.size, *map(_shorten_number, figures), *band.least_at, *band.most_at]
    return _encode((_ALIKE, rows))


class StoredBands(Mapping[str, Band]):
    """Bands of a stored document. A band is made when it is asked for, because most readers want few of thirty.

    Raises ValueError for a band that cannot be read.
    """

    __slots__ = ("_rows", "document")

    def __init__(self, document: bytes) -> None:
        self.document = document
        _, self._rows = _decode(document)

    def __getitem__(self, name: str) -> Band:
        row = _decode_row(self._rows[name])
        if len(row) == 3:
            value, place = row[0], Place(int(row[1]), int(row[2]))
            return Band(1, value, value, value, value, value, place, place)
        if len(row) == 10:
            low, high = Place(int(row[6]), int(row[7])), Place(int(row[8]), int(row[9]))
            return Band(int(row[0]), row[1], row[2], row[3], row[4], row[5], low, high)
        raise ValueError(f"a band of {name} has {len(row)} numbers")

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def unpack(document: bytes) -> StoredBands:
    """Return the bands in a stored document. Raises ValueError if it is not one."""
    return StoredBands(document)


def _shorten_number(value: float) -> float:
    """Return a whole number as an int, which takes less room, and any other number with six digits."""
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.6g}")
