"""Affinity, tolerations and topology spread of Pods."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.strategies.selectors import label_selector

Spec = dict[str, Any]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"


def validate_affinity(affinity: Spec, field: str) -> list[Cause]:
    """Every fault of a Pod's affinity."""
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        needed = node.get(_REQUIRED)
        if needed is not None:
            causes += validate_node_selector(needed, f"{field}.nodeAffinity.{_REQUIRED}")
        for index, term in enumerate(node.get(_PREFERRED) or []):
            where = f"{field}.nodeAffinity.{_PREFERRED}[{index}]"
            if not 1 <= term.get("weight", 0) <= 100:
                causes.append(invalid(f"{where}.weight", term.get("weight", 0), _WEIGHT))
            causes += _node_term(term.get("preference") or {}, f"{where}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name) or {}
        for index, term in enumerate(part.get(_REQUIRED) or []):
            causes += _pod_term(term, f"{field}.{name}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(part.get(_PREFERRED) or []):
            where = f"{field}.{name}.{_PREFERRED}[{index}]"
            if not 1 <= weighted.get("weight", 0) <= 100:
                causes.append(invalid(f"{where}.weight", weighted.get("weight", 0), _WEIGHT))
            causes += _pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return causes


def validate_node_selector(selector: Spec, field: str) -> list[Cause]:
    """Every fault of a NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    return [one for i, term in enumerate(terms) for one in _node_term(term, f"{field}.nodeSelectorTerms[{i}]")]


def _node_term(term: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, one in enumerate(term.get("matchExpressions") or []):
        causes += _node_requirement(one, f"{field}.matchExpressions[{index}]")
    for index, one in enumerate(term.get("matchFields") or []):
        causes += _field_requirement(one, f"{field}.matchFields[{index}]")
    return causes


def _node_requirement(one: Spec, field: str) -> list[Cause]:
    operator, values, key = one.get("operator", ""), one.get("values") or [], one.get("key", "")
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{field}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{field}.values", detail))
    else:
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return causes + [invalid(f"{field}.key", key, fault) for fault in texts.qualified_name(key)]


def _field_requirement(one: Spec, field: str) -> list[Cause]:
    operator, values, key = one.get("operator", ""), one.get("values") or [], one.get("key", "")
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{field}.values", detail))
    else:
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    if key != "metadata.name":
        causes.append(invalid(f"{field}.key", key, "not a valid field selector key"))
    elif len(values) == 1:
        causes += [invalid(f"{field}.values[0]", values[0], fault) for fault in texts.dns_subdomain(values[0])]
    return causes


def _pod_term(term: Spec, field: str) -> list[Cause]:
    causes = label_selector(term.get("labelSelector") or {}, f"{field}.labelSelector")
    causes += label_selector(term.get("namespaceSelector") or {}, f"{field}.namespaceSelector")
    for index, namespace in enumerate(term.get("namespaces") or []):
        where = f"{field}.namespaces[{index}]"
        causes += [invalid(where, namespace, fault) for fault in texts.dns_label(namespace)]
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    return causes + [invalid(f"{field}.topologyKey", key, fault) for fault in texts.qualified_name(key)]


def validate_tolerations(tolerations: list[Spec], field: str) -> list[Cause]:
    """Every fault of a list of tolerations."""
    causes: list[Cause] = []
    for index, one in enumerate(tolerations):
        where = f"{field}[{index}]"
        key, operator, value = one.get("key", ""), one.get("operator", ""), one.get("value", "")
        effect, seconds = one.get("effect", ""), one.get("tolerationSeconds")
        if key:
            causes += [invalid(f"{where}.key", key, fault) for fault in texts.qualified_name(key)]
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid(f"{where}.operator", operator, detail))
        if seconds is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid(f"{where}.effect", effect, detail))
        if operator in ("", "Equal"):
            causes += [invalid(f"{where}.operator", value, fault) for fault in texts.label_value(value)]
        elif operator == "Exists":
            if value:
                causes.append(invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            causes.append(not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
    return causes


def validate_spread(constraints: list[Spec], field: str) -> list[Cause]:
    """Every fault of a Pod's topology spread constraints."""
    causes: list[Cause] = []
    pairs = [(one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")) for one in constraints]
    for index, one in enumerate(constraints):
        where = f"{field}.topologySpreadConstraints[{index}]"
        key, action = one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")
        if one.get("maxSkew", 0) <= 0:
            causes.append(invalid(f"{where}.maxSkew", one.get("maxSkew", 0), "must be greater than zero"))
        if not key:
            causes.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            allowed = ("DoNotSchedule", "ScheduleAnyway")
            causes.append(not_supported(f"{where}.whenUnsatisfiable", action, allowed))
        if (key, action) in pairs[index + 1 :]:
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        domains = one.get("minDomains")
        if domains is not None and domains <= 0:
            causes.append(invalid(f"{where}.minDomains", domains, "must be greater than zero"))
        causes += label_selector(one.get("labelSelector") or {}, f"{where}.labelSelector")
    return causes
