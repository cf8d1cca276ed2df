"""Pods: defaults, fields that the server sets, and allowed changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies import warnings
from kajitori.embedded.apiserver.strategies.storage import default_claim
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.validate import validate

_UPDATE_DETAIL = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def default_pod_spec(spec: Object) -> None:
    """Set the defaults of a Pod's spec or of a Pod template."""
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or []:
            default_container(container)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or []:
                    port.setdefault("hostPort", port.get("containerPort", 0))
    for container in spec.get("ephemeralContainers") or []:
        default_container(container)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec.get("serviceAccountName") or spec["serviceAccount"]
        spec["serviceAccount"] = spec["serviceAccountName"]
    for constraint in spec.get("topologySpreadConstraints") or []:
        constraint.setdefault("maxSkew", 1)


class PodTemplateStrategy(Strategy):
    """Pod templates. Nothing is created from them here."""

    has_generation = True

    def default(self, obj: Object) -> None:
        default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("core_v1", "PodSpec", obj["template"]["spec"], "template.spec")


class PodStrategy(Strategy):
    has_status = True
    has_generation = True

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        # Most updates of Pods are made by programs, which do not show warnings.
        return warnings.of_pod(new["spec"]) if old is None else []

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        for name in ("initContainers", "containers"):
            for container in spec.get(name) or []:
                # Set here rather than in admission: a LimitRange's default requests come after those from limits.
                resources = container["resources"]
                for resource, amount in (resources.get("limits") or {}).items():
                    resources.setdefault("requests", {}).setdefault(resource, amount)
        _default_resources(spec)
        spec.setdefault("enableServiceLinks", True)

        status = obj.get("status") or {}
        for name in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for one in status.get(name) or []:
                for part, blank in (("image", ""), ("imageID", ""), ("ready", False), ("restartCount", 0)):
                    one.setdefault(part, blank)
                for state in (one.setdefault("state", {}), one.setdefault("lastState", {})):
                    _default_state(state)
        for condition in status.get("conditions") or []:
            condition.setdefault("lastProbeTime", None)
            condition.setdefault("lastTransitionTime", None)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        status: dict[str, Any] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        gates = obj["spec"].get("schedulingGates")
        if gates:
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ]
        obj["status"] = status

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = validate("core_v1", "PodSpec", obj.get("spec"), "spec")
        if (obj.get("spec") or {}).get("ephemeralContainers"):
            causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        gates, node = obj["spec"].get("schedulingGates"), obj["spec"].get("nodeName")
        if gates and node:
            causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        causes = validate("core_v1", "PodSpec", spec, "spec")
        # Changes of the grace period are refused as changes below.
        causes = [one for one in causes if one.field != "spec.terminationGracePeriodSeconds"]
        for name in ("containers", "initContainers"):
            if len(spec.get(name) or []) != len(before.get(name) or []):
                detail = "pod updates may not add or remove containers"
                return [*causes, forbidden(f"spec.{name}", detail)]
        causes += _deadline(spec, before)
        causes += _tolerations(spec, before)
        causes += _gates(spec, before)
        changed = sorted(_changes(_fixed_part(spec, before), _fixed_part(before, before), "spec"))
        if changed:
            causes.append(forbidden("spec", f"{_UPDATE_DETAIL}\nchanged: {', '.join(changed[:10])}"))
        return causes

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        status, before = new.get("status") or {}, old.get("status") or {}
        causes: list[Cause] = []
        nominated = status.get("nominatedNodeName", "")
        if nominated != before.get("nominatedNodeName", "") and nominated:
            field = "status.nominatedNodeName"
            if (new.get("spec") or {}).get("nodeName"):
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
            causes.append(invalid("status.qosClass", status.get("qosClass"), "field is immutable"))
        return causes + _restarted(status, before, new.get("spec") or {})

    def prepare_status_update(self, new: Object, old: Object) -> None:
        super().prepare_status_update(new, old)
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
        # The class follows from the spec; a kubelet may leave it out.
        status = new.setdefault("status", {})
        status.setdefault("qosClass", (old.get("status") or {}).get("qosClass") or qos_class(old.get("spec") or {}))

    def fields(self, obj: Object) -> dict[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": status.get("podIP", ""),
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }


