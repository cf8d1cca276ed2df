"""Requests and limits of a Pod, as quotas and limits count them. Amounts are in 10^-9 of their unit."""

from __future__ import annotations

from typing import Any

from kajitori.core.kubernetes.pod_amounts import Amounts, add_amounts, pod_amounts
from kajitori.embedded.apiserver.schemas.quantities import parse_nano


def of_pod(spec: dict[str, Any], which: str) -> Amounts:
    """Return the requests or limits of a Pod (k8s.io/component-helpers/resource `PodRequests`, `PodLimits`)."""
    total = pod_amounts(
        (of_container(one, which) for one in spec.get("containers") or []),
        ((of_container(one, which), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or []),
        of_container(spec, which),
        {},
    )
    overhead = {name: parse_nano(text) for name, text in (spec.get("overhead") or {}).items()}
    if which == "limits":  # a resource without a limit has none with the overhead either
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return add_amounts(total, overhead)


def of_container(container: dict[str, Any], which: str) -> Amounts:
    """Return the requests or limits of one container, or those of a Pod as a whole, from its spec."""
    return {name: parse_nano(text) for name, text in ((container.get("resources") or {}).get(which) or {}).items()}
