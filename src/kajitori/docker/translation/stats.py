"""Resource usage in the format of `docker stats`: growing counters, computed from the platform's rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kajitori.docker.translation.container import Container

NANO = 10**9
NO_READ = "0001-01-01T00:00:00Z"


class Meter:
    """Turns the platform's rates of one container into counters, which Docker's clients expect."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._at = 0.0
        self._cpu = self._before = _cpu(0.0, 0.0, 1)
        self._read = self._preread = NO_READ
        self._values: dict[str, float] = {}
        self._counters: dict[str, float] = {}

    def add(self, ranks: Sequence[Mapping[str, Any]], now: float) -> None:
        """Take the latest values of the ranks, read `now`, in seconds since the epoch."""
        seconds = min(60.0, now - self._at) if self._at else 1.0
        self._at = now
        self._values = _sums(ranks)
        for name in ("network.received", "network.sent", "disk.read", "disk.written"):
            self._counters[name] = self._counters.get(name, 0.0) + self._values.get(name, 0.0) * seconds
        for name, rate in (("used", self._values.get("cpu.used", 0.0)), ("system", 1.0)):
            self._counters[name] = self._counters.get(name, 0.0) + rate * seconds
        self._preread, self._read = self._read, f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
        # Clients multiply the share of the system's time with the number of cores; with one core it is the cores used.
        self._before, self._cpu = self._cpu, _cpu(self._counters["used"], self._counters["system"], 1)

    def document(self) -> dict[str, Any]:
        """Return one document of the stream."""
        used = int(self._values.get("memory.used", 0))
        counters = {name: int(value) for name, value in self._counters.items()}
        return {
            "id": self._container.id,
            "name": f"/{self._container.shown_name}",
            "read": self._read,
            "preread": self._preread,
            "pids_stats": {"current": int(self._values.get("processes", 0))},
            "num_procs": 0,
            "cpu_stats": self._cpu,
            "precpu_stats": self._before,
            "memory_stats": {
                "usage": used,
                "stats": {"inactive_file": 0},
                "limit": int(self._values.get("memory.limit", 0)),
            },
            "networks": {
                "eth0": {
                    "rx_bytes": counters.get("network.received", 0),
                    "tx_bytes": counters.get("network.sent", 0),
                    **dict.fromkeys(("rx_packets", "rx_errors", "rx_dropped"), 0),
                    **dict.fromkeys(("tx_packets", "tx_errors", "tx_dropped"), 0),
                }
            },
            "blkio_stats": {
                "io_service_bytes_recursive": [
                    {"major": 0, "minor": 0, "op": "read", "value": counters.get("disk.read", 0)},
                    {"major": 0, "minor": 0, "op": "write", "value": counters.get("disk.written", 0)},
                ]
            },
            "storage_stats": {},
        }


def _sums(ranks: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for rank in ranks:
        for name, value in rank["values"].items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def _cpu(used_seconds: float, system_seconds: float, cores: int) -> dict[str, Any]:
    used = int(used_seconds * NANO)
    return {
        "cpu_usage": {"total_usage": used, "usage_in_kernelmode": 0, "usage_in_usermode": used},
        "system_cpu_usage": int(system_seconds * NANO),
        "online_cpus": cores,
        "throttling_data": {"periods": 0, "throttled_periods": 0, "throttled_time": 0},
    }
