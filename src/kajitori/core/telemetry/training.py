"""Figures that a program writes about its training: JSON lines, lines with a prefix in its log, TensorBoard's events.

Lengths of lines, names, the number of names, and bytes per look are limited. Figures beyond a limit are left out; the
program notices nothing.
"""

from __future__ import annotations

import json
import math
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kajitori.core.telemetry.protobuf import fields, parts
from kajitori.core.telemetry.quantities import KEPT_SAMPLES, TRAINING_PREFIX, Kind, describe
from kajitori.core.telemetry.report import FIGURE, MAX_FIGURES

METRICS_ENV = "KAJI_METRICS"
"""Path of the file to which a program may append JSON lines."""
TENSORBOARD_ENV = "KAJI_TENSORBOARD"
"""Folder of the run's `tensorboard`."""
LOG_PREFIX = b"kaji-metrics: "
"""Begins a line of the log that has such a JSON object."""
MAX_LINE_BYTES = 4096
MAX_LOOK_BYTES = 1 << 20
"""Most bytes of one source that are read in one look; with 15 seconds between looks, 70 kB/s."""

STEP, RATED = "step", ("step", "tokens", "samples")
"""Figures from which rates are made: `step.rate`, `tokens.rate`. `tokens` and `samples` are those of one step."""
TOTALS = {"tokens_total": "tokens.rate", "samples_total": "samples.rate"}
"""Figures that count since the start, and the rates that are made of them."""

CHECKPOINT_SECONDS, TIME = "checkpoint_seconds", "time"
"""Figures of a line about a checkpoint that was written: for how long the training stood still for it, and when it was
complete (seconds since 1970)."""
MAX_CHECKPOINT_SECONDS = 86_400.0
KEPT_CHECKPOINTS = 16

_decode = msgspec.json.Decoder(dict[str, object]).decode


def figures_in(line: bytes) -> dict[str, float] | None:
    """Return the numbers in a JSON object, without those with invalid names; None if the line is no such object.

    A step number is a number like others. Booleans, texts, nested objects and numbers that are not finite are left out.
    """
    fields = _object_in(line)
    if fields is None:
        return None
    found: dict[str, float] = {}
    for name, value in fields.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and FIGURE.fullmatch(name):
            try:
                number = float(value)
            except OverflowError:
                continue
            if math.isfinite(number):
                found[name] = number
    return found


def _object_in(line: bytes) -> dict[str, object] | None:
    """Return the JSON object in a line. NaN and Infinity, which `json.dumps` writes, spoil only their own figures."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


class Lines:
    """Complete lines of a text that arrives in pieces. Lines that are too long are dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that this piece completes, without their ends."""
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if not self._skipping and len(line) <= MAX_LINE_BYTES:
                yield line
            self._skipping = False
        if len(rest) > MAX_LINE_BYTES:
            self._skipping, rest = True, b""
        self._rest = rest


class Series:
    """The last hour of one figure, in memory of a fixed size: the last value of each sample's time."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=KEPT_SAMPLES)
        self._values: deque[float] = deque(maxlen=KEPT_SAMPLES)

    def add(self, at: float, value: float) -> None:
        self._at.append(at)
        self._values.append(value)

    def since(self, at: float) -> list[tuple[float, float]]:
        """Return times later than `at` with their values, oldest first."""
        return [pair for pair in zip(self._at, self._values, strict=True) if pair[0] > at]

    def between(self, after: float, until: float) -> list[float]:
        """Return the values with `after` < time <= `until`."""
        return [value for at, value in zip(self._at, self._values, strict=True) if after < at <= until]


@dataclass(frozen=True)
class Saved:
    """A checkpoint that a program wrote: the time for which its training stood still."""

    since: float
    until: float


@dataclass
class _Rate:
    """The last total of a rate, and its time."""

    at: float
    total: float


