"""The table of everything that is measured of a member and of its GPUs.

Agents sample a quantity every SAMPLE_SECONDS. For each minute they report one value per member, or per GPU, and a
server makes bands over all ranks of a run. Figures that programs write themselves have names of their own
(`core.telemetry.training`) and are no part of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

SAMPLE_SECONDS = 15
KEPT_SAMPLES = 240
"""One hour."""
MINUTE_SECONDS = 60


class Kind(StrEnum):
    """How samples are made from readings, and how the minute's value is made from samples."""

    GAUGE = "gauge"
    """A level. The minute has the mean of its samples."""
    COUNTER = "counter"
    """A total that only grows. A sample is its increase per second; the minute has the mean."""
    EVENTS = "events"
    """A total of rare events. A sample is its increase; the minute has the sum."""
    PEAK = "peak"
    """A level. The minute has the maximum of its samples."""
    LAST = "last"
    """A level. The minute has its newest sample."""


class Unit(StrEnum):
    """Units, as answers and plots name them."""

    CORES = "cores"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    SECONDS = "s"
    PERCENT = "%"
    WATTS = "W"
    CELSIUS = "°C"
    MEGAHERTZ = "MHz"
    COUNT = "count"
    PER_SECOND = "1/s"
    GIGABITS_PER_SECOND = "Gbit/s"
    BITS = "bits"
    NONE = ""


class Audience(StrEnum):
    """The readers of a quantity."""

    RUN = "run"
    """Users who may read the run."""
    OPERATORS = "operators"
    """Operators as well: the Web API's /metrics has the run's median and extremes."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One measured quantity."""

    name: str
    unit: Unit
    kind: Kind
    text: str
    """A description for tables and documentation."""
    audience: Audience = Audience.RUN


_EVERYONE = Audience.OPERATORS

