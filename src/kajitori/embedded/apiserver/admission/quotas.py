"""ResourceQuota: what an object counts for, the current use of a quota, and what would exceed it (pkg/quota/v1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kajitori.embedded.apiserver.admission import pod_resources
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas.quantities import NANO, form_of, format_nano, parse_nano
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.pods import qos_class
from kajitori.embedded.apiserver.validation.resources import COMPUTE, is_extended
from kajitori.kube.resources import Resource

Usage = dict[str, int]
"""Amounts by resource, in 10^-9 of its unit."""

_COUNTED = frozenset({"pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"})
"""Kinds of the core group that are counted under their plural."""
_MUST_SPECIFY = frozenset(f"{part}{name}" for part in ("", "requests.", "limits.") for name in COMPUTE)


def usage(resource: Resource, obj: Object) -> Usage:
    """Return what one object counts for, under every name that a quota may have for it."""
    counted: Usage = {count_name(resource): NANO}
    short = resource.plural if resource.group == "" and resource.plural in _COUNTED else None
    if resource.group == "" and resource.plural == "pods":
        if is_over(obj):
            return counted
        counted["pods"] = NANO
        counted.update(_pod_usage(obj.get("spec") or {}))
        return counted
    if short is not None:
        counted[short] = NANO
    if short == "services":
        kind = (obj.get("spec") or {}).get("type")
        if kind in ("NodePort", "LoadBalancer"):
            counted["services.nodeports"] = NANO * len((obj.get("spec") or {}).get("ports") or [])
        if kind == "LoadBalancer":
            counted["services.loadbalancers"] = NANO
    if short == "persistentvolumeclaims":
        counted.update(_claim_usage(obj.get("spec") or {}))
    return counted


def count_name(resource: Resource) -> str:
    """Return the name that counts objects of any kind: `count/pods`, `count/runs.kajitori.dev`."""
    return f"count/{resource.plural}.{resource.group}" if resource.group else f"count/{resource.plural}"


def may_count(resource: Resource, name: str) -> bool:
    """Return whether objects of a resource count for a name in a quota."""
    if name.startswith("count/"):
        return name == count_name(resource)
    owner = "pods"
    if name in _COUNTED:
        owner = name
    elif name.startswith("services."):
        owner = "services"
    elif name == "requests.storage" or ".storageclass.storage.k8s.io/" in name:
        owner = "persistentvolumeclaims"
    return resource.group == "" and resource.plural == owner


def is_over(pod: Object) -> bool:
    """Return whether a Pod has ended: it no longer counts."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _pod_usage(spec: dict[str, Any]) -> Usage:
    counted: Usage = {}
    for name, amount in pod_resources.of_pod(spec, "requests").items():
        counted[f"requests.{name}"] = amount
        if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
            counted[name] = amount
    for name, amount in pod_resources.of_pod(spec, "limits").items():
        if not is_extended(name):
            counted[f"limits.{name}"] = amount
    return counted


def _claim_usage(spec: dict[str, Any]) -> Usage:
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    counted = {"requests.storage": parse_nano(text)}
    name = spec.get("storageClassName")
    if name:
        counted[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = NANO
        counted[f"{name}.storageclass.storage.k8s.io/requests.storage"] = counted["requests.storage"]
    return counted


def matches(quota: Object, resource: Resource, obj: Object) -> bool:
    """Return whether a quota's scopes cover an object. Scopes are about Pods."""
    spec = quota.get("spec") or {}
    wanted = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or []]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not wanted:
        return True
    if (resource.group, resource.plural) != ("", "pods"):
        return False
    return all(_in_scope(one, obj.get("spec") or {}) for one in wanted)


