"""Rules between fields of one object, by type: fields that exclude, require or limit each other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_found, not_supported, required
from kajitori.embedded.apiserver.schemas.quantities import NANO, parse_nano
from kajitori.embedded.apiserver.validation import resources

Value = dict[str, Any]
Rule = Callable[[Value, str], Iterator[Cause]]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_POD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_SUBSCRIPT = re.compile(r"metadata\.(?:labels|annotations)\['(.*)'\]")
_RESOURCE_FIELDS = tuple(f"{part}.{name}" for part in ("limits", "requests") for name in resources.COMPUTE)


# -- Containers


def _container_faults(container: Value, path: str) -> Iterator[Cause]:
    privileged = bool((container.get("securityContext") or {}).get("privileged"))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("subPath") and mount.get("subPathExpr"):
            where = f"{path}.volumeMounts[{index}].subPathExpr"
            yield invalid(where, mount["subPathExpr"], "may not be specified together with subPath")
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            where = f"{path}.volumeMounts[{index}].mountPropagation"
            yield forbidden(where, "only privileged containers may propagate mounts to the host")
    for name in _PROBES:
        if name in container:
            yield from _probe_faults(name, container[name], f"{path}.{name}")


def _probe_faults(name: str, probe: Value, path: str) -> Iterator[Cause]:
    grace, is_readiness = probe.get("terminationGracePeriodSeconds"), name == "readinessProbe"
    if grace is not None and (is_readiness or grace <= 0):
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be positive; not for readiness probes")
    if not is_readiness and probe.get("successThreshold", 1) != 1:
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _env_var(variable: Value, path: str) -> Iterator[Cause]:
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield invalid(f"{path}.valueFrom", "", "may not be specified together with value")
    reference = source.get("fieldRef") or {}
    field, version = reference.get("fieldPath", ""), reference.get("apiVersion", "v1")
    subscript, where = _SUBSCRIPT.fullmatch(field), f"{path}.valueFrom.fieldRef.fieldPath"
    if version != "v1":
        yield invalid(where, field, f"there is no version {version} of Pod")
    elif subscript is not None:
        yield from (invalid(where, subscript[1], fault) for fault in texts.qualified_name(subscript[1]))
    elif field and field not in _POD_FIELDS:
        yield not_supported(where, field, _POD_FIELDS)


def _resource_field(selector: Value, path: str) -> Iterator[Cause]:
    name = selector.get("resource", "")
    if name and name not in _RESOURCE_FIELDS and ".hugepages-" not in name:
        yield not_supported(f"{path}.resource", name, _RESOURCE_FIELDS)


def _security_context(context: Value, path: str) -> Iterator[Cause]:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        yield invalid(f"{path}.allowPrivilegeEscalation", False, "must be true for a privileged container")
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
        yield invalid(f"{path}.allowPrivilegeEscalation", False, "must be true with the capability CAP_SYS_ADMIN")


def _seccomp_faults(profile: Value, path: str) -> Iterator[Cause]:
    local = profile.get("type") == "Localhost"
    if local and not profile.get("localhostProfile"):
        yield required(f"{path}.localhostProfile", "must be set when type is Localhost")
    elif not local and profile.get("localhostProfile"):
        yield invalid(f"{path}.localhostProfile", profile["localhostProfile"], "only for type Localhost")


# -- Pods


def _pod_faults(spec: Value, path: str) -> Iterator[Cause]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    seen: set[str] = set()
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(part) or []):
            where, name = f"{path}.{part}[{index}]", container.get("name")
            if name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
            for position, mount in enumerate(container.get("volumeMounts") or []):
                if mount.get("name") not in volumes:
                    yield not_found(f"{where}.volumeMounts[{position}].name", mount.get("name", ""))
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                for field in ("lifecycle", *_PROBES):
                    if field in container:
                        yield forbidden(f"{where}.{field}", "only for init containers with restartPolicy Always")
    yield from _host_ports(spec, path)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.shareProcessNamespace", True, "may not be enabled together with hostPID")
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        yield required(f"{path}.dnsConfig.nameservers", "must be given when dnsPolicy is None")


def _host_ports(spec: Value, path: str) -> Iterator[Cause]:
    taken: set[tuple[str, str, int]] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or []):
            for position, port in enumerate(container.get("ports") or []):
                number, where = port.get("hostPort"), f"{path}.{part}[{index}].ports[{position}].hostPort"
                if not number:
                    continue
                if spec.get("hostNetwork") and number != port.get("containerPort"):
                    yield invalid(where, number, "must match containerPort when hostNetwork is true")
                key = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
                if part == "containers" and key in taken:
                    yield duplicate(where, number)
                taken.add(key)


def _toleration_faults(toleration: Value, path: str) -> Iterator[Cause]:
    operator = toleration.get("operator", "Equal")
    if not toleration.get("key") and operator != "Exists":
        yield invalid(f"{path}.operator", operator, "must be Exists when key is empty, which means every taint")
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield invalid(f"{path}.effect", toleration.get("effect", ""), "must be NoExecute when tolerationSeconds is set")
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{path}.value", toleration["value"], "must be empty when operator is Exists")


def _node_term(term: Value, path: str) -> Iterator[Cause]:
    for index, wanted in enumerate(term.get("matchExpressions") or []):
        where = f"{path}.matchExpressions[{index}]"
        yield from _operator_faults(wanted, where, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        key = wanted.get("key", "")
        yield from (invalid(f"{where}.key", key, fault) for fault in texts.qualified_name(key) if key)
    for index, wanted in enumerate(term.get("matchFields") or []):
        where, values = f"{path}.matchFields[{index}]", wanted.get("values") or []
        yield from _operator_faults(wanted, where, ("In", "NotIn"))
        if len(values) > 1:
            yield required(f"{where}.values", "must be one value")
        if wanted.get("key") != "metadata.name":
            yield not_supported(f"{where}.key", wanted.get("key", ""), ("metadata.name",))
        else:
            yield from (invalid(f"{where}.values", one, fault) for one in values for fault in texts.dns_subdomain(one))


def _operator_faults(wanted: Value, path: str, allowed: tuple[str, ...]) -> Iterator[Cause]:
    operator, values = wanted.get("operator", ""), wanted.get("values") or []
    if operator not in allowed:
        yield not_supported(f"{path}.operator", operator, allowed)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", f"may not be specified when operator is {operator}")
    elif not values or (operator in ("Gt", "Lt") and len(values) != 1):
        yield required(f"{path}.values", f"must be specified when operator is {operator}")


def _selector_requirement(wanted: Value, path: str) -> Iterator[Cause]:
    yield from _operator_faults(wanted, path, ("In", "NotIn", "Exists", "DoesNotExist"))


# -- Storage


def _claim_faults(spec: Value, path: str) -> Iterator[Cause]:
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        yield required(f"{path}.resources.requests.storage")
    elif parse_nano(amount) <= 0:
        yield invalid(f"{path}.resources.requests.storage", amount, "must be greater than zero")
    modes = spec.get("accessModes") or []
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    for name in ("dataSource", "dataSourceRef"):
        source = spec.get(name)
        if source and not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
            yield invalid(f"{path}.{name}", source.get("kind", ""), "must be PersistentVolumeClaim without an apiGroup")


def _volume_faults(spec: Value, path: str) -> Iterator[Cause]:
    capacity = spec.get("capacity") or {}
    if capacity and set(capacity) != {"storage"}:
        yield not_supported(f"{path}.capacity", list(capacity), ("storage",))
    for name, amount in capacity.items():
        if parse_nano(amount) <= 0:
            yield invalid(f"{path}.capacity[{name}]", amount, "must be greater than zero")
    if "local" in spec and not (spec.get("nodeAffinity") or {}).get("required"):
        yield required(f"{path}.nodeAffinity", "must be given for a local volume")


# -- Networking


def _network_policy(spec: Value, path: str) -> Iterator[Cause]:
    if len(spec.get("policyTypes") or []) > 2:
        yield invalid(f"{path}.policyTypes", spec["policyTypes"], "must not have more than 2 items")


def _network_port(port: Value, path: str) -> Iterator[Cause]:
    first, last = port.get("port"), port.get("endPort")
    if last is not None and (not isinstance(first, int) or last < first):
        yield invalid(f"{path}.endPort", last, "needs a port that is a number and not greater")


def _network_peer(peer: Value, path: str) -> Iterator[Cause]:
    if not any(peer.get(name) is not None for name in ("podSelector", "namespaceSelector", "ipBlock")):
        yield required(path, "must specify podSelector, namespaceSelector or ipBlock")
    elif peer.get("ipBlock") is not None and len([one for one in peer.values() if one is not None]) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _address_block(block: Value, path: str) -> Iterator[Cause]:
    for index, text in enumerate(block.get("except") or []):
        with suppress(ValueError):  # an invalid range has its own fault
            whole, part = (ipaddress.ip_network(one, strict=False) for one in (block.get("cidr", ""), text))
            if part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
                yield invalid(f"{path}.except[{index}]", text, "must be a strict subset of cidr")


def _endpoint_slice(obj: Value, path: str) -> Iterator[Cause]:
    for index, endpoint in enumerate(obj.get("endpoints") or []) if obj.get("addressType") != "FQDN" else ():
        for position, address in enumerate(endpoint.get("addresses") or []):
            where = f"endpoints[{index}].addresses[{position}]"
            yield from (invalid(where, address, fault) for fault in texts.ip_address(address))


# -- Policies


def _scope_requirement(wanted: Value, path: str) -> Iterator[Cause]:
    operator, values = wanted.get("operator"), wanted.get("values") or []
    if (operator in ("In", "NotIn")) != bool(values):
        yield invalid(f"{path}.values", values, "must be specified for the operators In and NotIn only")
    if wanted.get("scopeName") != "PriorityClass" and operator != "Exists":
        yield invalid(f"{path}.operator", operator, f"must be Exists for the scope {wanted.get('scopeName')}")


def _resource_rule(rule: Value, path: str) -> Iterator[Cause]:
    for name in ("operations", "apiGroups", "apiVersions"):
        words = rule.get(name) or []
        if len(words) > 1 and "*" in words:
            yield invalid(f"{path}.{name}", words, "must not contain other items beside *")
    if "" in (rule.get("apiVersions") or []) or "" in (rule.get("resources") or []):
        yield required(path, "apiVersions and resources must not contain empty items")
    names = rule.get("resourceNames") or []
    if len(set(names)) < len(names):
        yield duplicate(f"{path}.resourceNames", names)
    yield from _resource_patterns(rule.get("resources") or [], f"{path}.resources")


def _resource_patterns(patterns: list[str], path: str) -> Iterator[Cause]:
    """Check that no pattern (`pods`, `pods/status`, `*/*`) is covered by another one."""
    covered: set[str] = set()
    for pattern in patterns:
        resource, slash, part = pattern.partition("/")
        if slash and {f"{resource}/*", f"*/{part}"} & covered:
            yield invalid(path, pattern, "is covered by another item")
        covered.add(pattern)
    # As in kube-apiserver, "*" is allowed behind the resources that it covers.
    plain = [pattern for pattern in patterns if "/" not in pattern]
    if (len(patterns) > 1 and "*/*" in patterns) or ("*" in plain and plain[-1] != "*"):
        yield invalid(path, patterns, "must not contain other items beside * or */*")


def _node_status(status: Value, path: str) -> Iterator[Cause]:
    for part in ("capacity", "allocatable"):
        for name, amount in (status.get(part) or {}).items():
            where = f"{path}.{part}[{name}]"
            yield from (invalid(where, name, fault) for fault in texts.qualified_name(name))
            if parse_nano(amount) < 0:
                yield invalid(where, amount, "must be greater than or equal to 0")
            elif "/" in name and parse_nano(amount) % NANO:
                yield invalid(where, amount, "must be an integer")


COMBINATIONS: dict[str, tuple[Rule, ...]] = {
    "Container": (_container_faults,),
    "EnvVar": (_env_var,),
    "ResourceFieldSelector": (_resource_field,),
    "SecurityContext": (_security_context,),
    "SeccompProfile": (_seccomp_faults,),
    "ResourceRequirements": (resources.requirement_faults,),
    "PodSpec": (_pod_faults,),
    "Toleration": (_toleration_faults,),
    "NodeSelectorTerm": (_node_term,),
    "LabelSelectorRequirement": (_selector_requirement,),
    "PersistentVolumeClaimSpec": (_claim_faults,),
    "PersistentVolumeSpec": (_volume_faults,),
    "NetworkPolicySpec": (_network_policy,),
    "NetworkPolicyPort": (_network_port,),
    "NetworkPolicyPeer": (_network_peer,),
    "IPBlock": (_address_block,),
    "EndpointSlice": (_endpoint_slice,),
    "ScopedResourceSelectorRequirement": (_scope_requirement,),
    "NodeStatus": (_node_status,),
    "NamedRuleWithOperations": (_resource_rule,),
}
"""Rules by the name of the type that they are about; each yields the faults of one object."""
