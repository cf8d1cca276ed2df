"""ResourceQuota, LimitRange, PodDisruptionBudget, PriorityClass and Lease."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.resources import is_extended, is_quota_name, name_faults
from kajitori.embedded.apiserver.validation.validate import validate

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_ORDERED = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)
"""(low, high, at, value): the bound `low` must not exceed the bound `high`; the message names the field of `at` and
shows the value of `value`."""
_SAID = {
    "min": "min value",
    "defaultRequest": "default request value",
    "default": "default value",
    "max": "max value",
}
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_POD_RESOURCES = frozenset({"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_SCOPE_RESOURCES = {
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""Resources that a quota of a scope may limit; other scopes are about `_POD_RESOURCES`."""
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


class QuotaStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        hard = spec.get("hard") or {}
        causes = validate("core_v1", "ResourceQuotaSpec", spec, "spec") + _amounts(hard, "spec.hard")
        selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
        for field, scopes in (
            ("spec.scopes", spec.get("scopes") or []),
            ("spec.scopeSelector.matchExpressions", [one.get("scopeName", "") for one in selector]),
        ):
            if any(pair <= set(scopes) for pair in _OPPOSITES):
                causes.append(invalid(field, scopes, "conflicting scopes"))
            for scope in scopes:
                allowed = _SCOPE_RESOURCES.get(scope, _POD_RESOURCES)
                unfit = [name for name in hard if is_quota_name(name) and name not in allowed]
                if unfit:
                    causes.append(invalid(field, scopes, f"the scope {scope} does not apply to {', '.join(unfit)}"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if sorted((new.get("spec") or {}).get("scopes") or []) != sorted((old.get("spec") or {}).get("scopes") or []):
            causes.append(invalid("spec.scopes", (new.get("spec") or {}).get("scopes"), "field is immutable"))
        return causes


def _amounts(amounts: dict[str, str], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for resource, amount in amounts.items():
        where = f"{field}[{resource}]"
        causes += [invalid(where, resource, fault) for fault in texts.qualified_name(resource)]
        if "/" not in resource and not is_quota_name(resource):
            causes.append(invalid(where, resource, "must be a standard resource for quotas or fully qualified"))
        nano = quantities.parse_nano(amount)
        if nano < 0:
            causes.append(invalid(where, amount, "must be greater than or equal to 0"))
        whole = resource in ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims") or "/" in resource
        if whole and nano % quantities.NANO:
            causes.append(invalid(where, amount, "must be an integer"))
    return causes


class LimitRangeStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("limits", None)
        for limit in (obj.get("spec") or {}).get("limits") or []:
            if limit.get("type") != "Container":
                continue
            # As SetDefaults_LimitRangeItem: max is the default of default, which is the default of defaultRequest.
            for resource, amount in (limit.get("max") or {}).items():
                limit.setdefault("default", {}).setdefault(resource, amount)
            for resource, amount in (limit.get("default") or {}).items():
                limit.setdefault("defaultRequest", {}).setdefault(resource, amount)
            for resource, amount in (limit.get("min") or {}).items():
                limit.setdefault("defaultRequest", {}).setdefault(resource, amount)

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = validate("core_v1", "LimitRangeSpec", obj.get("spec"), "spec")
        for index, limit in enumerate((obj.get("spec") or {}).get("limits") or []):
            where = f"spec.limits[{index}]"
            kind = limit.get("type", "")
            faults = [invalid(f"{where}.type", kind, fault) for fault in texts.qualified_name(kind)]
            if not faults and kind not in _LIMIT_TYPES and "/" not in kind:
                faults.append(invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified"))
            causes += faults
            causes += _limit_faults(limit, where)
        return causes


def _limit_faults(limit: dict[str, Any], where: str) -> list[Cause]:
    causes: list[Cause] = []
    kind = limit.get("type", "")
    parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        unused = ("default", "defaultRequest")
        detail = "may not be specified when `type` is 'Pod'"
        causes += [forbidden(f"{where}.{name}", detail) for name in unused if limit.get(name)]
        parts = [name for name in parts if name not in unused]
    for part in parts:
        for resource in limit.get(part) or {}:
            causes += name_faults(resource, f"{where}.{part}[{resource}]", of_container=kind in ("Pod", "Container"))
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(name) or {}) for name in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(required(f"{where}.limits", detail))
    for resource in {name: None for part in parts for name in limit.get(part) or {}}:
        amounts = {part: limit[part][resource] for part in parts if resource in (limit.get(part) or {})}
        causes += _bound_faults(resource, amounts, where)
    return causes


def _bound_faults(resource: str, amounts: dict[str, str], where: str) -> list[Cause]:
    """Return the contradictions between the bounds of one resource; `amounts` has the bounds that are given."""
    causes: list[Cause] = []
    nano = {part: quantities.parse_nano(amount) for part, amount in amounts.items()}
    for low, high, at, value in _ORDERED:
        if low in nano and high in nano and nano[low] > nano[high]:
            detail = f"{_SAID[low]} {amounts[low]} is greater than {_SAID[high]} {amounts[high]}"
            if (low, high) == ("defaultRequest", "default"):
                detail = detail.replace("default value", "default limit value")
            causes.append(invalid(f"{where}.{at}[{resource}]", amounts[value], detail))
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None:
        field = f"{where}.maxLimitRequestRatio[{resource}]"
        if nano["maxLimitRequestRatio"] < quantities.NANO:
            causes.append(invalid(field, ratio, f"ratio {ratio} is less than 1"))
        if nano.get("min") and "max" in nano:
            limit = nano["max"] / nano["min"]
            if nano["maxLimitRequestRatio"] / quantities.NANO > limit:
                causes.append(invalid(field, ratio, f"ratio {ratio} is greater than max/min = {limit:f}"))
    both = nano.get("default"), nano.get("defaultRequest")
    if is_extended(resource) and None not in both and both[0] != both[1]:
        request = amounts["defaultRequest"]
        detail = f"default value {amounts['default']} must equal to defaultRequest value {request} in {resource}"
        causes.append(invalid(f"{where}.defaultRequest[{resource}]", request, detail))
    return causes


class DisruptionBudgetStrategy(Strategy):
    name_rule = staticmethod(texts.path_segment)
    looks_at_metadata = False
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        for name in _COUNTS:
            new.setdefault("status", {}).setdefault(name, 0)

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("policy_v1", "PodDisruptionBudgetSpec", obj.get("spec"), "spec")

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        status = new.get("status") or {}
        return [
            invalid(f"status.{name}", status[name], "must be greater than or equal to 0")
            for name in _COUNTS
            if status.get(name, 0) < 0
        ]


class PriorityClassStrategy(Strategy):
    has_generation = True

    def prepare_update(self, new: Object, old: Object) -> None:
        # No relevant field can change, so the generation stays the same.
        if "generation" in old["metadata"]:
            new["metadata"]["generation"] = old["metadata"]["generation"]

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def validate_create(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if SYSTEM_PRIORITIES.get(name) != value:
                detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
                message = (
                    f"{name} is not a known system priority class"
                    if name not in SYSTEM_PRIORITIES
                    else f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
                )
                causes.append(forbidden("metadata.name", detail + message))
        elif value > HIGHEST_USER_PRIORITY:
            causes.append(
                forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
            )
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        if new.get("value", 0) != old.get("value", 0):
            causes.append(forbidden("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
        return causes


class LeaseStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _drop_election(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _drop_election(new)

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("coordination_v1", "LeaseSpec", obj.get("spec"), "spec")


def _drop_election(lease: Object) -> None:
    """Drop the fields of coordinated leader election, which is off by default in this version of Kubernetes."""
    for name in ("preferredHolder", "strategy"):
        lease["spec"].pop(name, None)
