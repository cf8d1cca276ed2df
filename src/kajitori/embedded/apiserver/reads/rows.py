"""Cells and rows of `kubectl get` (k8s.io/kubernetes/pkg/printers/internalversion)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kajitori.embedded.apiserver.reads import durations
from kajitori.embedded.apiserver.strategies.strategy import Object

Row = list[Any]
_NONE = "<none>"
_UNSET = "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_PREFIX = "node-role.kubernetes.io/"
_SHOWN_ENDPOINTS = 3


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def _age(obj: Object, now: datetime) -> str:
    return durations.age((obj.get("metadata") or {}).get("creationTimestamp"), now)


# -- Cells


def data_size(obj: Object) -> int:
    """Return the number of keys of a ConfigMap or Secret."""
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def phase(obj: Object) -> str:
    """Return the phase of a claim or volume, or that it is being deleted."""
    is_going = bool((obj.get("metadata") or {}).get("deletionTimestamp"))
    return "Terminating" if is_going else str((obj.get("status") or {}).get("phase", ""))


def claim_capacity(obj: Object) -> str:
    """Return the size of the volume that a claim is bound to."""
    is_bound = (obj.get("spec") or {}).get("volumeName")
    return str(((obj.get("status") or {}).get("capacity") or {}).get("storage", "0")) if is_bound else ""


def claim_modes(obj: Object) -> str:
    """Return the access modes of the volume that a claim is bound to."""
    return _modes((obj.get("status") or {}).get("accessModes")) if (obj.get("spec") or {}).get("volumeName") else ""


def volume_modes(obj: Object) -> str:
    """Return the access modes of a volume."""
    return _modes((obj.get("spec") or {}).get("accessModes"))


def volume_claim(obj: Object) -> str:
    """Return the claim that a volume is bound to."""
    owner = (obj.get("spec") or {}).get("claimRef") or {}
    return f"{owner.get('namespace', '')}/{owner.get('name', '')}" if owner else ""


def class_name(obj: Object) -> str:
    """Return the name of a StorageClass, and whether it is the default."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{_name(obj)} (default)" if is_default else _name(obj)


def grows(obj: Object) -> bool:
    """Return whether volumes of a StorageClass can grow."""
    return bool(obj.get("allowVolumeExpansion"))


def validations(obj: Object) -> int:
    """Return the number of validations of a policy."""
    return len((obj.get("spec") or {}).get("validations") or [])


def param_kind(obj: Object) -> str:
    """Return the kind of a policy's parameters."""
    kind = (obj.get("spec") or {}).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET


def pod_selector(obj: Object) -> str:
    """Return the selector of a NetworkPolicy in the notation of `kubectl get -l`."""
    return _selector((obj.get("spec") or {}).get("podSelector") or {})


def _selector(selector: Mapping[str, Any]) -> str:
    found = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or []:
        key, values = one["key"], ",".join(sorted(one.get("values") or []))
        detail = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        found.append((key, detail.get(one["operator"], key)))
    return ",".join(text for _, text in sorted(found)) or _NONE


def quota(obj: Object, *, of_limits: bool) -> str:
    """Return used and hard amounts of a quota: those of limits, or the others."""
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == of_limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def event(obj: Object, now: datetime) -> Row:
    return _event(obj, now, "involvedObject", "message", "source", ("firstTimestamp", "lastTimestamp", "count"))


def new_event(obj: Object, now: datetime) -> Row:
    times = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
    return _event(obj, now, "regarding", "note", "deprecatedSource", times)


def _event(obj: Object, now: datetime, about: str, message: str, source: str, times: tuple[str, str, str]) -> Row:
    first, last, count = (obj.get(name) for name in times)
    first = first or obj.get("eventTime")
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or last or first
    target = obj.get(about) or {}
    named = str(target.get("kind", "")).lower()
    if target.get("name"):
        named += f"/{target['name']}"
    origin = obj.get(source) or {}
    component = origin.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = origin.get("host") or obj.get("reportingInstance") or ""
    detail = ", ".join(part for part in (component, host) if part)
    return [
        durations.age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        named,
        target.get("fieldPath", ""),
        detail,
        str(obj.get(message, "")).strip(),
        durations.age(first, now),
        series.get("count") or count or 1,
        _name(obj),
    ]


