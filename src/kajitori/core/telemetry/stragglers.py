"""A rank or GPU that is persistently slower than its peers, from the bands of a gang's minutes.

In synchronous training all ranks step at the same rate: the slow rank works, and its peers wait for it. So the rate of
steps does not show which rank is slow. These quantities do:

- The time of a rank's own part of a step, if the program writes it.
- A GPU with a lower clock than its peers, while all of them are in use.
- A GPU without a kernel, while its peers' kernels wait for it: its rank is late with data or on the processor.
- A GPU whose multiprocessors are more active than its peers', or that draws more power if DCGM is missing: kernels that
  wait for a peer need few multiprocessors and little power.
- Without GPUs, a rank that uses more processor time than its peers, which sleep meanwhile.
- A node with a network port that is down or has a lower rate than those of its peers, and a GPU with fewer NVLinks.

If ranks do not wait for each other, the slow one takes fewer steps.

Except for clocks and links, these signs look the same for a rank that got more work by design.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kajitori.core.formats.times import format_time, time_at
from kajitori.core.telemetry.bands import Band, Bands, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAINING_PREFIX, WORK_SECONDS, Unit, describe

MIN_PEERS = 4
"""Fewest values, ranks or nodes among which one can stand out."""
WINDOW_MINUTES = 15
NEEDED_MINUTES = 12
"""Minutes of the window in which the same place must stand out to be found."""
HELD_MINUTES = 8
"""Minutes of the window in which it must stand out to remain found."""
LATE_SECONDS = 5 * MINUTE_SECONDS
"""If the newest minute is older than this, there is no finding."""

MIN_DEVIATIONS = 6.0
"""Distance from the median in robust standard deviations. The largest of 60,000 normal values is 4.3 away."""
LEAST_DEVIATION = 0.02
"""Smallest standard deviation, as a share of the median: values of peers may be equal."""
_EXACT = 0.001
"""The same for numbers that are counted or set, so that peers have equal ones."""
ALONE_SHARE = 0.25
"""Share of its distance from the median by which the extreme must be beyond the 10th or 90th percentile. Otherwise it
belongs to a group, for example to a stage of a pipeline."""
MAX_RATIO = 10.0
"""Ratio beyond which the peers do not take part in the same work, for example while one rank alone evaluates."""
_P10_DEVIATIONS = 1.2816
"""Distance of the 10th and 90th percentile of a normal distribution from its median, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A quantity that distinguishes a slow rank from its peers."""

    quantity: str
    is_high: bool
    """Whether the slow one has the largest value; else the smallest."""
    ratio: float
    """Smallest ratio of the extreme and the median, or of the median and the extreme."""
    least_median: float
    """Median below which the peers do not take part in any work."""
    text: str
    least_deviation: float = LEAST_DEVIATION
    """Smallest standard deviation, as a share of the median."""


CLOCK = "gpu.clock.sm"
HARDWARE = (CLOCK, "link.rate", "link.ports", "gpu.nvlink.links")
"""Quantities of signs that do not depend on how much work a rank has."""
SIGNS = (
    Sign(CLOCK, is_high=False, ratio=1.15, least_median=1.0, text="its clock is lower"),
    Sign(
        "link.rate",
        is_high=False,
        ratio=1.5,
        least_median=1.0,
        text="a network port of its node has a lower rate",
        least_deviation=_EXACT,
    ),
    Sign(
        "link.ports",
        is_high=False,
        ratio=1.1,
        least_median=1.0,
        text="its node has fewer active network ports",
        least_deviation=_EXACT,
    ),
    Sign(
        "gpu.nvlink.links",
        is_high=False,
        ratio=1.05,
        least_median=1.0,
        text="fewer of its NVLinks are active",
        least_deviation=_EXACT,
    ),
    Sign(WORK_SECONDS, is_high=True, ratio=1.2, least_median=1e-3, text="its own part of a step takes longer"),
    Sign(f"{TRAINING_PREFIX}step.rate", is_high=False, ratio=1.2, least_median=1e-4, text="it takes fewer steps"),
    Sign(
        "gpu.used",
        is_high=False,
        ratio=1.2,
        least_median=80.0,
        text="it has no work while the others' kernels wait for it",
    ),
    Sign(
        "gpu.sm.active",
        is_high=True,
        ratio=1.2,
        least_median=5.0,
        text="its multiprocessors work while the others wait",
    ),
    Sign(
        "gpu.power",
        is_high=True,
        ratio=1.25,
        least_median=50.0,
        text="it draws more power, so the others seem to wait for it",
    ),
    Sign("cpu.used", is_high=True, ratio=1.2, least_median=0.1, text="it uses its processors while the others wait"),
)
"""All signs. A sign that explains more comes first."""
_BUSY_PERCENT = 50.0
"""Use from which on a lower clock is not the result of a GPU without work."""


class Outlier(NamedTuple):
    """One value that is far from all others in one minute."""

    place: Place
    value: float
    median: float
    size: int


def outlier(bands: Bands, sign: Sign) -> Outlier | None:
    """Return the value that stands out in a minute, None if none does.

    The scale is the distance between the median and the percentile on the *other* side: in a small gang the percentile
    on the same side contains the outlier itself. So less than a tenth of the values may be slow together.
    """
    band = bands.get(sign.quantity)
    if band is None or band.size < MIN_PEERS or band.median < sign.least_median or not _sign_applies(bands, sign):
        return None
    if sign.is_high:
        place, value, near, far = band.most_at, band.most, band.p90, band.p10
        ratio = value / band.median
    else:
        place, value, near, far = band.least_at, band.least, band.p10, band.p90
        ratio = band.median / value if value > 0 else float("inf")
    deviation = max(abs(band.median - far) / _P10_DEVIATIONS, sign.least_deviation * band.median)
    distance = abs(value - band.median)
    is_far = sign.ratio <= ratio <= MAX_RATIO and distance >= MIN_DEVIATIONS * deviation
    if not is_far or abs(value - near) < ALONE_SHARE * distance:
        return None
    return Outlier(place, value, band.median, band.size)


def _sign_applies(bands: Bands, sign: Sign) -> bool:
    if sign.quantity == CLOCK:
        used: Band | None = bands.get("gpu.used")
        return used is not None and used.least >= _BUSY_PERCENT
    if sign.quantity == "gpu.power":
        return "gpu.sm.active" not in bands
    return sign.quantity != "cpu.used" or "gpu.used" not in bands


class Spot(NamedTuple):
    """A GPU, a rank or a node."""

    node: str
    rank: int = -1
    """-1: several ranks of the node."""
    gpu: int = -1
    """-1: the rank itself, or several of its GPUs."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """A GPU, rank or node that is persistently slower than its peers."""

    sign: Sign
    spot: Spot
    since: int
    """Begin of the first minute in which it stood out, in seconds since 1970."""
    minutes: int
    """Minutes of the window in which it stood out."""
    of_minutes: int
    value: float
    """Median of its values in these minutes."""
    median: float
    """Median of the medians over all ranks or GPUs."""
    size: int
    """Number of ranks or GPUs."""


@dataclass(slots=True)
class Peers:
    """The last minutes of one attempt. It is fed one interval after another."""

    node_of: Mapping[int, str]
    """The node of each rank."""
    _end: int = 0
    _window: dict[str, deque[tuple[int, Outlier | None]]] = field(default_factory=dict)
    """Starts of minutes and what stood out, by quantity."""
    _found: dict[str, Straggler] = field(default_factory=dict)

    def take(self, each: Interval) -> None:
        """Take the next interval, in the order of time. Intervals longer than a minute are left out: their percentiles
        are means, and their extremes are of single minutes."""
        if each.seconds != MINUTE_SECONDS:
            return
        self._end = each.start + each.seconds
        for sign in SIGNS:
            if sign.quantity not in each.bands:
                continue
            window = self._window.setdefault(sign.quantity, deque())
            window.append((each.start, outlier(each.bands, sign)))
            while window[0][0] <= each.start - WINDOW_MINUTES * MINUTE_SECONDS:
                window.popleft()
            found = self._straggler(sign, window, self._found.pop(sign.quantity, None))
            if found is not None:
                self._found[sign.quantity] = found

    def judge(self, now: float) -> Straggler | None:
        """Return the straggler of the newest minutes by the sign that explains most; None if there is none, or if the
        newest minute is long ago."""
        if now - self._end > LATE_SECONDS:
            return None
        return next((self._found[sign.quantity] for sign in SIGNS if sign.quantity in self._found), None)

    def ranks_at(self, spot: Spot) -> list[int]:
        """Return the ranks of a spot: one, or those of a node."""
        return [spot.rank] if spot.rank >= 0 else sorted(r for r, node in self.node_of.items() if node == spot.node)

    def _straggler(
        self, sign: Sign, window: Iterable[tuple[int, Outlier | None]], before: Straggler | None
    ) -> Straggler | None:
        minutes = list(window)
        outliers = [(start, found) for start, found in minutes if found is not None]
        if len(outliers) < HELD_MINUTES:
            return None
        for level in self._levels():
            spots = [self._spot_at(found.place, level) for _, found in outliers]
            ((spot, count),) = Counter(spots).most_common(1)
            is_same = before is not None and before.spot == spot
            if count >= (HELD_MINUTES if is_same else NEEDED_MINUTES):
                of_spot = [outliers[number] for number, each in enumerate(spots) if each == spot]
                return Straggler(
                    sign,
                    spot,
                    before.since if before is not None and is_same else of_spot[0][0],
                    count,
                    len(minutes),
                    statistics.median(found.value for _, found in of_spot),
                    statistics.median(found.median for _, found in of_spot),
                    max(found.size for _, found in of_spot),
                )
        return None

    def _levels(self) -> list[str]:
        """Return the levels at which one of several can stand out, the narrowest first."""
        ranks, nodes = len(self.node_of), len(set(self.node_of.values()))
        return ["gpu", *(["rank"] if ranks >= MIN_PEERS else []), *(["node"] if nodes >= MIN_PEERS else [])]

    def _spot_at(self, place: Place, level: str) -> Spot:
        node = self.node_of.get(place.rank, "")
        if level == "node" and node:
            return Spot(node)
        return Spot(node, place.rank, place.gpu if level == "gpu" else -1)


def find(intervals: Iterable[Interval], node_of: Mapping[int, str], now: float) -> Straggler | None:
    """Return the straggler of one attempt now, in seconds since 1970."""
    peers = Peers(node_of)
    for each in sorted(intervals, key=lambda each: each.start):
        peers.take(each)
    return peers.judge(now)


def describe_straggler(found: Straggler) -> str:
    """Return a straggler as one sentence."""
    node, rank, gpu = found.spot
    where = f" on {node}" if node and rank >= 0 else ""
    name = f"GPU {gpu} of rank {rank}" if gpu >= 0 else f"Rank {rank}" if rank >= 0 else f"Node {node}"
    about = describe(found.sign.quantity)
    values = "GPUs" if about.name.startswith("gpu.") else "ranks"
    unit = "/s" if about.unit is Unit.PER_SECOND else f" {about.unit.value}"
    since = format_time(time_at(found.since))
    return (
        f"{name}{where} has been slower than its peers since {since}: {found.sign.text} "
        f"({found.sign.quantity} {_format_number(found.value)}{unit}, median of {found.size:,} {values} "
        f"{_format_number(found.median)}{unit}, in {found.minutes} of the last {found.of_minutes} minutes)."
    )


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
