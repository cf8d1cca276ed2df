"""Devices of dynamic resource allocation (resource.k8s.io), and how many of them can still be allocated on a node.

A device is exclusive, or shared by several claims (`allowMultipleAllocations`). Partitions of one piece of hardware
take amounts from the same counters (`sharedCounters`), so an allocated one may exclude others.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kajitori.core.kubernetes.cel import Expression, ExpressionError, Scope

log = logging.getLogger(__name__)

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device: unique in a cluster."""
CounterId = tuple[str, str, str, str]
"""Driver, pool, counter set and counter."""
Value = str | int | bool

REMEMBERED_VERDICTS = 65_536

UNLIMITED_SHARES = 64
"""Number of claims that are assumed to share a device if its driver sets no limit."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of one node, as its driver publishes it."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Mapping[str, Value]]
    """By domain and name: `{"gpu.nvidia.com": {"type": "gpu"}}`."""
    capacity: Mapping[str, Mapping[str, float]]
    """By domain and name."""
    is_shared: bool = False
    shares: int = 1
    """Number of claims that can have it at the same time."""
    counters: tuple[tuple[CounterId, int], ...] = ()
    """The amounts that it takes from shared counters."""
    is_tainted: bool = False
    """Whether a taint keeps claims off it."""

    @property
    def id(self) -> DeviceId:
        return self.driver, self.pool, self.name

    def attribute(self, name: str) -> Value | None:
        """Return one of its driver's own attributes, or None."""
        return self.attributes.get(self.driver, {}).get(name)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """All devices of one node."""

    devices: tuple[Device, ...]
    counters: Mapping[CounterId, int]
    """The whole amount of each shared counter."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass, as far as it is needed to tell which devices it contains."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    """Name of the extended resource by which Pods can ask for its devices; empty if there is none."""

    def contains(self, device: Device) -> bool:
        """Return whether claims of this class can get the device."""
        return all(selects(selector, device) for selector in self.selectors)


def selects(selector: str, device: Device) -> bool:
    """Return whether a CEL selector matches a device. A selector that can't be evaluated matches nothing.

    Devices that share their attributes and capacities, as equal ones do, are evaluated once.
    """
    key = selector, id(device.attributes), id(device.capacity), device.is_shared
    known = _verdicts.get(key)
    if known is None:
        if len(_verdicts) >= REMEMBERED_VERDICTS:
            _verdicts.clear()
        known = _verdicts[key] = device, _evaluate(selector, device)
    return known[1]


def _evaluate(selector: str, device: Device) -> bool:
    expression = _compile(selector)
    if expression is None:
        return False
    values = {
        "driver": device.driver,
        "attributes": device.attributes,
        "capacity": device.capacity,
        "allowMultipleAllocations": device.is_shared,
    }
    try:
        return expression.evaluate({"device": values}) is True
    except ExpressionError:  # as in kube-scheduler: an attribute that the device lacks, for example
        return False


@lru_cache(maxsize=256)
def _compile(selector: str) -> Expression | None:
    try:
        return _SCOPE.compile(selector, "bool", "dyn")
    except ExpressionError as error:
        log.warning("the device selector %r is taken to match nothing: %s", selector, error.message)
        return None


_SCOPE = Scope(("device",))
_verdicts: dict[tuple[str, int, int, bool], tuple[Device, bool]] = {}
"""Whether a selector matches devices with these attributes and capacities; the device keeps both alive."""


def counters_left(node: NodeDevices, taken: Collection[DeviceId]) -> dict[CounterId, int]:
    """Return the amounts that are left of the shared counters while these devices are allocated."""
    left = dict(node.counters)
    for device in node.devices:
        if device.counters and device.id in taken:
            _take_device(left, device)
    return left


def allocatable(
    devices: Iterable[Device], left: Mapping[CounterId, int], taken: Mapping[DeviceId, int]
) -> list[DeviceId]:
    """Return which of these devices can be allocated together; a shared one occurs once per share.

    `left` is the rest of the shared counters. `taken` is the number of shares in use of each allocated device.
    """
    rest = dict(left)
    found: list[DeviceId] = []
    for device in devices:
        if device.is_tainted:
            continue
        free = device.shares - taken.get(device.id, 0)
        needed = device.counters if device.id not in taken else ()  # the first share took them
        if free <= 0 or any(rest.get(counter, 0) < amount for counter, amount in needed):
            continue
        if needed:
            _take_device(rest, device)
        found += [device.id] * free
    return found


def _take_device(left: dict[CounterId, int], device: Device) -> None:
    for counter, amount in device.counters:
        left[counter] = left.get(counter, 0) - amount


def shares_of(capacity: Mapping[str, tuple[int, int | None]]) -> int:
    """Return how many claims can share a device: for each capacity its amount, and what a claim takes by default.

    A claim takes the whole amount of a capacity without a default.
    """
    counts = [
        1 if default is None else amount // default
        for amount, default in capacity.values()
        if default is None or default > 0
    ]
    return min(counts, default=UNLIMITED_SHARES)


def shares_taken(consumed: Mapping[str, int], defaults: Mapping[str, int]) -> int:
    """Return how many default shares the capacity that a claim consumes is worth, at least one."""
    worth = [-(-amount // defaults[name]) for name, amount in consumed.items() if defaults.get(name, 0) > 0]
    return max(worth, default=1) or 1


def device_view(
    driver: str, attributes: Iterable[tuple[str, Value]], capacity: Iterable[tuple[str, float]]
) -> tuple[dict[str, dict[str, Value]], dict[str, dict[str, float]]]:
    """Return attributes and capacities by domain. A name without a domain belongs to the driver's."""
    return _by_domain(driver, attributes), _by_domain(driver, capacity)


def _by_domain(driver: str, entries: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {driver: {}}
    for name, value in entries:
        domain, slash, own = name.partition("/")
        found.setdefault(domain if slash else driver, {})[own if slash else name] = value
    return found


def in_order(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return devices in the order of their names, `gpu-2` before `gpu-10`."""
    return tuple(sorted(devices, key=lambda device: (device.driver, device.pool, len(device.name), device.name)))
