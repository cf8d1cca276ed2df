"""Service, Endpoints, EndpointSlice and NetworkPolicy. The embedded cluster stores NetworkPolicies; a network plugin
would enforce them."""

from __future__ import annotations

from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, required
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy

_WITH_PORTS = ("NodePort", "LoadBalancer")

Spec = dict[str, Any]


class ServiceStrategy(Strategy):
    """Services. `admission` allocates cluster addresses, since it knows which are taken."""

    has_status = True
    first_status: ClassVar = {"loadBalancer": {}}
    name_rule = staticmethod(texts.dns_label)
    selectable: ClassVar = {"spec.clusterIP": "", "spec.type": ""}

    def complete(self, obj: Object) -> None:
        spec = obj["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        for port in spec.get("ports") or []:
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        if _is_reachable(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_WITH_PORTS):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _drop_internal_policy(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        _drop_unused(new["spec"], old["spec"])
        if new["spec"].get("type") != "LoadBalancer":
            new["status"]["loadBalancer"] = {}
        _drop_internal_policy(new["spec"])

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        spec, kind, ports = new["spec"], new["spec"].get("type"), new["spec"].get("ports") or []
        causes = [] if old is None else _changed_addresses(spec, old.get("spec") or {})
        if not ports and not _is_headless(spec) and kind != "ExternalName":
            causes.append(required("spec.ports"))
        if kind in _WITH_PORTS and _is_headless(spec):
            causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
        if kind == "ExternalName":
            causes += _external_name(spec)
        causes += cluster_address_faults(spec) + _port_faults(ports, kind)
        if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
            causes.append(forbidden("spec.allocateLoadBalancerNodePorts", "only for type LoadBalancer"))
        policy = spec.get("externalTrafficPolicy")
        if policy and not _is_reachable(spec):
            causes.append(invalid("spec.externalTrafficPolicy", policy, "only for services reachable from outside"))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        if ingress and (new.get("spec") or {}).get("type") != "LoadBalancer":
            return [forbidden("status.loadBalancer.ingress", "only for type LoadBalancer")]
        return []


def settle_addresses(spec: Spec, before: Spec | None) -> None:
    """Make `clusterIP` and `clusterIPs` agree, in place, and keep allocated values that an update leaves out
    (patchAllocatedValues, normalizeClusterIPs). `before` is the spec that is replaced."""
    if before is None:
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    if "ExternalName" not in (spec.get("type"), before.get("type")):
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
    unused: tuple[str, ...] = ()
    if kind == "ExternalName" != kind_before:
        unused += ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get("clusterIPs") == before.get("clusterIPs"):
            spec.pop("clusterIP", None)
    if kind_before == "LoadBalancer" != kind:
        unused += ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _is_reachable(before) and not _is_reachable(spec):
        unused += ("externalTrafficPolicy",)
    for name in unused:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)
    ports, ports_before = (
        {port["nodePort"] for port in one.get("ports") or [] if port.get("nodePort")} for one in (spec, before)
    )
    if kind_before in _WITH_PORTS and kind not in _WITH_PORTS and ports == ports_before:
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)


def _drop_internal_policy(spec: Spec) -> None:
    """Drop the internal traffic policy, which needs an address. Runs after the field managers were recorded."""
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _is_headless(spec: Spec) -> bool:
    return bool(spec.get("clusterIPs") == ["None"])


def _is_reachable(spec: Spec) -> bool:
    """Return whether a Service can be reached from outside the cluster (ExternallyAccessible)."""
    kind = spec.get("type")
    return kind in _WITH_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _external_name(spec: Spec) -> list[Cause]:
    unfit = [name for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(name)]
    causes = [forbidden(f"spec.{name}", "may not be set for ExternalName services") for name in unfit]
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + [invalid("spec.externalName", name, fault) for fault in texts.dns_subdomain(name)]


def cluster_address_faults(spec: Spec) -> list[Cause]:
    """Return every fault of the addresses that a Service asks for."""
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    where = "spec.clusterIPs"
    if spec.get("type") == "ExternalName":
        return []
    if (addresses[0] if addresses else "") != address:
        return [invalid(where, addresses, "its first item must be clusterIP")]
    if len(addresses) > (1 if address == "None" else 2):
        return [invalid(where, addresses, "must be None alone, or at most two addresses")]
    named = [(index, one) for index, one in enumerate(addresses) if one != "None" or index]
    return [invalid(f"{where}[{index}]", one, fault) for index, one in named for fault in texts.ip_address(one)]


def _changed_addresses(spec: Spec, before: Spec) -> list[Cause]:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    # A second address may be added or dropped.
    kept = min(len(new), len(old)) or len(old)
    return [invalid("spec.clusterIPs", new, "may not change once set")] if new[:kept] != old[:kept] else []


def _port_faults(ports: list[Spec], kind: str | None) -> list[Cause]:
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


class EndpointSliceStrategy(Strategy):
    has_generation = True
    immutable = ("addressType",)

    def complete(self, obj: Object) -> None:
        for port in obj.get("ports") or []:
            port.setdefault("name", "")


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def complete(self, obj: Object) -> None:
        if not obj["spec"].get("policyTypes"):
            obj["spec"]["policyTypes"] = ["Ingress", "Egress"] if obj["spec"].get("egress") else ["Ingress"]
