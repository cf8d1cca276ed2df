"""Nodes and namespaces."""

from __future__ import annotations

from typing import ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid
from kajitori.embedded.apiserver.metadata import STANDARD_FINALIZERS, UNQUALIFIED
from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy
from kajitori.embedded.apiserver.validation.validate import validate

NAMESPACE_FINALIZER = "kubernetes"
"""The entry of `spec.finalizers` that stays until the namespace's objects are deleted."""
_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)
"""Fields of `status.nodeInfo` that are always written, even if empty."""
_CHECKED = ("capacity", "allocatable", "addresses")


class NodeStrategy(Strategy):
    has_status = True
    selectable: ClassVar = {"spec.unschedulable": "false"}

    def complete(self, obj: Object) -> None:
        spec = obj["spec"]
        one, several = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if one and several[:1] != [one]:
            spec["podCIDRs"] = [one]
        elif several and not one:
            spec["podCIDR"] = several[0]

    def prepare_create(self, obj: Object) -> None:
        # A kubelet registers its node together with the status.
        status = obj.get("status")
        super().prepare_create(obj)
        obj["status"] = status or {}
        _complete_status(obj)

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        _complete_status(new)

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        if old is None:
            return self.validate_status_update(new, new)
        before = old.get("spec") or {}
        fixed = [name for name in ("providerID", "podCIDRs") if before.get(name)]
        changed = [name for name in fixed if new["spec"].get(name) != before[name]]
        return [forbidden(f"spec.{name}", "may not change once it is set") for name in changed]

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        status = {name: part for name, part in (new.get("status") or {}).items() if name in _CHECKED}
        return validate(model_schema("core_v1", "NodeStatus"), status, "status")


def _complete_status(node: Object) -> None:
    status = node.setdefault("status", {})
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    status["nodeInfo"] = {**dict.fromkeys(_INFO, ""), **(status.get("nodeInfo") or {})}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


class NamespaceStrategy(Strategy):
    has_status = True
    first_status: ClassVar = {"phase": "Active"}
    name_rule = staticmethod(texts.dns_label)
    selectable: ClassVar = {"status.phase": ""}

    def complete(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        # A generated name is known from here on.
        self.complete(obj)
        finalizers = obj["spec"].setdefault("finalizers", [])
        if NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(NAMESPACE_FINALIZER)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        # Only `/finalize` changes the finalizers.
        new["spec"] = old.get("spec", {})

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        causes: list[Cause] = []
        for one in new["spec"].get("finalizers") or [] if old is None else ():
            causes += [invalid("spec.finalizers", one, fault) for fault in texts.qualified_name(one)]
            if "/" not in one and one not in STANDARD_FINALIZERS:
                causes.append(invalid("spec.finalizers", one, UNQUALIFIED))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        phase = new["status"]["phase"]
        wanted = "Terminating" if new["metadata"].get("deletionTimestamp") else "Active"
        return [] if phase == wanted else [invalid("status.phase", phase, f"must be {wanted}")]
