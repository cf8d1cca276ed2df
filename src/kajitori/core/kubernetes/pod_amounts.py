"""The amounts that a Pod takes of its node, computed from the requests of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Amounts = dict[str, int]
"""Amounts by resource, each in the smallest unit of the caller."""


def pod_amounts(
    containers: Iterable[Mapping[str, int]],
    init_containers: Iterable[tuple[Mapping[str, int], bool]],
    whole: Mapping[str, int],
    overhead: Mapping[str, int],
) -> Amounts:
    """Return the largest amounts that a Pod takes at any time, by resource.

    Init containers run one by one, in order. Each comes with whether it is a sidecar, which then runs beside everything
    after it. Amounts of the Pod as a whole replace those of its containers, and the overhead is added. As `PodRequests`
    in k8s.io/component-helpers/resource (KEP-753, KEP-2837).
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            add_amounts(sidecars, amounts)
            step = sidecars
        else:
            step = add_amounts(dict(sidecars), amounts)
        for name, amount in step.items():
            peak[name] = max(peak.get(name, 0), amount)
    total = sidecars
    for amounts in containers:
        add_amounts(total, amounts)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    total.update(whole)
    return add_amounts(total, overhead)


def add_amounts(total: Amounts, more: Mapping[str, int]) -> Amounts:
    """Add amounts to a total in place, and return it."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
    return total