def _in_scope(wanted: dict[str, Any], spec: dict[str, Any]) -> bool:
    scope, operator, values = wanted.get("scopeName"), wanted.get("operator"), wanted.get("values") or []
    if scope in ("Terminating", "NotTerminating"):
        return bool((spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating"))
    if scope in ("BestEffort", "NotBestEffort"):
        return bool((qos_class(spec) == "BestEffort") == (scope == "BestEffort"))
    if scope == "PriorityClass":
        name = spec.get("priorityClassName", "")
        if operator == "In":
            return name in values
        if operator == "NotIn":
            return name not in values
        return bool(name) == (operator == "Exists")
    return False


def total(quota: Object, objects: Iterable[tuple[Resource, Object]]) -> Usage:
    """Return the use of a quota's hard limits by the objects of a namespace."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    used = dict.fromkeys(hard, 0)
    for resource, obj in objects:
        if matches(quota, resource, obj):
            counted = usage(resource, obj)
            for name in used.keys() & counted.keys():
                used[name] += counted[name]
    return used


def status_of(quota: Object, used: Usage) -> dict[str, Any]:
    """Return the status of a quota."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    return {"hard": dict(hard), "used": {name: _quantity_text(used.get(name, 0), hard[name]) for name in hard}}


_ledger: dict[str, Usage] = {}
"""Cached use of each quota, by its uid, so that a burst of Pods is not counted again for each Pod."""


def cache_usage(quota: Object, used: Usage) -> None:
    """Cache the use of a quota until its status says something else."""
    uid = quota["metadata"].get("uid")
    if uid:
        _ledger[uid] = used


def forget(quota: Object) -> None:
    """Drop a deleted quota from the cache."""
    _ledger.pop(quota["metadata"].get("uid", ""), None)


def cached_usage(quota: Object) -> Usage | None:
    """Return the cached use of a quota, or None if it has to be counted.

    The cache counts only if it agrees with the stored status. It does not agree after a client wrote the status, or
    after a change was undone because it could not be made durable.
    """
    used = _ledger.get(quota["metadata"].get("uid", ""))
    return used if used is not None and quota.get("status") == status_of(quota, used) else None


def changed(quota: Object, used: Usage, resource: Resource, old: Object | None, new: Object | None) -> Usage:
    """Return the use of a quota after `old` became `new`."""
    after = dict(used)
    for obj, sign in ((old, -1), (new, 1)):
        if obj is not None and matches(quota, resource, obj):
            for name, amount in usage(resource, obj).items():
                if name in after:
                    after[name] += sign * amount
    return after


def concerns(quota: Object, counted: Usage) -> bool:
    """Return whether a quota limits anything that an object counts for."""
    return bool(((quota.get("spec") or {}).get("hard") or {}).keys() & counted.keys())


def excess(quota: Object, used: Usage, more: Usage) -> str:
    """Return why `more` on top of `used` exceeds a quota; empty if it does not."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    over = sorted(
        name
        for name, amount in more.items()
        if name in hard and amount > 0 and used[name] + amount > parse_nano(hard[name])
    )
    if not over:
        return ""
    requested = ",".join(f"{name}={_quantity_text(more[name], hard[name])}" for name in over)
    in_use = ",".join(f"{name}={_quantity_text(used[name], hard[name])}" for name in over)
    limited = ",".join(f"{name}={hard[name]}" for name in over)
    name = quota["metadata"]["name"]
    return f"exceeded quota: {name}, requested: {requested}, used: {in_use}, limited: {limited}"


def _quantity_text(nano: int, like: str) -> str:
    form = form_of(like)
    return format_nano(nano, "decimal" if form == "exponent" else form)


def missing_requests(quota: Object, pod: Object) -> str:
    """Return the reason for which a quota refuses a Pod: its containers do not state every resource that the quota
    limits. Empty if they do."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    missing: list[str] = []
    spec = pod.get("spec") or {}
    for name in sorted(hard):
        if name not in _MUST_SPECIFY:
            continue
        which, _, resource = name.rpartition(".") if "." in name else ("requests", "", name)
        if resource in ((spec.get("resources") or {}).get(which) or {}):
            continue
        lacking = [
            one.get("name", "")
            for part in ("containers", "initContainers")
            for one in spec.get(part) or []
            if resource not in ((one.get("resources") or {}).get(which) or {})
        ]
        if lacking:
            missing.append(f"{name} for: {','.join(sorted(lacking))}")
    if not missing:
        return ""
    return f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(missing)}"


def is_counted(kind: Kind) -> bool:
    """Return whether quotas can count objects of a kind: every namespaced kind."""
    return kind.resource.namespaced and not kind.virtual
