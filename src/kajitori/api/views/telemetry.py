"""Telemetry as answers show it."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import Time, View


class ExtremeView(View, omit_defaults=True):
    """An extreme value, with the rank and GPU that had it."""

    value: float
    rank: int
    gpu: int | None = None
    """Index of the GPU within the rank, from 0; absent for quantities of the member."""


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
    """Index of the GPU within the rank, from 0."""
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


class RunFigures(View, omit_defaults=True):
    """The last figures of a run. What was not measured is absent."""

    gpu: int | None = None
    """Use of its GPUs in the last minute in percent: the median. Only of a run that runs now, as the next two."""
    least_gpu: int | None = None
    """The GPU that is used least, in percent."""
    least_rank: int | None = None
    """Rank of that GPU."""
    step: float | None = None
    """The last step of the training."""
    name: str = ""
    """Name of the main figure of the training, such as loss: the one that most likely tells how good the run is."""
    value: float | None = None
    """The last value of this figure, as the median over the ranks that wrote it."""


class RunFiguresList(View):
    """The last figures of runs."""

    figures: dict[str, RunFigures]
    """By UID of the run. A run of which nothing is known is absent."""


class IdleRun(View):
    """A run that holds GPUs which it has not used for long."""

    run: str
    namespace: str
    owner: str
    use: str
    """batch, notebook (a batch run with ports) or service: policy gives each its own patience."""
    since: Time
    seconds: int
    gpus: int
    """GPUs that it holds."""
    gpu_type: str
    """Empty if they are of several types."""
    fewest: int
    """Fewest GPUs that were idle in each minute; all of them if it is `gpus`."""
    most: int
    """Most GPUs that were idle in each minute."""
    confirmed: int
    """If some are idle while others work: GPUs that were idle in the whole last hour, as their nodes say."""
    places: str
    """Ranks and GPUs of these, as in `3:0-7;12:4`."""
    peak_percent: int
    """Highest utilisation of any GPU since then."""
    works: bool
    """Whether processors, disks or network worked meanwhile."""
    gpu_hours: float
    """GPU-hours of the GPUs that are known to be idle."""
    cost: float
    """Their cost at policy's prices; 0 without prices."""
    currency: str
    answer: str
    """asked: the owner was asked. warned: it will be parked. kept: the owner keeps it. parked: it is being parked.
    unsure: some of its GPUs may be idle, but that is not proven, so the owner was not asked."""
    asked_at: str
    kept_until: str
    """Until when the owner keeps it; empty without such an answer."""
    park_at: str
    """Time at which policy parks the run if its owner does not answer; empty if policy parks no runs."""
    says: str
    """The evidence as a sentence."""


class IdleList(View):
    """Runs that hold idle GPUs."""

    items: list[IdleRun]
    total: int
    gpu_hours: float
    cost: float
    currency: str


class IdleGpu(View):
    """One GPU that was idle for as long as its node remembers."""

    rank: int
    gpu: int
    """Index of the GPU within the rank, from 0."""
    node: str


class IdleReport(View, omit_defaults=True):
    """The idle GPUs of one run."""

    run: str
    namespace: str
    found: IdleRun | None = None
    """The finding from the bands over all GPUs; absent if there is none."""
    idle_gpus: list[IdleGpu] = msgspec.field(default_factory=list)
    """The GPUs that were idle in all of the last `looked_seconds`, as their nodes say."""
    looked_gpus: int = 0
    """Number of GPUs that nodes were asked about and answered."""
    looked_seconds: int = 0
    """Time about which nodes were asked: since the run's GPUs are idle, but at most the hour that nodes remember."""
    silent_ranks: int = 0
    """Number of ranks whose nodes did not answer."""


class NodeTemperatures(View):
    """The hottest GPU of each node, as far as it is known."""

    celsius: dict[str, int]
    """By node. A node is absent if it sent no report lately, or if the caller may not read the runs on it."""


class NodeSeries(View, omit_defaults=True):
    """One quantity of a node, or of one of its GPUs, over time."""

    name: str
    unit: str
    kind: str
    """counter (a rate), gauge, peak or last: how the value of an interval is made of its samples."""
    description: str
    values: list[float | None]
    """A value for each interval; null where nothing was measured."""
    gpu: int | None = None
    """Number of the GPU on the node, from 0; absent for quantities of the whole node."""


class NodeHolder(View):
    """A time in which a run held the node, or some of its GPUs."""

    namespace: str
    """Empty if the caller may not read the runs of its namespace. All such runs are one holder without names."""
    run: str
    gpus: list[int]
    """Numbers of the GPUs that it held at any moment of this time."""
    since: Time
    until: Time


class NodeMetrics(View):
    """The figures of a node over time."""

    node: str
    since: Time
    until: Time
    interval_seconds: int
    """Length of each interval. It grows with the age of the oldest one."""
    gpus: int
    """Number of GPUs that were measured."""
    at: list[Time]
    """Beginning of each interval, oldest first. An interval without any report is left out."""
    series: list[NodeSeries]
    holders: list[NodeHolder]
    """Runs that held the node, by time."""
    last_at: str
    """If there is no interval in this time: beginning of the newest one; empty if no agent reported this node for a
    week."""
