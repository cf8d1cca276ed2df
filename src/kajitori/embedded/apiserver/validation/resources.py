"""Names and amounts of resources: `cpu`, `requests.storage`, `nvidia.com/gpu` (pkg/apis/core/helper)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, invalid, required
from kajitori.embedded.apiserver.schemas.quantities import NANO, parse_nano

COMPUTE = ("cpu", "memory", "ephemeral-storage")
COUNTED = (
    *("pods", "services", "services.nodeports", "services.loadbalancers", "replicationcontrollers", "resourcequotas"),
    *("secrets", "configmaps", "persistentvolumeclaims"),
)
QUOTA_NAMES = frozenset(
    {*COMPUTE, *COUNTED, "requests.storage", *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE)}
)
"""Names without a domain that a ResourceQuota may limit."""
_STANDARD = QUOTA_NAMES | {"storage"}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")


def is_quota_name(name: str) -> bool:
    """Return whether a name without a domain may stand in a ResourceQuota."""
    return name in QUOTA_NAMES or name.startswith(_HUGE_PAGES)


def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: its name has no domain, or one of Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a resource can't be overcommitted: GPUs and other devices, huge pages."""
    return name.startswith("hugepages-") or (
        not name.rpartition("/")[0].endswith("kubernetes.io") and "/" in name and not name.startswith("requests.")
    )


@functools.lru_cache(maxsize=4096)
def _name_details(name: str, of_container: bool) -> tuple[str, ...]:
    if found := texts.qualified_name(name):
        return tuple(found)
    if "/" in name:
        extended = not name.startswith("requests.") and not texts.qualified_name(f"requests.{name}")
        wrong = of_container and not is_native(name) and not extended
        return ("must be the name of an extended resource, such as nvidia.com/gpu",) if wrong else ()
    if name.startswith(_HUGE_PAGES) or name in (COMPUTE if of_container else _STANDARD):
        return ()
    kind = "a standard resource for containers" if of_container else "a standard resource type or fully qualified"
    return (f"must be {kind}",)


def name_faults(name: str, path: str, *, of_container: bool = False) -> list[Cause]:
    """Return the faults of a resource's name; `of_container`: it has to be one that a container may ask for."""
    return [invalid(path, name, detail) for detail in _name_details(name, of_container)]


def requirement_faults(resources: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the faults of requests and limits: names, amounts, requests above limits, devices without a limit."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            for value, detail in _amount_details(name, amount):
                yield invalid(f"{path}.{part}[{name}]", value, detail)
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if is_extended(name):
                yield required(f"{path}.limits[{name}]", "must be set for a resource that can't be overcommitted")
        elif limit != amount:
            more, field = parse_nano(amount) - parse_nano(limit), f"{path}.requests[{name}]"
            if more and is_extended(name):
                yield invalid(field, amount, f"must be equal to {name} limit of {limit}")
            elif more > 0:
                yield invalid(field, amount, f"must be less than or equal to {name} limit of {limit}")


@functools.lru_cache(maxsize=4096)
def _amount_details(name: str, amount: str) -> tuple[tuple[str, str], ...]:
    """Return the fault of an amount that a container asks for: the faulty value, and why."""
    found = [(name, detail) for detail in _name_details(name, True)]
    nano = parse_nano(amount)
    if nano < 0:
        found.append((amount, "must be greater than or equal to 0"))
    elif name.startswith("hugepages-"):
        try:
            page = parse_nano(name.removeprefix("hugepages-"))
        except ValueError as error:
            return (*found, (name, str(error)))
        if page <= 0 or nano % page:
            found.append((amount, "must be a multiple of the page size"))
    elif is_extended(name) and nano % NANO:
        found.append((amount, "must be an integer"))
    return tuple(found)
