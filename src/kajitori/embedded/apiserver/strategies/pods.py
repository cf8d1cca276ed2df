"""Pods: defaults, fields that the server sets, and allowed changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, forbidden, invalid
from kajitori.embedded.apiserver.schemas.quantities import parse_nano
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy, keep

_MAY_CHANGE = "the images of containers, activeDeadlineSeconds, additional tolerations, and fewer schedulingGates"
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}


def complete_pod_spec(spec: Object) -> None:
    """Set the computed defaults of a Pod's spec or of a Pod template."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(name) or []:
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
            for port in container.get("ports") or [] if spec.get("hostNetwork") else ():
                port.setdefault("hostPort", port.get("containerPort", 0))
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for volume in spec.get("volumes") or []:
        if len(volume) <= 1:
            volume["emptyDir"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, _, tag = image.rpartition("/")[2].partition(":")
    return not tag or tag == "latest"


class PodTemplateStrategy(Strategy):
    """Pod templates. Nothing is created from them here."""

    has_generation = True

    def complete(self, obj: Object) -> None:
        complete_pod_spec(obj["template"]["spec"])


class PodStrategy(Strategy):
    has_status = True
    has_generation = True
    selectable: ClassVar = {
        **dict.fromkeys(("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"), ""),
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.nominatedNodeName": "",
    }

    def complete(self, obj: Object) -> None:
        spec = obj["spec"]
        complete_pod_spec(spec)
        # Set here rather than in admission: a LimitRange's default requests come after those from limits.
        for owner in (*(spec.get("initContainers") or []), *(spec.get("containers") or []), spec):
            resources = owner.get("resources") or {}
            for resource, amount in (resources.get("limits") or {}).items():
                resources.setdefault("requests", {}).setdefault(resource, amount)
        spec.setdefault("enableServiceLinks", True)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": now}]

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        keep(new["metadata"], old["metadata"], "ownerReferences")
        # The class follows from the spec; a kubelet may leave it out.
        status = new.setdefault("status", {})
        status.setdefault("qosClass", (old.get("status") or {}).get("qosClass") or qos_class(old.get("spec") or {}))

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        spec = new["spec"]
        if old is not None:
            return _change_faults(spec, old.get("spec") or {})
        causes = []
        if spec.get("ephemeralContainers"):
            causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("schedulingGates") and spec.get("nodeName"):
            causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
        causes: list[Cause] = []
        nominated, field = status.get("nominatedNodeName", ""), "status.nominatedNodeName"
        if nominated and nominated != before.get("nominatedNodeName", ""):
            if spec.get("nodeName"):
                causes.append(forbidden(field, "may not be set on pods that are already bound to a node"))
            causes += [invalid(field, nominated, fault) for fault in texts.dns_subdomain(nominated)]
        for index, one in enumerate(status.get("podIPs") or []):
            address = one.get("ip", "")
            causes += [invalid(f"status.podIPs[{index}]", address, fault) for fault in texts.ip_address(address)]
        for index, condition in enumerate(status.get("conditions") or []):
            kind = condition.get("type", "")
            if "/" in kind or not kind:
                field = f"status.conditions[{index}].type"
                causes += [invalid(field, kind, fault) for fault in texts.qualified_name(kind)]
        if status.get("qosClass") != (before.get("qosClass") or qos_class(old.get("spec") or {})):
            causes.append(invalid("status.qosClass", status.get("qosClass"), IMMUTABLE))
        return causes + _restart_faults(status, before, spec)


def qos_class(spec: dict[str, Any]) -> str:
    """Return the quality-of-service class: Guaranteed, Burstable or BestEffort
    (k8s.io/kubernetes/pkg/apis/core/helper/qos)."""
    parts = [spec["resources"]] if spec.get("resources") else []
    if not parts:
        for name in ("initContainers", "containers"):
            parts += [container.get("resources") or {} for container in spec.get(name) or []]
    has_any, guaranteed = False, bool(parts)
    for part in parts:
        requests, limits = _compute_resources(part.get("requests")), _compute_resources(part.get("limits"))
        has_any = has_any or bool(requests) or bool(limits)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, value) != value for name, value in limits.items()
        ):
            guaranteed = False
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute_resources(amounts: dict[str, str] | None) -> dict[str, int]:
    found = {name: parse_nano(amounts[name]) for name in ("cpu", "memory") if amounts and name in amounts}
    return {name: value for name, value in found.items() if value > 0}


def _change_faults(spec: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    """Return the faults of changes to a Pod's spec."""
    causes: list[Cause] = []
    deadline, deadline_before = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline_before is not None and (deadline is None or deadline > deadline_before):
        causes.append(invalid("spec.activeDeadlineSeconds", deadline, "may only become smaller"))
    tolerations = [_without_seconds(one) for one in spec.get("tolerations") or []]
    for old in before.get("tolerations") or []:
        same = old.get("effect") == "NoExecute" and _without_seconds(old) in tolerations
        if not same and old not in (spec.get("tolerations") or []):
            causes.append(forbidden("spec.tolerations", "only tolerationSeconds of an existing toleration may change"))
    gates = {one.get("name") for one in before.get("schedulingGates") or []}
    added = [one for one in spec.get("schedulingGates") or [] if one.get("name") not in gates]
    if added:
        causes.append(forbidden("spec.schedulingGates", "gates may only be removed"))
    fixed, fixed_before = _fixed_part(spec, before), _fixed_part(before, before)
    names = sorted(one for one in fixed.keys() | fixed_before.keys() if fixed.get(one) != fixed_before.get(one))
    return causes + [forbidden(f"spec.{name}", f"may not change; only {_MAY_CHANGE} may") for name in names]


def _without_seconds(toleration: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _fixed_part(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the spec without the fields that an update may change."""
    may_change = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("schedulingGates"):
        # Pods with scheduling gates may still be restricted to fewer nodes.
        may_change |= {"nodeSelector", "affinity"}
    fixed = {name: value for name, value in spec.items() if name not in may_change}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def _restart_faults(status: dict[str, Any], before: dict[str, Any], spec: dict[str, Any]) -> list[Cause]:
    """Return the faults of restarted containers: one that ended for good cannot run again
    (ValidateContainerStateTransition)."""
    policy = spec.get("restartPolicy", "Always")
    if policy == "Always":
        return []
    now = {one.get("name"): one.get("state") or {} for one in status.get("containerStatuses") or []}
    causes: list[Cause] = []
    for index, old in enumerate(before.get("containerStatuses") or []):
        ended = (old.get("state") or {}).get("terminated")
        state = now.get(old.get("name"))
        if not ended or state is None or "terminated" in state:
            continue
        if policy == "OnFailure" and ended.get("exitCode") != 0:
            continue
        causes.append(
            forbidden(f"status.containerStatuses[{index}].state", "may not be transitioned to non-terminated state")
        )
    return causes
