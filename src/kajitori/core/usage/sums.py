"""Sums of usage, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

HOUR = 3600
GIB = 2**30


class By(StrEnum):
    """Groupings of usage."""

    TEAM = "team"
    OWNER = "owner"
    TYPE = "type"
    RUN = "run"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of an hour, in one currency."""

    gpu: Mapping[str, float]
    """By GPU type; the empty type is the price of all others."""
    core: float = 0.0
    gib: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nothing has a price."""
        return not (any(self.gpu.values()) or self.core or self.gib)


@dataclass(slots=True)
class UsageSum:
    """The usage of a team, an owner, a run or a node. All sums are exact."""

    gpu_seconds: int = 0
    cpu_milli_seconds: int = 0
    byte_seconds: int = 0
    member_seconds: int = 0
    cost: float = 0.0


def add_up(
    parts: Iterable[tuple[str, str, int, int, int, int]], prices: Prices, sums: dict[str, UsageSum] | None = None
) -> dict[str, UsageSum]:
    """Return the sums by key. Each part is a key, GPU type, GPUs, milli-cores and bytes of one member, and the seconds
    of all members. With `sums`, they are added to these."""
    found = {} if sums is None else sums
    for key, gpu_type, gpus, cpu_millis, memory_bytes, seconds in parts:
        total = found.setdefault(key, UsageSum())
        total.gpu_seconds += gpus * seconds
        total.cpu_milli_seconds += cpu_millis * seconds
        total.byte_seconds += memory_bytes * seconds
        total.member_seconds += seconds
        gpu_price = prices.gpu.get(gpu_type, prices.gpu.get("", 0.0))
        each = gpus * gpu_price + cpu_millis / 1000 * prices.core + memory_bytes / GIB * prices.gib
        total.cost += each * seconds / HOUR
    return found