def node(obj: Object, now: datetime) -> Row:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = next((one for one in status.get("conditions") or [] if one.get("type") == "Ready"), None)
    shown = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if spec.get("unschedulable"):
        shown.append("SchedulingDisabled")
    labels = (obj.get("metadata") or {}).get("labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    info = status.get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or [])}
    return [
        _name(obj),
        ",".join(shown),
        ",".join(sorted(one for one in roles if one)) or _NONE,
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or _NONE,
        addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for long, short in _MODES.items() if long in (modes or []))


def service(obj: Object, now: datetime) -> Row:
    spec = obj.get("spec") or {}
    kind = spec.get("type", "")
    external = ",".join(spec.get("externalIPs") or []) or _NONE
    if kind == "ExternalName":
        external = spec.get("externalName", "") or _NONE
    elif kind == "LoadBalancer":
        ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        external = ",".join(one.get("ip") or one.get("hostname", "") for one in ingress) or "<pending>"
    ports = []
    for port in spec.get("ports") or []:
        shown = f"{port.get('port')}:{port['nodePort']}" if port.get("nodePort") else f"{port.get('port')}"
        ports.append(f"{shown}/{port.get('protocol', 'TCP')}")
    address = spec.get("clusterIP") or _NONE
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [_name(obj), kind, address, external, ",".join(ports) or _NONE, _age(obj, now), selector or _NONE]


def endpoints(obj: Object) -> str:
    """Return the first addresses of an Endpoints."""
    found = [
        f"{address.get('ip')}:{port['port']}" if port.get("port") else f"{address.get('ip')}"
        for subset in obj.get("subsets") or []
        for port in subset.get("ports") or [{}]
        for address in subset.get("addresses") or []
    ]
    return _some(found)


def slice_ports(obj: Object) -> str:
    """Return the first ports of an EndpointSlice."""
    return _some([str(one.get("port") or "*") for one in obj.get("ports") or []], _UNSET)


def slice_addresses(obj: Object) -> str:
    """Return the first addresses of an EndpointSlice."""
    return _some([ip for one in obj.get("endpoints") or [] for ip in one.get("addresses") or []], _UNSET)


def _some(values: list[str], nothing: str = _NONE) -> str:
    if not values:
        return nothing
    more = len(values) - _SHOWN_ENDPOINTS
    shown = ",".join(values[:_SHOWN_ENDPOINTS])
    return f"{shown} + {more} more..." if more > 0 else shown


def pod(obj: Object, now: datetime) -> Row:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    statuses = status.get("containerStatuses") or []
    sidecars = [one for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    side_names = {one.get("name") for one in sidecars}
    beside = [one for one in status.get("initContainerStatuses") or [] if one.get("name") in side_names]
    total = len(spec.get("containers") or []) + len(sidecars)
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in statuses)
    ready += sum(bool(one.get("started")) and bool(one.get("ready")) for one in beside)
    conditions = {one.get("type"): one for one in status.get("conditions") or []}
    gates = spec.get("readinessGates") or []
    passed = sum((conditions.get(one.get("conditionType")) or {}).get("status") == "True" for one in gates)
    return [
        _name(obj),
        f"{ready}/{total}",
        pod_status(obj),
        _restarts([*statuses, *beside], now),
        _age(obj, now),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]


def _template_containers(obj: Object) -> list[dict[str, Any]]:
    return list(((obj.get("template") or {}).get("spec") or {}).get("containers") or [])


def template_names(obj: Object) -> str:
    """Return the names of a template's containers."""
    return ",".join(one["name"] for one in _template_containers(obj))


def template_images(obj: Object) -> str:
    """Return the images of a template's containers."""
    return ",".join(one.get("image", "") for one in _template_containers(obj))


def template_labels(obj: Object) -> str:
    """Return the labels of a template's Pods."""
    labels = ((obj.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _restarts(statuses: list[dict[str, Any]], now: datetime) -> str:
    count = sum(int(one.get("restartCount") or 0) for one in statuses)
    ended = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    moments = [moment for moment in map(durations.parse, ended) if moment is not None]
    if count and moments:
        return f"{count} ({durations.human((now - max(moments)).total_seconds())} ago)"
    return str(count)


def pod_status(obj: Object) -> str:
    """Return the text of the STATUS column: the phase, or the most specific reason of its containers."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    detail = str(status.get("reason") or status.get("phase", ""))
    conditions = {one.get("type"): one for one in status.get("conditions") or []}
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        detail = "SchedulingGated"
    initializing = _init_status(spec, status)
    if initializing and (conditions.get("Initialized") or {}).get("status") != "True":
        detail = initializing
    else:
        detail = _container_status(status, detail, conditions)
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return detail


def _init_status(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    planned = spec.get("initContainers") or []
    sidecars = {one.get("name") for one in planned if one.get("restartPolicy") == "Always"}
    for index, one in enumerate(status.get("initContainerStatuses") or []):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(planned)}"
    return ""


def _ended(state: Mapping[str, Any]) -> str:
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _container_status(status: Mapping[str, Any], detail: str, conditions: Mapping[str | None, Any]) -> str:
    is_running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            detail = str(waiting["reason"])
        elif ended is not None:
            detail = _ended(ended)
        elif one.get("ready") and "running" in state:
            is_running = True
    if detail == "Completed" and is_running:
        return "Running" if (conditions.get("Ready") or {}).get("status") == "True" else "NotReady"
    return detail


def pod_conditions(obj: Object) -> list[dict[str, str]]:
    """Return the row conditions of a Pod that has ended."""
    phase = (obj.get("status") or {}).get("phase")
    if phase not in ("Succeeded", "Failed"):
        return []
    detail = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": detail}]
