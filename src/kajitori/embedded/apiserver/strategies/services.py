"""Service, Endpoints and EndpointSlice."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, required
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.validate import validate

_WITH_PORTS = ("NodePort", "LoadBalancer")

Spec = dict[str, Any]


class ServiceStrategy(Strategy):
    """Services. `admission` allocates cluster addresses, since it knows which are taken."""

    has_status = True
    name_rule = staticmethod(texts.dns_label)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        if _is_reachable(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_WITH_PORTS):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        obj.setdefault("status", {}).setdefault("loadBalancer", {})
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for one in (((obj.get("status") or {}).get("loadBalancer")) or {}).get("ingress") or []:
                if one.get("ip"):
                    one.setdefault("ipMode", "VIP")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}
        _drop_internal_policy(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _drop_unused(new["spec"], old["spec"])
        if new["spec"].get("type") != "LoadBalancer":
            new["status"]["loadBalancer"] = {}
        _drop_internal_policy(new["spec"])

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        kind, ports = spec.get("type"), spec.get("ports") or []
        causes = validate("core_v1", "ServiceSpec", spec, "spec")
        if not ports and not _is_headless(spec) and kind != "ExternalName":
            causes.append(required("spec.ports"))
        if kind in _WITH_PORTS and _is_headless(spec):
            causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
        if kind == "ExternalName":
            causes += _external_name(spec)
        causes += cluster_address_faults(spec) + _ports(ports, kind)
        if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
            causes.append(forbidden("spec.allocateLoadBalancerNodePorts", "only for type LoadBalancer"))
        policy = spec.get("externalTrafficPolicy")
        if policy and not _is_reachable(spec):
            causes.append(invalid("spec.externalTrafficPolicy", policy, "only for services reachable from outside"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _changed_addresses(new["spec"], old.get("spec") or {}) + self.validate_create(new)

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        where = "status.loadBalancer.ingress"
        ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        if not ingress:
            return []
        if (new.get("spec") or {}).get("type") != "LoadBalancer":
            return [forbidden(where, "may only be used when `spec.type` is 'LoadBalancer'")]
        causes: list[Cause] = []
        for index, one in enumerate(ingress):
            address = one.get("ip", "")
            if address:
                causes += [invalid(f"{where}[{index}].ip", address, fault) for fault in texts.ip_address(address)]
        return causes

    def fields(self, obj: Object) -> dict[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def settle_addresses(spec: Spec, before: Spec | None) -> None:
    """Make `clusterIP` and `clusterIPs` agree, in place, and keep allocated values that an update leaves out
    (patchAllocatedValues, normalizeClusterIPs). `before` is the spec that is replaced."""
    if before is None:
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    if _needs_address(spec) and _needs_address(before):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if spec.get("type") in _WITH_PORTS and before.get("type") in _WITH_PORTS:
        _keep_node_ports(spec.get("ports") or [], before.get("ports") or [])
    address, address_before = spec.get("clusterIP", ""), before.get("clusterIP", "")
    if address == address_before and before.get("clusterIPs") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = before["clusterIPs"]
    if address != address_before and spec.get("clusterIPs") == before.get("clusterIPs"):
        if address:
            spec["clusterIPs"] = [address]
        else:
            spec.pop("clusterIPs", None)


def _keep_node_ports(ports: list[Spec], before: list[Spec]) -> None:
    given = {port.get("nodePort") for port in ports} & {port.get("nodePort") for port in before}
    by_name = {port.get("name", ""): port.get("nodePort") for port in before}
    for port in ports:
        known = by_name.get(port.get("name", ""))
        if known and not port.get("nodePort") and known not in given:
            port["nodePort"] = known


def _drop_unused(spec: Spec, before: Spec) -> None:
    """Drop fields that a Service no longer needs after a change of its type, unless the update changed them as well."""
    kind, kind_before = spec.get("type"), before.get("type")
    if _needs_address(before) and not _needs_address(spec):
        if spec.get("clusterIPs") == before.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    ports, ports_before = (
        {port["nodePort"] for port in one.get("ports") or [] if port.get("nodePort")} for one in (spec, before)
    )
    if kind_before in _WITH_PORTS and kind not in _WITH_PORTS and ports == ports_before:
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)
    if kind_before == "LoadBalancer" != kind:
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    policy, unreachable = spec.get("externalTrafficPolicy"), _is_reachable(before) and not _is_reachable(spec)
    if unreachable and policy == before.get("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)


def _drop_internal_policy(spec: Spec) -> None:
    """Drop the internal traffic policy, which needs an address. Runs after field managers are noted."""
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _needs_address(spec: Spec) -> bool:
    return spec.get("type") != "ExternalName"


def _is_headless(spec: Spec) -> bool:
    addresses: list[str] = spec.get("clusterIPs") or []
    return addresses == ["None"]


def _is_reachable(spec: Spec) -> bool:
    """Return whether a Service can be reached from outside the cluster (ExternallyAccessible)."""
    kind = spec.get("type")
    return kind in _WITH_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _external_name(spec: Spec) -> list[Cause]:
    detail = "may not be set for ExternalName services"
    causes = [
        forbidden(f"spec.{name}", detail) for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(name)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + [invalid("spec.externalName", name, fault) for fault in texts.dns_subdomain(name)]


def cluster_address_faults(spec: Spec) -> list[Cause]:
    """Return every fault of the addresses that a Service asks for."""
    if spec.get("type") == "ExternalName":
        return []
    where, causes = "spec.clusterIPs", []
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address and not addresses:
        causes.append(required(where))
    elif address and addresses[0] != address:
        causes.append(invalid(where, addresses, "first value must match `clusterIP`"))
    elif not address and addresses:
        causes.append(invalid(where, addresses, "must be empty when `clusterIP` is not specified"))
    for index, one in enumerate(addresses):
        if index == 0 and one == "None":
            if len(addresses) > 1:
                causes.append(invalid(where, addresses, "'None' must be the first and only value"))
            continue
        causes += [invalid(f"{where}[{index}]", one, fault) for fault in texts.ip_address(one)]
    if len(addresses) > 2:
        causes.append(invalid(where, addresses, "may only hold up to 2 values"))
    return causes


def _changed_addresses(spec: Spec, before: Spec) -> list[Cause]:
    if "ExternalName" in (spec.get("type"), before.get("type")) or (_is_headless(spec) and _is_headless(before)):
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    where = "spec.clusterIPs"
    if len(new) == len(old):
        changed = [index for index, one in enumerate(old) if one != new[index]]
        return [invalid(f"{where}[{index}]", new, "may not change once set") for index in changed]
    if old and not new:
        return [invalid(f"{where}[0]", new, "primary clusterIP can not be unset")]
    return [invalid(f"{where}[0]", new, "may not change once set")] if old and new[0] != old[0] else []


def _ports(ports: list[Spec], kind: str | None) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where, name, number = f"spec.ports[{index}]", port.get("name", ""), port.get("nodePort")
        if not name and len(ports) > 1:
            causes.append(required(f"{where}.name", "must be given if there are several ports"))
        if name in names and name:
            causes.append(duplicate(f"{where}.name", name))
        names.add(name)
        if number and kind == "ClusterIP":
            causes.append(forbidden(f"{where}.nodePort", "may not be used when type is ClusterIP"))
        if number and (port.get("protocol"), number) in node_ports:
            causes.append(duplicate(f"{where}.nodePort", number))
        node_ports.add((port.get("protocol"), number))
    return causes


class EndpointsStrategy(Strategy):
    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or []:
            for port in subset.get("ports") or []:
                port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("core_v1", "Endpoints", obj, "")


class EndpointSliceStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or []:
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("discovery_v1", "EndpointSlice", obj, "")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        if new.get("addressType") != old.get("addressType"):
            causes.append(invalid("addressType", new.get("addressType", ""), "field is immutable"))
        return causes + self.validate_create(new)
