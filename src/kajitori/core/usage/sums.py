"""Sums of usage, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

HOUR = 3600
GIB = 2**30


class By(StrEnum):
    """Groupings of usage."""

    TEAM = "team"
    OWNER = "owner"
    TYPE = "type"
    RUN = "run"
    NODE = "node"
    DAY = "day"
    """A day of UTC, as 2026-11-21."""
    HOUR = "hour"
    """An hour of UTC, as 2026-11-21T10:00:00Z."""

    @property
    def is_time(self) -> bool:
        """Whether usage is grouped by the time at which it happened."""
        return self in (By.DAY, By.HOUR)


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

    def add(self, other: UsageSum) -> None:
        """Add another sum to this one."""
        self.gpu_seconds += other.gpu_seconds
        self.cpu_milli_seconds += other.cpu_milli_seconds
        self.byte_seconds += other.byte_seconds
        self.member_seconds += other.member_seconds
        self.cost += other.cost


class MemberTime(NamedTuple):
    """The time of members that have the same resources."""

    key: str
    """The key of the sum that the time belongs to: a team, an owner, a run, a node, a day."""
    gpu_type: str
    gpus: int
    """GPUs, milli-cores and bytes of one member."""
    cpu_millis: int
    memory_bytes: int
    member_seconds: int
    """The seconds of all members."""


class ResourceTime(NamedTuple):
    """Resources of members, multiplied with the time for which they had them."""

    key: str
    """As in MemberTime."""
    gpu_type: str
    gpu_seconds: int
    cpu_milli_seconds: int
    byte_seconds: int
    member_seconds: int


def add_up(parts: Iterable[MemberTime], prices: Prices, sums: dict[str, UsageSum] | None = None) -> dict[str, UsageSum]:
    """Return the sums by key. With `sums`, they are added to these."""
    whole = (
        ResourceTime(key, gpu_type, gpus * seconds, cpu_millis * seconds, memory_bytes * seconds, seconds)
        for key, gpu_type, gpus, cpu_millis, memory_bytes, seconds in parts
    )
    return add_whole(whole, prices, sums)


def add_whole(
    amounts: Iterable[ResourceTime], prices: Prices, sums: dict[str, UsageSum] | None = None
) -> dict[str, UsageSum]:
    """Return the sums by key. With `sums`, they are added to these."""
    found = {} if sums is None else sums
    for key, gpu_type, gpu_seconds, cpu_milli_seconds, byte_seconds, seconds in amounts:
        total = found.setdefault(key, UsageSum())
        total.gpu_seconds += gpu_seconds
        total.cpu_milli_seconds += cpu_milli_seconds
        total.byte_seconds += byte_seconds
        total.member_seconds += seconds
        gpu_price = prices.gpu.get(gpu_type, prices.gpu.get("", 0.0))
        cost = gpu_seconds * gpu_price + cpu_milli_seconds / 1000 * prices.core + byte_seconds / GIB * prices.gib
        total.cost += cost / HOUR
    return found