def _default_state(state: dict[str, Any]) -> None:
    for part, times in (("running", ("startedAt",)), ("terminated", ("startedAt", "finishedAt"))):
        if isinstance(state.get(part), dict):
            for name in times:
                state[part].setdefault(name, None)


def default_container(container: dict[str, Any]) -> None:
    """Set the defaults of one container of any type."""
    image = container.get("image", "")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for env in container.get("env") or []:
        _default_reference(env.get("valueFrom") or {})
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, _, tag = image.rpartition("/")[2].partition(":")
    return not tag or tag == "latest"


def _default_probe(probe: dict[str, Any]) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(action: dict[str, Any]) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_reference(source: dict[str, Any]) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_volume(volume: dict[str, Any]) -> None:
    if len(volume) <= 1:
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    for source in [volume.get("downwardAPI") or {}, *((volume.get("projected") or {}).get("sources") or [])]:
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or source).get("items") or []:
            _default_reference(item)
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        default_claim(template.setdefault("spec", {}))


def _default_resources(spec: dict[str, Any]) -> None:
    """Set the requests of the whole Pod from its limits, if it has resources of its own."""
    resources = spec.get("resources")
    if not resources:
        return
    for resource, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(resource, amount)


def qos_class(spec: dict[str, Any]) -> str:
    """Return the quality-of-service class: Guaranteed, Burstable or BestEffort
    (k8s.io/kubernetes/pkg/apis/core/helper/qos)."""
    parts = [spec["resources"]] if spec.get("resources") else []
    if not parts:
        for name in ("initContainers", "containers"):
            parts += [container.get("resources") or {} for container in spec.get(name) or []]
    has_any, guaranteed = False, bool(parts)
    for part in parts:
        requests, limits = _computed(part.get("requests")), _computed(part.get("limits"))
        has_any = has_any or bool(requests) or bool(limits)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, value) != value for name, value in limits.items()
        ):
            guaranteed = False
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _computed(amounts: dict[str, str] | None) -> dict[str, int]:
    found = {name: _nano(amounts[name]) for name in ("cpu", "memory") if amounts and name in amounts}
    return {name: value for name, value in found.items() if value > 0}


def _nano(text: str) -> int:
    return quantities.parse_nano(text)


def _deadline(spec: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if old is None or new == old:
        return []
    if new is None:
        return [invalid(field, None, "must not update from a positive integer to nil value")]
    if new > old:
        return [invalid(field, new, "must be less than or equal to previous value")]
    return []


def _tolerations(spec: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    new = spec.get("tolerations") or []
    bare = [{name: value for name, value in one.items() if name != "tolerationSeconds"} for one in new]
    for old in before.get("tolerations") or []:
        if old in new:
            continue
        rest = {name: value for name, value in old.items() if name != "tolerationSeconds"}
        if old.get("effect") == "NoExecute" and rest in bare:
            continue
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", detail)]
    return []


def _gates(spec: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    old = {one.get("name") for one in before.get("schedulingGates") or []}
    causes = []
    for index, one in enumerate(spec.get("schedulingGates") or []):
        if one.get("name") not in old:
            detail = f"only deletion is allowed, but found new scheduling gate '{one.get('name')}'"
            causes.append(forbidden(f"spec.schedulingGates[{index}].name", detail))
    return causes


def _fixed_part(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the spec without the fields that an update may change."""
    may_change = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        may_change.add("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        # Pods with scheduling gates may still be restricted to fewer nodes.
        may_change |= {"nodeSelector", "affinity"}
    fixed = {name: value for name, value in spec.items() if name not in may_change}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def _changes(new: Any, old: Any, path: str) -> list[str]:
    if isinstance(new, dict) and isinstance(old, dict):
        found = []
        for name in new.keys() | old.keys():
            if new.get(name) != old.get(name):
                found += _changes(new.get(name), old.get(name), f"{path}.{name}")
        return found
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [one for i, pair in enumerate(zip(new, old, strict=True)) for one in _changes(*pair, f"{path}[{i}]")]
    return [] if new == old else [path]


def _restarted(status: dict[str, Any], before: dict[str, Any], spec: dict[str, Any]) -> list[Cause]:
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
