"""Nodes."""

from __future__ import annotations

from kajitori.embedded.apiserver.causes import Cause, forbidden
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.validate import validate

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
"""Fields of `status.nodeInfo` that are always written, even if empty."""


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
        # A kubelet registers its node together with the status.
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
        return validate("core_v1", "NodeSpec", obj.get("spec"), "spec") + self.validate_status_update(obj, obj)

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
        amounts = ("capacity", "allocatable", "addresses")
        status = {name: part for name, part in (new.get("status") or {}).items() if name in amounts}
        return validate("core_v1", "NodeStatus", status, "status")

    def fields(self, obj: Object) -> dict[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}