class Training:
    """The figures of one member, and the rates that follow from them."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.news: dict[str, float] = {}
        """Last values since the last sample."""
        self._sums: dict[str, float] = {}
        self._totals: dict[str, float] = {}
        self._rates: dict[str, _Rate] = {}
        self.saved: deque[Saved] = deque(maxlen=KEPT_CHECKPOINTS)
        """The latest checkpoints."""
        self._new_saved: list[tuple[float, float | None]] = []
        self._has_sampled = False

    def take(self, figures: Mapping[str, float]) -> None:
        """Note the figures of one line. The last value of each name counts until the next `sample`."""
        took = figures.get(CHECKPOINT_SECONDS)
        if took is not None and 0 <= took <= MAX_CHECKPOINT_SECONDS:
            self._new_saved.append((took, figures.get(TIME)))
            figures = {name: value for name, value in figures.items() if name != TIME}  # no figure to plot
        for name, value in figures.items():
            self.news[name] = value
            if name in RATED and name != STEP:
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._totals[f"{name}.rate"] = self._sums[name]
            elif name in TOTALS:
                self._totals[TOTALS[name]] = value
            elif name == STEP:
                self._totals["step.rate"] = value

    def sample(self, at: float) -> dict[str, float]:
        """Return the figures that were written since the last sample, with the rates, and keep them in the series.

        A checkpoint line without a time counts as complete at `at`. In the first sample such lines are left out: an
        agent that was started again reads old lines, and does not know their times.
        """
        for took, until in self._new_saved[-KEPT_CHECKPOINTS:]:
            if until is not None or self._has_sampled:
                end = until if until is not None else at
                self.saved.append(Saved(end - took, end))
        self._new_saved, self._has_sampled = [], True
        news, self.news = self.news, {}
        for name, total in self._totals.items():
            before = self._rates.get(name)
            if before is None or total < before.total:  # the first one, or the program began again
                self._rates[name] = _Rate(at, total)
            elif at > before.at:
                news[name] = (total - before.total) / (at - before.at)
                self._rates[name] = _Rate(at, total)
        for name in list(news):
            if name not in self.series:
                if len(self.series) >= MAX_FIGURES:
                    del news[name]
                    continue
                self.series[name] = Series()
            self.series[name].add(at, news[name])
        return news

    def minute(self, after: float, until: float) -> dict[str, float]:
        """Return one value for each figure with news in the interval: the mean of a rate, the last value of a level."""
        found: dict[str, float] = {}
        for name, series in self.series.items():
            values = series.between(after, until)
            if values:
                is_mean = describe(TRAINING_PREFIX + name).kind is Kind.GAUGE
                found[name] = math.fsum(values) / len(values) if is_mean else values[-1]
        return found


# ---------------------------------------------------------------------------------------------- TensorBoard

_LENGTH_AND_CHECK, _CHECK_BYTES = 12, 4
MAX_EVENT_BYTES = 1 << 20
"""Longest event that is read; longer ones (images, graphs) are skipped."""


class EventFile:
    """Scalars of a TensorBoard event file that arrives in pieces.

    The file is a sequence of records: length (8 bytes), its check sum (4), an Event in protobuf, its check sum (4).
    The few fields of Event that are needed are read here; the check sums are not compared, since a record that is being
    written is incomplete and therefore waits for the next piece. Formats: tensorflow/core/util/event.proto,
    tensorflow/core/framework/summary.proto.
    """

    def __init__(self, since: float = 0.0) -> None:
        """`since`: seconds since 1970 before which events are left out, as those of earlier attempts are."""
        self._since = since
        self._rest = b""
        self._skip = 0
        self.broken = False
        """Whether this is no event file."""

    def feed(self, piece: bytes) -> Iterator[dict[str, float]]:
        """Yield the scalars, and the step, of each event that this piece completes."""
        data, place = self._rest + piece, 0
        while not self.broken:
            if self._skip:
                step = min(self._skip, len(data) - place)
                self._skip, place = self._skip - step, place + step
                if self._skip:
                    break
            if len(data) - place < _LENGTH_AND_CHECK:
                break
            (length,) = struct.unpack_from("<Q", data, place)
            if length > 1 << 40:
                self.broken = True
                break
            if length > MAX_EVENT_BYTES:
                self._skip, place = length + _CHECK_BYTES, place + _LENGTH_AND_CHECK
                continue
            end = place + _LENGTH_AND_CHECK + length
            if len(data) < end + _CHECK_BYTES:
                break
            found = _scalars_of_event(data[place + _LENGTH_AND_CHECK : end], self._since)
            place = end + _CHECK_BYTES
            if found:
                yield found
        self._rest = b"" if self.broken else data[place:]


def _scalars_of_event(event: bytes, since: float) -> dict[str, float]:
    """Return the scalars of one Event, and its step; empty if it has no scalar, or was written before `since`."""
    found: dict[str, float] = {}
    step = 0
    try:
        for number, value in fields(event):
            if number == 1 and isinstance(value, float) and value < since:
                return {}
            elif number == 2 and isinstance(value, int):
                step = value
            elif number == 5 and isinstance(value, bytes):
                for content in parts(value, 1):
                    found |= _scalar_of_value(content)
    except ValueError:
        return {}
    return found | {STEP: float(step)} if found else {}


def _scalar_of_value(value: bytes) -> dict[str, float]:
    """Return name and number of one Summary.Value: of `simple_value`, or of a tensor with one float."""
    name, number = "", math.nan
    for field, content in fields(value):
        if field == 1 and isinstance(content, bytes):
            name = content.decode(errors="replace").replace(" ", "_")
        elif field == 2 and isinstance(content, float):
            number = content
        elif field == 8 and isinstance(content, bytes):
            number = _tensor_scalar(content)
    return {name: number} if FIGURE.fullmatch(name) and math.isfinite(number) else {}


def _tensor_scalar(tensor: bytes) -> float:
    """Return the number in a TensorProto of one 32-bit or 64-bit float; NaN for others."""
    kind, found = 0, math.nan
    for field, content in fields(tensor):
        if field == 1 and isinstance(content, int):
            kind = content
        elif field in (4, 5, 6) and isinstance(content, bytes):
            code = "f" if kind == 1 else "d" if kind == 2 else ""
            size = struct.calcsize(code) if code else 0
            if size and len(content) == size:  # packed float_val, double_val, or tensor_content
                (found,) = struct.unpack(f"<{code}", content)
        elif field == 5 and isinstance(content, float):
            found = content
    return found


def take_lines(training: Training, lines: Iterable[bytes]) -> None:
    """Give the figures in JSON lines to `training`."""
    for line in lines:
        figures = figures_in(line)
        if figures:
            training.take(figures)
