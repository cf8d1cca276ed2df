"""Requests and limits of a Pod, as quotas and limits count them. Amounts are in 10^-9 of their unit."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver.schemas.quantities import parse_nano

Amounts = dict[str, int]


def of_pod(spec: dict[str, Any], which: str) -> Amounts:
    """Return the requests or limits of a Pod: the sum over containers and sidecars, or the largest init container
    (k8s.io/component-helpers/resource `PodRequests`, `PodLimits`)."""
    total: Amounts = {}
    for container in spec.get("containers") or []:
        _add(total, of_container(container, which))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or []:
        amounts = of_container(container, which)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, 0), amount)
    _add(total, sidecars)
    for name, amount in largest.items():
        total[name] = max(total.get(name, 0), amount)
    for name, text in ((spec.get("resources") or {}).get(which) or {}).items():
        total[name] = parse_nano(text)
    overhead = {name: parse_nano(text) for name, text in (spec.get("overhead") or {}).items()}
    if which == "requests":
        _add(total, overhead)
    else:
        _add(total, {name: amount for name, amount in overhead.items() if name in total})
    return total


def of_container(container: dict[str, Any], which: str) -> Amounts:
    """Return the requests or limits of one container."""
    return {name: parse_nano(text) for name, text in ((container.get("resources") or {}).get(which) or {}).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
