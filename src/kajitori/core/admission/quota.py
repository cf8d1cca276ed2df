"""Check that a namespace's ResourceQuotas leave room for a whole gang, before its first Pod is created (rule 4).

The check covers quotas without scopes, and resources that Kajitori knows. Everything else is left to the API server,
which checks each Pod anyway.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.formats.quantities import (
    QuantityError,
    format_cpu,
    memory_needed,
    memory_there,
    parse_cpu_millis,
    parse_memory_bytes,
)
from kajitori.core.pods.manifests import GPU_CLAIM


def quota_shortage(quotas: Iterable[Mapping[str, Any]], template: Mapping[str, Any], members: int) -> str:
    """Return a text that says why quotas do not allow this number of additional members; empty if they do.

    quotas: ResourceQuota objects of the namespace; template: the stored template of the attempt.
    """
    needed = {name: amount * members for name, amount in _amounts_of_member(template).items()}
    shortages = []
    for quota in quotas:
        spec, status = quota.get("spec") or {}, quota.get("status") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        hard, used = status.get("hard") or spec.get("hard") or {}, status.get("used") or {}
        for name in sorted(hard):
            if name not in needed or not needed[name]:
                continue
            limit, taken = _parse_amount(name, hard[name]), _parse_amount(name, used.get(name, "0"))
            if limit is not None and taken is not None and taken + needed[name] > limit:
                quota_name = (quota.get("metadata") or {}).get("name", "")
                left, all_of_it = _format_amount(name, max(0, limit - taken)), _format_amount(name, limit)
                needs = _format_amount(name, needed[name], memory_needed)
                shortages.append(f"quota {quota_name}, {name}: needs {needs}, {left} of {all_of_it} left")
    return "; ".join(shortages)


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """How much of one resource of a ResourceQuota is in use."""

    quota: str
    """Name of the ResourceQuota."""
    resource: str
    """As the quota names it, such as `requests.nvidia.com/gpu`."""
    used: str
    limit: str
    left: str
    part: float
    """How much of it is in use, from 0 to 1."""
    limited_to: str
    """The scopes of the quota, which counts only some Pods; empty if it counts all."""


def quota_uses(quotas: Iterable[Mapping[str, Any]]) -> Iterator[QuotaUse]:
    """Yield how much of each resource of these ResourceQuota objects is in use; resources without a readable amount are
    left out."""
    for quota in quotas:
        spec, status = quota.get("spec") or {}, quota.get("status") or {}
        hard, used = status.get("hard") or spec.get("hard") or {}, status.get("used") or {}
        selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
        scopes = [*(spec.get("scopes") or ()), *(str(each.get("scopeName", "")) for each in selected)]
        for name in sorted(hard):
            limit, taken = _parse_amount(name, hard[name]), _parse_amount(name, used.get(name, "0"))
            if limit is None or taken is None:
                continue
            yield QuotaUse(
                quota=(quota.get("metadata") or {}).get("name", ""),
                resource=name,
                used=_format_amount(name, taken, memory_needed),
                limit=_format_amount(name, limit),
                left=_format_amount(name, max(0, limit - taken)),
                part=min(1.0, taken / limit) if limit else 1.0,
                limited_to=", ".join(scopes),
            )


def members_within(quotas: Sequence[Mapping[str, Any]], template: Mapping[str, Any], members: int) -> int:
    """Return the number of additional members that the quotas still allow, at most `members`."""
    return bisect_left(range(members), True, key=lambda count: bool(quota_shortage(quotas, template, count + 1)))


def _amounts_of_member(template: Mapping[str, Any]) -> dict[str, int]:
    """Return what one Pod of this template, and its ResourceClaim if it has one, add to a quota, by the names that
    quotas use."""
    needed = {"pods": 1, "count/pods": 1}
    requests = ((template.get(GPU_CLAIM) or {}).get("devices") or {}).get("requests") or ()
    if requests:
        needed["count/resourceclaims.resource.k8s.io"] = 1
    for request in requests:
        devices = f"{request['exactly']['deviceClassName']}.deviceclass.resource.k8s.io/devices"
        needed[devices] = needed.get(devices, 0) + request["exactly"]["count"]
    for container in (template.get("spec") or {}).get("containers", ()):
        resources = container.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, text in (resources.get(kind) or {}).items():
                amount = _parse_amount(name, text)
                if amount is None:
                    continue
                for counted in (f"{kind}.{name}", *((name,) if kind == "requests" else ())):
                    needed[counted] = needed.get(counted, 0) + amount
    return needed


def _parse_amount(name: str, text: object) -> int | None:
    try:
        return parse_cpu_millis(str(text)) if _is_cpu(name) else parse_memory_bytes(str(text))
    except QuantityError:
        return None


def _is_cpu(name: str) -> bool:
    return name.rpartition(".")[2] == "cpu"


def _format_amount(name: str, amount: int, of_memory: Callable[[int], str] = memory_there) -> str:
    if _is_cpu(name):
        return format_cpu(amount)
    return of_memory(amount) if name.rpartition(".")[2] == "memory" else str(amount)
