"""ResourceQuota, LimitRange, PodDisruptionBudget, PriorityClass and Lease."""

from __future__ import annotations

from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required
from kajitori.embedded.apiserver.schemas.quantities import NANO, parse_nano
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy
from kajitori.embedded.apiserver.validation.resources import is_extended, is_quota_name, name_faults

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_BOUNDS = ("min", "defaultRequest", "default", "max")
"""Bounds of one resource in a LimitRange, in ascending order."""
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_POD_RESOURCES = frozenset({"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


class QuotaStrategy(Strategy):
    has_status = True
    first_status: ClassVar = {}

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        spec = new["spec"]
        hard = spec.get("hard") or {}
        causes = [cause for name, amount in hard.items() for cause in _amount_faults(name, amount)]
        selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
        for field, scopes in (
            ("spec.scopes", spec.get("scopes") or []),
            ("spec.scopeSelector.matchExpressions", [one.get("scopeName", "") for one in selector]),
        ):
            if any(pair <= set(scopes) for pair in _OPPOSITES):
                causes.append(invalid(field, scopes, "conflicting scopes"))
            for scope in scopes:
                allowed = {"pods"} if scope == "BestEffort" else _POD_RESOURCES
                unfit = [name for name in hard if is_quota_name(name) and name not in allowed]
                if unfit:
                    causes.append(invalid(field, scopes, f"the scope {scope} does not apply to {', '.join(unfit)}"))
        if old is not None and set(spec.get("scopes") or []) != set((old.get("spec") or {}).get("scopes") or []):
            causes.append(invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
        return causes


def _amount_faults(resource: str, amount: str) -> list[Cause]:
    where = f"spec.hard[{resource}]"
    causes = [invalid(where, resource, fault) for fault in texts.qualified_name(resource)]
    if "/" not in resource and not is_quota_name(resource):
        causes.append(invalid(where, resource, "must be a standard resource for quotas or fully qualified"))
    nano = parse_nano(amount)
    if nano < 0:
        causes.append(invalid(where, amount, "must be greater than or equal to 0"))
    whole = resource in ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims") or "/" in resource
    if whole and nano % NANO:
        causes.append(invalid(where, amount, "must be an integer"))
    return causes


class LimitRangeStrategy(Strategy):
    def complete(self, obj: Object) -> None:
        for limit in obj["spec"].get("limits") or []:
            if limit.get("type") == "Container":
                # As SetDefaults_LimitRangeItem: max is the default of default, which is the default of defaultRequest.
                for source, target in (("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")):
                    for resource, amount in (limit.get(source) or {}).items():
                        limit.setdefault(target, {}).setdefault(resource, amount)

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        limits = enumerate(new["spec"].get("limits") or [])
        return [cause for index, limit in limits for cause in _limit_faults(limit, f"spec.limits[{index}]")]


def _limit_faults(limit: dict[str, Any], where: str) -> list[Cause]:
    kind = limit.get("type", "")
    causes = [invalid(f"{where}.type", kind, fault) for fault in texts.qualified_name(kind)]
    if not causes and kind not in _LIMIT_TYPES and "/" not in kind:
        causes.append(invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified"))
    parts = {name: limit.get(name) or {} for name in (*_BOUNDS, "maxLimitRequestRatio")}
    if kind == "Pod":
        unfit = [name for name in ("default", "defaultRequest") if parts.pop(name)]
        causes += [forbidden(f"{where}.{name}", "may not be specified when `type` is 'Pod'") for name in unfit]
    of_container = kind in ("Pod", "Container")
    for part, amounts in parts.items():
        for resource in amounts:
            causes += name_faults(resource, f"{where}.{part}[{resource}]", of_container=of_container)
    if kind == "PersistentVolumeClaim" and "storage" not in parts["min"] and "storage" not in parts["max"]:
        causes.append(required(f"{where}.limits", "min or max must have an amount of storage"))
    for resource in sorted({name for amounts in parts.values() for name in amounts}):
        nano = {part: parse_nano(amounts[resource]) for part, amounts in parts.items() if resource in amounts}
        causes += _bound_faults(resource, nano, where)
    return causes


def _bound_faults(resource: str, nano: dict[str, int], where: str) -> list[Cause]:
    """Return the contradictions between the bounds of one resource; `nano` has the bounds that are given."""
    causes: list[Cause] = []
    given = [name for name in _BOUNDS if name in nano]
    for index, low in enumerate(given):
        above = [high for high in given[index + 1 :] if nano[low] > nano[high]]
        causes += [forbidden(f"{where}.{low}[{resource}]", f"must not be greater than {high}") for high in above]
    ratio, field = nano.get("maxLimitRequestRatio"), f"{where}.maxLimitRequestRatio[{resource}]"
    if ratio is not None and ratio < NANO:
        causes.append(forbidden(field, "must not be less than 1"))
    if ratio is not None and nano.get("min") and "max" in nano and ratio * nano["min"] > nano["max"] * NANO:
        causes.append(forbidden(field, "must not be greater than max divided by min"))
    if is_extended(resource) and "default" in nano and nano.get("defaultRequest", nano["default"]) != nano["default"]:
        causes.append(forbidden(f"{where}.defaultRequest[{resource}]", "must be equal to default"))
    return causes


class DisruptionBudgetStrategy(Strategy):
    name_rule = staticmethod(texts.path_segment)
    has_status = True
    first_status: ClassVar = dict.fromkeys(_COUNTS, 0)
    has_generation = True

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        new["status"] = {**dict.fromkeys(_COUNTS, 0), **(new.get("status") or {})}

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        counts = {name: (new.get("status") or {}).get(name, 0) for name in _COUNTS}
        detail = "must be greater than or equal to 0"
        return [invalid(f"status.{name}", count, detail) for name, count in counts.items() if count < 0]


class PriorityClassStrategy(Strategy):
    has_generation = True
    immutable = ("value", "preemptionPolicy")

    def prepare_update(self, new: Object, old: Object) -> None:
        # No relevant field can change, so the generation stays the same.
        if "generation" in old["metadata"]:
            new["metadata"]["generation"] = old["metadata"]["generation"]

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        name, value = new["metadata"].get("name", ""), new.get("value", 0)
        if old is not None:
            return []
        if name.startswith("system-") and SYSTEM_PRIORITIES.get(name) != value:
            return [forbidden("metadata.name", "names that begin with system- are reserved for Kubernetes")]
        if not name.startswith("system-") and value > HIGHEST_USER_PRIORITY:
            return [forbidden("value", f"must be at most {HIGHEST_USER_PRIORITY}")]
        return []


class LeaseStrategy(Strategy):
    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _drop_election(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _drop_election(new)


def _drop_election(lease: Object) -> None:
    """Drop the fields of coordinated leader election, which is off by default in this version of Kubernetes."""
    for name in ("preferredHolder", "strategy"):
        lease["spec"].pop(name, None)
