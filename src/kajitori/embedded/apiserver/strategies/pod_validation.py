"""What may stand in a Pod's spec; order and messages as k8s.io/kubernetes/pkg/apis/core/validation has them."""

from __future__ import annotations

import re
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.metadata import validate_labels
from kajitori.embedded.apiserver.strategies import pod_placement
from kajitori.embedded.apiserver.strategies.container_validation import (
    validate_containers,
    validate_resources,
    validate_seccomp,
)
from kajitori.embedded.apiserver.strategies.pod_volumes import validate_volumes

Spec = dict[str, Any]
_MAX_ID = 2147483647
_POLICIES: dict[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"


def validate_spec(spec: Spec, field: str) -> list[Cause]:
    """Every fault of a Pod's spec that one sees without other objects."""
    causes = validate_volumes(spec.get("volumes") or [], f"{field}.volumes")
    causes += validate_containers(spec, field)
    causes += validate_resources(spec.get("resources") or {}, f"{field}.resources", whole_pod=True)
    causes += _policies(spec, field)
    causes += validate_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    causes += _security(spec.get("securityContext") or {}, f"{field}.securityContext")
    causes += _namespaces_of_host(spec, field)
    causes += pod_placement.validate_affinity(spec.get("affinity") or {}, f"{field}.affinity")
    causes += _dns(spec, field)
    causes += _gates(spec, field)
    causes += pod_placement.validate_spread(spec.get("topologySpreadConstraints") or [], field)
    causes += _names(spec, field)
    causes += pod_placement.validate_tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    causes += _aliases(spec.get("hostAliases") or [], f"{field}.hostAliases")
    causes += _tokens(spec, field)
    return causes


def _policies(spec: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, allowed in _POLICIES.items():
        if not spec.get(name):
            causes.append(required(f"{field}.{name}"))
        elif spec[name] not in allowed:
            causes.append(not_supported(f"{field}.{name}", spec[name], allowed))
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        causes.append(required(f"{field}.terminationGracePeriodSeconds"))
    elif grace < 0:
        causes.append(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_ID:
        detail = f"must be between 1 and {_MAX_ID}, inclusive"
        causes.append(invalid(f"{field}.activeDeadlineSeconds", deadline, detail))
    if spec.get("preemptionPolicy") not in (None, "PreemptLowerPriority", "Never"):
        given = spec["preemptionPolicy"]
        causes.append(not_supported(f"{field}.preemptionPolicy", given, ("PreemptLowerPriority", "Never")))
    system = (spec.get("os") or {}).get("name")
    if spec.get("os") is not None and system not in ("linux", "windows"):
        causes.append(not_supported(f"{field}.os", system or "", ("linux", "windows")))
    return causes


def _names(spec: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, rule in (
        ("serviceAccountName", texts.dns_subdomain),
        ("nodeName", texts.dns_subdomain),
        ("hostname", texts.dns_label),
        ("subdomain", texts.dns_label),
        ("runtimeClassName", texts.dns_subdomain),
        ("priorityClassName", texts.dns_subdomain),
    ):
        value = spec.get(name)
        if value:
            causes += [invalid(f"{field}.{name}", value, fault) for fault in rule(value)]
    return causes


def _security(context: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        causes += _user_id(context.get(name), f"{field}.{name}")
    for index, group in enumerate(context.get("supplementalGroups") or []):
        causes += _user_id(group, f"{field}.supplementalGroups[{index}]")
    seen: set[str] = set()
    for index, one in enumerate(context.get("sysctls") or []):
        name, where = one.get("name", ""), f"{field}.sysctls[{index}].name"
        if not name:
            causes.append(required(where))
        elif len(name) > 253 or not re.fullmatch(_SYSCTL, name):
            causes.append(invalid(where, name, f"must have at most 253 characters and match regex {_SYSCTL}"))
        elif name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    policy = context.get("fsGroupChangePolicy")
    if policy not in (None, "OnRootMismatch", "Always"):
        causes.append(not_supported(f"{field}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    return causes + validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")


def _user_id(value: int | None, field: str) -> list[Cause]:
    if value is not None and not 0 <= value <= _MAX_ID:
        return [invalid(field, value, f"must be between 0 and {_MAX_ID}, inclusive")]
    return []


def _namespaces_of_host(spec: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{field}.securityContext.shareProcessNamespace", True, detail))
    if spec.get("hostUsers") is False:
        for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                causes.append(forbidden(f"{field}.{shown}", "when `hostUsers` is false"))
    return causes


def _dns(spec: Spec, field: str) -> list[Cause]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        if config is None:
            return [required(f"{field}.dnsConfig", f"must provide `dnsConfig` when `dnsPolicy` is {spec['dnsPolicy']}")]
        return [required(f"{field}.dnsConfig.nameservers", detail)]
    if config is None:
        return []
    causes: list[Cause] = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        causes.append(invalid(f"{field}.dnsConfig.nameservers", servers, "must not have more than 3 nameservers"))
    for index, one in enumerate(servers):
        where = f"{field}.dnsConfig.nameservers[{index}]"
        causes += [invalid(where, one, fault) for fault in texts.ip_address(one)]
    if len(searches) > 32:
        causes.append(invalid(f"{field}.dnsConfig.searches", searches, "must not have more than 32 search paths"))
    for index, one in enumerate(searches):
        if one != ".":
            where, bare = f"{field}.dnsConfig.searches[{index}]", one.removesuffix(".")
            causes += [invalid(where, bare, fault) for fault in texts.dns_subdomain_with_underscore(bare)]
    for index, option in enumerate(config.get("options") or []):
        if not option.get("name"):
            causes.append(required(f"{field}.dnsConfig.options[{index}]", "must not be empty"))
    return causes


def _gates(spec: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, gate in enumerate(spec.get("readinessGates") or []):
        kind = gate.get("conditionType", "")
        where = f"{field}.readinessGates[{index}].conditionType"
        causes += [invalid(where, kind, fault) for fault in texts.qualified_name(kind)]
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        name, where = gate.get("name", ""), f"{field}.schedulingGates[{index}]"
        causes += [invalid(where, name, fault) for fault in texts.qualified_name(name)]
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    return causes


def _aliases(aliases: list[Spec], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, alias in enumerate(aliases):
        ip = alias.get("ip", "")
        causes += [invalid(f"{field}[{index}].ip", ip, fault) for fault in texts.ip_address(ip)]
        for position, name in enumerate(alias.get("hostnames") or []):
            where = f"{field}[{index}].hostnames[{position}]"
            causes += [invalid(where, name, fault) for fault in texts.dns_subdomain(name)]
    return causes


def _tokens(spec: Spec, field: str) -> list[Cause]:
    """A projected token needs somebody whose token it is."""
    if spec.get("serviceAccountName"):
        return []
    causes: list[Cause] = []
    for index, volume in enumerate(spec.get("volumes") or []):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or []):
            if "serviceAccountToken" in source:
                where = f"{field}.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                causes.append(forbidden(where, "must not be specified when serviceAccountName is not set"))
    return causes
