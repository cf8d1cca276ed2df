"""Service, Endpoints and EndpointSlice."""

from __future__ import annotations

from typing import Any

from kajitori.core import texts
from kajitori.local.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.local.apiserver.kinds import Object, Strategy
from kajitori.local.apiserver.metadata import validate_labels

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


class ServiceStrategy(Strategy):
    """Cluster addresses are given by `admission`, which sees which are taken."""

    has_status = True
    name_rule = staticmethod(texts.dns_1035_label)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        keep_addresses(new, old)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes: list[Cause] = []
        kind = spec.get("type")
        if kind not in _TYPES:
            causes.append(not_supported("spec.type", kind, _TYPES))
        ports = spec.get("ports") or []
        if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        if kind == "ExternalName":
            name = spec.get("externalName", "").rstrip(".")
            if not name:
                causes.append(required("spec.externalName"))
            else:
                causes += [invalid("spec.externalName", name, fault) for fault in texts.dns_subdomain(name)]
        address = spec.get("clusterIP", "")
        if address and address != "None":
            causes += [invalid("spec.clusterIPs[0]", address, fault) for fault in texts.ip_address(address)]
        if kind in ("NodePort", "LoadBalancer") and address == "None":
            causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
        for index, one in enumerate(spec.get("externalIPs") or []):
            causes += [invalid(f"spec.externalIPs[{index}]", one, fault) for fault in texts.external_address(one)]
        causes += _service_ports(ports)
        causes += validate_labels(spec.get("selector") or {}, "spec.selector")
        if spec.get("sessionAffinity") not in ("None", "ClientIP"):
            causes.append(not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None")))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        spec, before = new["spec"], old.get("spec") or {}
        fixed = before.get("type") != "ExternalName" and spec.get("type") != "ExternalName"
        if fixed and before.get("clusterIP") and spec.get("clusterIP") != before["clusterIP"]:
            causes.append(invalid("spec.clusterIPs[0]", spec.get("clusterIP", ""), "may not change once set"))
        return causes + self.validate_create(new)

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        where = "status.loadBalancer.ingress"
        ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        if not ingress:
            return []
        causes: list[Cause] = []
        if (new.get("spec") or {}).get("type") != "LoadBalancer":
            causes.append(forbidden(where, "may only be used when `spec.type` is 'LoadBalancer'"))
        for index, one in enumerate(ingress):
            address = one.get("ip", "")
            if address:
                causes += [invalid(f"{where}[{index}].ip", address, fault) for fault in texts.ip_address(address)]
        return causes

    def fields(self, obj: Object) -> dict[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def keep_addresses(new: Object, old: Object) -> None:
    """Whoever sends the object without what the server gave it keeps it."""
    spec, before = new["spec"], old.get("spec") or {}
    if spec.get("type") == before.get("type") != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in before:
                spec.setdefault(name, before[name])


def _service_ports(ports: list[dict[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    seen_names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name:
            if len(ports) > 1:
                causes.append(required(f"{where}.name"))
        else:
            causes += [invalid(f"{where}.name", name, fault) for fault in texts.dns_label(name)]
            if name in seen_names:
                causes.append(duplicate(f"{where}.name", name))
            seen_names.add(name)
        causes += [invalid(f"{where}.port", port.get("port", 0), one) for one in texts.port_number(port.get("port", 0))]
        if port.get("protocol") not in _PROTOCOLS:
            causes.append(not_supported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS))
        target = port.get("targetPort")
        if isinstance(target, int):
            causes += [invalid(f"{where}.targetPort", target, one) for one in texts.port_number(target)]
        elif isinstance(target, str):
            causes += [invalid(f"{where}.targetPort", target, one) for one in texts.port_name(target)]
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            causes.append(duplicate(where, {"port": port.get("port"), "protocol": port.get("protocol")}))
        seen.add(key)
    return causes


class EndpointsStrategy(Strategy):
    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or []:
            for port in subset.get("ports") or []:
                port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for index, subset in enumerate(obj.get("subsets") or []):
            where = f"subsets[{index}]"
            for part in ("addresses", "notReadyAddresses"):
                for position, address in enumerate(subset.get(part) or []):
                    ip = address.get("ip", "")
                    causes += [invalid(f"{where}.{part}[{position}].ip", ip, one) for one in texts.ip_address(ip)]
            for position, port in enumerate(subset.get("ports") or []):
                number = port.get("port", 0)
                causes += [invalid(f"{where}.ports[{position}].port", number, one) for one in texts.port_number(number)]
        return causes


class EndpointSliceStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or []:
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        kind = obj.get("addressType", "")
        if not kind:
            return [required("addressType")]
        if kind not in _ADDRESS_TYPES:
            return [not_supported("addressType", kind, _ADDRESS_TYPES)]
        causes: list[Cause] = []
        for index, port in enumerate(obj.get("ports") or []):
            name = port.get("name", "")
            if name:
                causes += [invalid(f"ports[{index}].name", name, fault) for fault in texts.dns_label(name)]
        for index, endpoint in enumerate(obj.get("endpoints") or []):
            where = f"endpoints[{index}].addresses"
            addresses = endpoint.get("addresses") or []
            if not addresses:
                causes.append(required(where, "must contain at least 1 address"))
            if kind != "FQDN":
                for position, ip in enumerate(addresses):
                    causes += [invalid(f"{where}[{position}]", ip, one) for one in texts.ip_address(ip)]
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        if new.get("addressType") != old.get("addressType"):
            causes.append(invalid("addressType", new.get("addressType", ""), "field is immutable"))
        return causes + self.validate_create(new)
