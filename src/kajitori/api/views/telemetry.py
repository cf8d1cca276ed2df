"""Telemetry as answers show it."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import Time, View


class ExtremeView(View, omit_defaults=True):
    """An extreme value, and where it was."""

    value: float
    rank: int
    gpu: int | None = None
    """Which GPU of the rank, counted from 0; absent for quantities of the member."""


class BandPoint(View, omit_defaults=True):
    """One quantity over all ranks, or all GPUs, in one interval."""

    at: Time
    """Beginning of the interval."""
    attempt: int
    count: int
    """Number of values."""
    min: ExtremeView
    p10: float
    p50: float
    p90: float
    max: ExtremeView


class BandSeries(View):
    """Bands of one quantity, oldest first."""

    name: str
    unit: str
    kind: str
    """gauge, counter (a rate), events (a number per minute), peak or last."""
    description: str
    points: list[BandPoint]


class RunMetrics(View):
    """Bands of a run over all ranks."""

    run: str
    namespace: str
    uid: str
    since: Time
    until: Time
    interval_seconds: int
    """Length of each interval. It grows with the age of the oldest one."""
    ranks: int
    """Largest number of ranks that reported in an interval."""
    series: list[BandSeries]


class Sample(View):
    """One value and its time."""

    at: Time
    value: float


class RankSeries(View, omit_defaults=True):
    """One quantity of one rank in full resolution, oldest first."""

    name: str
    unit: str
    kind: str
    description: str
    samples: list[Sample]
    gpu: int | None = None
    """Which GPU of the rank, counted from 0."""
    device: str = ""
    """Identifier of the GPU."""


class RankMetrics(View):
    """The last hour of one rank, as its node kept it."""

    run: str
    namespace: str
    uid: str
    attempt: int
    rank: int
    node: str
    since: Time
    series: list[RankSeries]


class GpuStats(View):
    """The newest values of one GPU."""

    device: str
    values: dict[str, float]


class RankStats(View, omit_defaults=True):
    """The newest values of one rank."""

    rank: int
    node: str
    values: dict[str, float]
    """By name of the quantity; those that were not measured are missing."""
    at: Time
    """Time of the sample, or beginning of the minute whose mean it is."""
    live: bool = False
    """Whether its node was asked just now; else the values are means of a minute."""
    gpus: list[GpuStats] = msgspec.field(default_factory=list)


class RunStats(View, omit_defaults=True):
    """The newest values of a run's ranks."""

    run: str
    namespace: str
    attempt: int
    at: Time
    ranks: list[RankStats]
    total: int
    """Number of ranks that report; `ranks` may hold fewer."""
    silent: int = 0
    """Number of asked ranks whose nodes did not answer; their values are means of a minute."""


class RunSummary(View):
    """The newest bands of one run."""

    run: str
    namespace: str
    attempt: int
    at: Time
    """Beginning of the minute."""
    owner: str
    bands: dict[str, BandPoint]


class StatsList(View):
    """The newest bands of runs."""

    items: list[RunSummary]
    total: int
