"""Devices and claims of dynamic resource allocation, read from the API server's objects in the types of `core`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from kajitori.core.formats.quantities import QuantityError, parse_memory_bytes
from kajitori.core.gpus.devices import (
    CounterId,
    Device,
    DeviceClass,
    DeviceId,
    NodeDevices,
    device_view,
    shares_of,
    shares_taken,
)
from kajitori.kube.device_objects import (
    Attribute,
    Capacity,
    DeviceClaim,
    DeviceTaint,
    DeviceTaintRule,
    PublishedClass,
    PublishedDevice,
    ResourceSlice,
)

_BLOCKS = ("NoSchedule", "NoExecute")


def node_devices(slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule]) -> NodeDevices:
    """Return the devices of one node's slices.

    Slices of an older generation of their pool do not count. Of an incomplete pool no slice counts, because its driver
    is about to publish the rest.
    """
    found = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for published in found:
        pool = published.spec.driver, published.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), published.spec.pool.generation)
    current = [s for s in found if s.spec.pool.generation == newest[s.spec.driver, s.spec.pool.name]]
    counts = Counter((s.spec.driver, s.spec.pool.name) for s in current)
    whole = [s for s in current if counts[s.spec.driver, s.spec.pool.name] >= s.spec.pool.resource_slice_count]
    counters = {
        (s.spec.driver, s.spec.pool.name, group.name, name): _rounded_amount(counter.value)
        for s in whole
        for group in s.spec.shared_counters
        for name, counter in group.counters.items()
    }
    blocking = [rule for rule in rules if _blocks_allocation(rule.spec.taint)]
    return NodeDevices(tuple(_device_of(s, device, blocking) for s in whole for device in s.spec.devices), counters)


def _device_of(published: ResourceSlice, device: PublishedDevice, rules: Iterable[DeviceTaintRule]) -> Device:
    driver, pool = published.spec.driver, published.spec.pool.name
    attributes, capacity = _view_of(driver, tuple(device.attributes.items()), tuple(device.capacity.items()))
    counters: tuple[tuple[CounterId, int], ...] = tuple(
        ((driver, pool, use.counter_set, name), _rounded_amount(counter.value))
        for use in device.consumes_counters
        for name, counter in use.counters.items()
    )
    is_shared = device.allow_multiple_allocations
    return Device(
        driver=driver,
        pool=pool,
        name=device.name,
        attributes=attributes,
        capacity=capacity,
        is_shared=is_shared,
        shares=_shares_of_capacity(device.capacity) if is_shared else 1,
        counters=counters,
        is_tainted=any(_blocks_allocation(taint) for taint in device.taints)
        or any(_rule_selects(rule, driver, pool, device.name) for rule in rules),
    )


@lru_cache(maxsize=4096)
def _view_of(
    driver: str, attributes: tuple[tuple[str, Attribute], ...], capacity: tuple[tuple[str, Capacity], ...]
) -> tuple[dict[str, dict[str, str | int | bool]], dict[str, dict[str, float]]]:
    """Return attributes and capacities by domain; equal devices share them."""
    values = ((name, _attribute_value(attribute)) for name, attribute in attributes)
    amounts = ((name, float(_rounded_amount(entry.value))) for name, entry in capacity)
    return device_view(driver, ((name, value) for name, value in values if value is not None), amounts)


def _attribute_value(attribute: Attribute) -> str | int | bool | None:
    for value in (attribute.string, attribute.version, attribute.integer, attribute.boolean):
        if value is not None:
            return value
    return None


def _default_of(capacity: Capacity) -> str | None:
    return capacity.request_policy.default if capacity.request_policy is not None else None


def _shares_of_capacity(capacity: Mapping[str, Capacity]) -> int:
    amounts = {}
    for name, entry in capacity.items():
        default = _default_of(entry)
        amounts[name] = (
            _rounded_amount(entry.value),
            _rounded_amount(default) if default is not None else None,
        )
    return shares_of(amounts)


def _blocks_allocation(taint: DeviceTaint) -> bool:
    return taint.effect in _BLOCKS


def _rule_selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    wanted = rule.spec.device_selector
    pairs = ((wanted.driver, driver), (wanted.pool, pool), (wanted.device, device))
    return all(name is None or name == own for name, own in pairs)


def default_shares(slices: Iterable[ResourceSlice]) -> dict[DeviceId, dict[str, int]]:
    """Return the amount that a claim takes by default of each capacity of the shared devices."""
    return {
        (published.spec.driver, published.spec.pool.name, device.name): {
            name: _rounded_amount(default)
            for name, capacity in device.capacity.items()
            if (default := _default_of(capacity)) is not None
        }
        for published in slices
        for device in published.spec.devices
        if device.allow_multiple_allocations
    }


def device_class(found: PublishedClass) -> DeviceClass:
    """Return a DeviceClass as `core` takes it."""
    selectors = tuple(selector.cel.expression for selector in found.spec.selectors)
    return DeviceClass(found.metadata.name, selectors, found.spec.extended_resource_name)


def _rounded_amount(text: str) -> int:
    """Return an amount, rounded up; 0 if it cannot be read."""
    try:
        return parse_memory_bytes(text)
    except QuantityError:
        return 0


def devices_of(claim: DeviceClaim) -> list[DeviceId]:
    """Return the devices that are allocated to a claim, without those that it may only observe."""
    allocation = claim.status.allocation
    if allocation is None:
        return []
    return [(r.driver, r.pool, r.device) for r in allocation.devices.results if not r.admin_access]


def taken_by(claim: DeviceClaim, defaults: Mapping[DeviceId, Mapping[str, int]]) -> dict[DeviceId, int]:
    """Return the number of shares of each device that a claim has."""
    taken: Counter[DeviceId] = Counter()
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if result.admin_access:
            continue
        device = result.driver, result.pool, result.device
        consumed = {name: _rounded_amount(text) for name, text in result.consumed_capacity.items()}
        taken[device] += shares_taken(consumed, defaults.get(device, {}))
    return taken
