"""Samples of the node itself and of all of its GPUs, whether or not a member holds them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

import psutil

from kajitori.core.telemetry.quantities import MINUTE_SECONDS, NODE, NODE_GPU, SAMPLE_SECONDS
from kajitori.core.telemetry.report import MAX_GPUS, NodeMinute
from kajitori.core.telemetry.ring import UNKNOWN, Readings, Ring, summary

_KEPT_MINUTES = 5
"""Minutes of which samples are kept. A minute is reported within two minutes of its end."""

Devices = Sequence[Sequence[str]]
"""The identifiers of each GPU, in the order of the GPUs."""


def node_readings() -> dict[str, float]:
    """Return the processor time since the start of the machine, and its memory in use."""
    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    waits = getattr(times, "iowait", 0.0) + getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    busy = sum(times) - times.idle - waits  # guests are in user and nice as well
    return {"cpu.used": busy, "memory.used": float(memory.total - memory.available)}


class NodeSamples:
    """The samples of the last minutes. `read` returns the present readings of the node."""

    def __init__(self, read: Callable[[], Mapping[str, float]] = node_readings) -> None:
        self._read = read
        self._readings = Readings(NODE)
        self._gpus = 0
        self._ring = self._new_ring()
        self._holders: dict[int, dict[str, int]] = {}
        """By minute: the GPUs of each member, as bits, by UID of its Pod."""

    def _new_ring(self) -> Ring:
        rows = _KEPT_MINUTES * MINUTE_SECONDS // SAMPLE_SECONDS
        return Ring(len(NODE) + self._gpus * len(NODE_GPU), rows)

    def sample(
        self,
        at: float,
        gpus: Mapping[str, Mapping[str, float]],
        devices: Devices,
        members: Mapping[str, Sequence[str]],
    ) -> None:
        """Add a sample: the readings of all GPUs, and the identifiers of the GPUs that each member holds by UID."""
        devices = devices[:MAX_GPUS]
        if len(devices) != self._gpus:
            self._gpus = len(devices)
            self._ring = self._new_ring()
        row = self._readings.sample(at, self._read())
        for identifiers in devices:
            reading = next((gpus[each] for each in identifiers if each in gpus), {})
            row += [reading.get(quantity.name, UNKNOWN) for quantity in NODE_GPU]
        self._ring.add(at, row)
        minute = -int(-at // MINUTE_SECONDS) - 1  # a sample at the end of a minute belongs to it
        for old in [each for each in self._holders if each <= minute - _KEPT_MINUTES]:
            del self._holders[old]
        holders = self._holders.setdefault(minute, {})
        for uid, held in members.items():
            bits = sum(
                1 << number for number, identifiers in enumerate(devices) if not set(identifiers).isdisjoint(held)
            )
            holders[uid] = holders.get(uid, 0) | bits

    def report(self, minutes: Sequence[int]) -> tuple[NodeMinute, ...]:
        """Return those of these minutes that have samples."""
        return tuple(made for minute in minutes if (made := self._minute_of(minute)) is not None)

    def _minute_of(self, minute: int) -> NodeMinute | None:
        rows = self._ring.between(float(minute * MINUTE_SECONDS), float((minute + 1) * MINUTE_SECONDS))
        if not rows:
            return None
        values = summary(NODE + NODE_GPU * self._gpus, rows)
        return NodeMinute(
            minute,
            tuple(quantity.name for quantity in NODE),
            tuple(quantity.name for quantity in NODE_GPU),
            self._gpus,
            array("f", values[: len(NODE)]).tobytes(),
            array("f", values[len(NODE) :]).tobytes(),
            {uid: bits & ((1 << self._gpus) - 1) for uid, bits in self._holders.get(minute, {}).items()},
        )