MEMBER: tuple[Quantity, ...] = (
    Quantity("cpu.used", Unit.CORES, Kind.COUNTER, "Processor time used per second", _EVERYONE),
    Quantity("memory.used", Unit.BYTES, Kind.GAUGE, "Memory without file pages that can be dropped", _EVERYONE),
    Quantity("memory.peak", Unit.BYTES, Kind.PEAK, "Largest memory since the start"),
    Quantity("memory.limit", Unit.BYTES, Kind.LAST, "Memory limit of the member"),
    Quantity("disk.read", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes read from disks", _EVERYONE),
    Quantity("disk.written", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes written to disks", _EVERYONE),
    Quantity("network.received", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes received by the member's own network"),
    Quantity("network.sent", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes sent by the member's own network"),
    Quantity("output.age", Unit.SECONDS, Kind.LAST, "Time since the program last printed something", _EVERYONE),
    Quantity("processes", Unit.COUNT, Kind.GAUGE, "Number of processes"),
    Quantity(
        "storage.moved",
        Unit.BYTES_PER_SECOND,
        Kind.COUNTER,
        "Bytes that its processes read from or wrote to disks and file servers",
    ),
    Quantity("link.rate", Unit.GIGABITS_PER_SECOND, Kind.LAST, "Lowest rate of its node's InfiniBand and RoCE ports"),
    Quantity("link.ports", Unit.COUNT, Kind.LAST, "Number of these ports that are active"),
    Quantity("link.errors", Unit.COUNT, Kind.EVENTS, "Errors of the links at these ports", _EVERYONE),
    Quantity("link.downed", Unit.COUNT, Kind.EVENTS, "Times that a link at these ports was lost", _EVERYONE),
)
"""Quantities of a member."""

TRAFFIC = ("disk.read", "disk.written", "storage.moved", "network.received", "network.sent")
"""Quantities that show that a member moves data. Control groups count disks only, so traffic with file servers is in
`storage.moved`. A process kubelet without control groups counts that traffic in the disks' quantities."""

GPU: tuple[Quantity, ...] = (
    Quantity("gpu.used", Unit.PERCENT, Kind.GAUGE, "Share of time in which a kernel ran", _EVERYONE),
    Quantity("gpu.memory.used", Unit.BYTES, Kind.GAUGE, "Memory in use", _EVERYONE),
    Quantity("gpu.memory.total", Unit.BYTES, Kind.LAST, "Memory of the GPU"),
    Quantity("gpu.memory.busy", Unit.PERCENT, Kind.GAUGE, "Share of time in which memory was read or written"),
    Quantity("gpu.sm.active", Unit.PERCENT, Kind.GAUGE, "Share of multiprocessors that had work (Hopper, DCGM)"),
    Quantity("gpu.sm.occupancy", Unit.PERCENT, Kind.GAUGE, "Share of warps in use (Hopper, DCGM)"),
    Quantity("gpu.tensor.active", Unit.PERCENT, Kind.GAUGE, "Share of time of the tensor cores (Hopper, DCGM)"),
    Quantity("gpu.dram.active", Unit.PERCENT, Kind.GAUGE, "Share of the memory's bandwidth in use (Hopper, DCGM)"),
    Quantity("gpu.power", Unit.WATTS, Kind.GAUGE, "Power", _EVERYONE),
    Quantity("gpu.temperature", Unit.CELSIUS, Kind.PEAK, "Temperature", _EVERYONE),
    Quantity("gpu.clock.sm", Unit.MEGAHERTZ, Kind.GAUGE, "Clock of the multiprocessors"),
    Quantity("gpu.clock.memory", Unit.MEGAHERTZ, Kind.GAUGE, "Clock of the memory"),
    Quantity("gpu.throttled", Unit.BITS, Kind.PEAK, "Reasons for lower clocks, except idleness, as NVML's bits"),
    Quantity("gpu.ecc.corrected", Unit.COUNT, Kind.EVENTS, "Corrected memory errors"),
    Quantity("gpu.ecc.uncorrected", Unit.COUNT, Kind.EVENTS, "Memory errors that were not corrected", _EVERYONE),
    Quantity("gpu.xid", Unit.COUNT, Kind.LAST, "Number of the last Xid error since the agent's start; 0: none"),
    Quantity("gpu.nvlink.received", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes received over NVLink"),
    Quantity("gpu.nvlink.sent", Unit.BYTES_PER_SECOND, Kind.COUNTER, "Bytes sent over NVLink"),
    Quantity("gpu.nvlink.links", Unit.COUNT, Kind.LAST, "Number of its NVLinks that are active"),
    Quantity("gpu.nvlink.errors", Unit.COUNT, Kind.EVENTS, "Errors, replays and recoveries of its NVLinks", _EVERYONE),
    Quantity("gpu.pcie.received", Unit.BYTES_PER_SECOND, Kind.GAUGE, "Bytes received over PCIe"),
    Quantity("gpu.pcie.sent", Unit.BYTES_PER_SECOND, Kind.GAUGE, "Bytes sent over PCIe"),
)
"""Quantities of a GPU. A band of one is over all GPUs of the run."""

QUANTITIES: Mapping[str, Quantity] = {quantity.name: quantity for quantity in (*MEMBER, *GPU)}
MEMBER_NAMES: tuple[str, ...] = tuple(quantity.name for quantity in MEMBER)
GPU_NAMES: tuple[str, ...] = tuple(quantity.name for quantity in GPU)

NODE: tuple[Quantity, ...] = tuple(QUANTITIES[name] for name in ("cpu.used", "memory.used"))
"""Quantities of a whole node, whatever runs on it."""
NODE_GPU: tuple[Quantity, ...] = tuple(
    QUANTITIES[name] for name in ("gpu.used", "gpu.memory.used", "gpu.memory.total", "gpu.power", "gpu.temperature")
)
"""Quantities of each GPU of a node that are kept whether or not a run holds it."""

TRAINING_PREFIX = "train."
"""Begins the name of every figure that a program writes itself: `train.loss`."""
WORK_SECONDS = f"{TRAINING_PREFIX}work_seconds"
"""The figure by which a program lets its ranks be compared. The minute has the mean of its samples."""


def describe(name: str) -> Quantity:
    """Return the quantity of this name. An unknown name is a program's own figure: a level without a unit."""
    known = QUANTITIES.get(name)
    if known is not None:
        return known
    if name == WORK_SECONDS:
        return Quantity(name, Unit.SECONDS, Kind.GAUGE, "Time of the rank's own part of a step, without waiting")
    rate = name.endswith(".rate")
    unit, text = (Unit.PER_SECOND, "Increase per second") if rate else (Unit.NONE, "Written by the program")
    return Quantity(name, unit, Kind.GAUGE if rate else Kind.LAST, text)
