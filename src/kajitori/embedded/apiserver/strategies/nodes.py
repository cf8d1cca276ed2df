"""Nodes."""

from __future__ import annotations

import ipaddress
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.kinds import Object, Strategy
from kajitori.embedded.apiserver.schemas import quantities

_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
"""What the API writes out even where nobody said it."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        one, several = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if one and several[:1] != [one]:
            spec["podCIDRs"] = [one]
        elif several and not one:
            spec["podCIDR"] = several[0]
        for condition in (obj.get("status") or {}).get("conditions") or []:
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)

    def prepare_create(self, obj: Object) -> None:
        # A kubelet registers itself together with its status.
        status = obj.get("status")
        super().prepare_create(obj)
        obj["status"] = status or {}
        self._complete(obj)
        obj.setdefault("spec", {})

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        new.setdefault("spec", {})

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        self._complete(new)

    def _complete(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
        info = status.setdefault("nodeInfo", {})
        for name in _INFO:
            info.setdefault(name, "")
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = _taints(spec.get("taints") or [], "metadata.taints")
        causes += _cidrs(spec.get("podCIDRs") or [])
        return causes + self.validate_status_update(obj, obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            causes.append(
                forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
            )
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            causes.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        status = new.get("status") or {}
        for part in ("capacity", "allocatable"):
            for resource, amount in (status.get(part) or {}).items():
                field = f"status.{part}.{resource}"
                causes += [invalid(f"status.{part}", resource, fault) for fault in texts.qualified_name(resource)]
                nano = quantities.parse_nano(amount)
                if nano < 0:
                    causes.append(invalid(field, amount, "must be greater than or equal to 0"))
                elif "/" in resource and nano % quantities.NANO:
                    causes.append(invalid(field, amount, "must be an integer"))
        seen: set[tuple[str, str]] = set()
        for index, address in enumerate(status.get("addresses") or []):
            key = (address.get("type", ""), address.get("address", ""))
            if key in seen:
                causes.append(duplicate(f"status.addresses[{index}]", address))
            seen.add(key)
        return causes

    def fields(self, obj: Object) -> dict[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


def _taints(taints: list[dict[str, Any]], field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{field}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        causes += [invalid(f"{where}.key", key, fault) for fault in texts.qualified_name(key)]
        if value:
            causes += [invalid(f"{where}.value", value, fault) for fault in texts.label_value(value)]
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            causes.append(duplicate(where, taint, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return causes


def _cidrs(cidrs: list[str]) -> list[Cause]:
    causes = []
    for index, one in enumerate(cidrs):
        try:
            ipaddress.ip_network(one, strict=False)
        except ValueError:
            causes.append(
                invalid(
                    f"spec.podCIDRs[{index}]", one, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                )
            )
    return causes
