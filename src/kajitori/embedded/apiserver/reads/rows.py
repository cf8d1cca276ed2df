"""Cells of `kubectl get` that are more than a value of the object (k8s.io/kubernetes/pkg/printers/internalversion)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kajitori.embedded.apiserver.reads import durations
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.storage import is_default_class
from kajitori.embedded.apiserver.strategies.strategy import at_path

_NONE = "<none>"
_UNSET = "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_PREFIX = "node-role.kubernetes.io/"
_SHOWN_ENDPOINTS = 3


def data_size(obj: Object) -> int:
    """Return the number of keys of a ConfigMap or Secret."""
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def phase(obj: Object) -> str:
    """Return the phase of a claim or volume, or that it is being deleted."""
    return "Terminating" if at_path(obj, "metadata.deletionTimestamp") else str(at_path(obj, "status.phase") or "")


def modes(obj: Object, *, path: str) -> str:
    """Return the access modes at a path in short form."""
    return ",".join(short for long, short in _MODES.items() if long in (at_path(obj, path) or []))


def device_claim_state(obj: Object) -> str:
    """Return whether devices are allocated to a ResourceClaim, and whether a Pod has it."""
    states = [
        word
        for word, path in (
            ("deleted", "metadata.deletionTimestamp"),
            ("allocated", "status.allocation"),
            ("reserved", "status.reservedFor"),
        )
        if at_path(obj, path)
    ]
    return ",".join(states) if "allocated" in states else ",".join([*states, "pending"])


def volume_claim(obj: Object) -> str:
    """Return the claim that a volume is bound to."""
    owner = at_path(obj, "spec.claimRef") or {}
    return f"{owner.get('namespace', '')}/{owner.get('name', '')}" if owner else ""


def class_name(obj: Object) -> str:
    """Return the name of a StorageClass, and whether it is the default."""
    return f"{obj['metadata']['name']}{' (default)' if is_default_class(obj) else ''}"


def count(obj: Object, *, path: str) -> int:
    """Return the length of the list at a path."""
    return len(at_path(obj, path) or [])


def labels(obj: Object, *, path: str) -> str:
    """Return the labels at a path: `app=web,tier=front`."""
    pairs = sorted((at_path(obj, path) or {}).items())
    return ",".join(f"{key}={value}" for key, value in pairs) or _NONE


def quota(obj: Object, *, of_limits: bool) -> str:
    """Return used and hard amounts of a quota: those of limits, or the others."""
    hard, used = at_path(obj, "status.hard") or {}, at_path(obj, "status.used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == of_limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def joined(obj: Object, *, path: str, name: str) -> str:
    """Return a field of each item of the list at a path."""
    return ",".join(str(one.get(name, "")) for one in at_path(obj, path) or [])


# -- Events


def last_seen(obj: Object) -> str | None:
    """Return the time of an event's last occurrence."""
    return at_path(obj, "series.lastObservedTime") or obj.get("lastTimestamp") or first_seen(obj)


def first_seen(obj: Object) -> str | None:
    """Return the time of an event's first occurrence."""
    return obj.get("firstTimestamp") or obj.get("eventTime")


def event_object(obj: Object) -> str:
    """Return the object that an event is about: `pod/bert`."""
    about = obj.get("involvedObject") or {}
    return "/".join(part for part in (str(about.get("kind", "")).lower(), about.get("name")) if part)


def event_source(obj: Object) -> str:
    """Return the component and host that reported an event."""
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent")
    return ", ".join(part for part in (component, source.get("host") or obj.get("reportingInstance")) if part)


def event_message(obj: Object) -> str:
    """Return the message of an event without white space around it."""
    return str(obj.get("message", "")).strip()


def event_count(obj: Object) -> int:
    """Return how often an event occurred."""
    return at_path(obj, "series.count") or obj.get("count") or 1


# -- Nodes and Services


def node_status(obj: Object) -> str:
    """Return whether a node is ready, and whether it takes Pods."""
    conditions = at_path(obj, "status.conditions") or []
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at_path(obj, "spec.unschedulable") else word


def node_roles(obj: Object) -> str:
    """Return the roles that a node's labels name."""
    labels = at_path(obj, "metadata.labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    return ",".join(sorted(one for one in roles | {labels.get("kubernetes.io/role", "")} if one)) or _NONE


def external_address(obj: Object) -> str:
    """Return the addresses of a Service outside the cluster."""
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or _NONE
    if spec.get("type") == "LoadBalancer":
        ingress = at_path(obj, "status.loadBalancer.ingress") or []
        return ",".join(one.get("ip") or one.get("hostname", "") for one in ingress) or "<pending>"
    return ",".join(spec.get("externalIPs") or []) or _NONE


def service_ports(obj: Object) -> str:
    """Return the ports of a Service: `80:30080/TCP`."""
    ports = [
        f"{port.get('port')}{':' if port.get('nodePort') else ''}{port.get('nodePort') or ''}/{port.get('protocol')}"
        for port in at_path(obj, "spec.ports") or []
    ]
    return ",".join(ports) or _NONE


def endpoints(obj: Object) -> str:
    """Return the first addresses of an Endpoints."""
    return _shortened_list(
        f"{address.get('ip')}:{port['port']}" if port.get("port") else f"{address.get('ip')}"
        for subset in obj.get("subsets") or []
        for port in subset.get("ports") or [{}]
        for address in subset.get("addresses") or []
    )


def slice_ports(obj: Object) -> str:
    """Return the first ports of an EndpointSlice."""
    return _shortened_list((str(one.get("port") or "*") for one in obj.get("ports") or []), _UNSET)


def slice_addresses(obj: Object) -> str:
    """Return the first addresses of an EndpointSlice."""
    return _shortened_list((ip for one in obj.get("endpoints") or [] for ip in one.get("addresses") or []), _UNSET)


def _shortened_list(found: Iterable[str], nothing: str = _NONE) -> str:
    values = list(found)
    more = len(values) - _SHOWN_ENDPOINTS
    shown = ",".join(values[:_SHOWN_ENDPOINTS])
    return f"{shown} + {more} more..." if more > 0 else shown or nothing


# -- Pods


def pod_ready(obj: Object) -> str:
    """Return how many of a Pod's containers and sidecars are ready: `1/2`."""
    sidecars = _sidecar_names(obj)
    statuses = [*(at_path(obj, "status.containerStatuses") or []), *_sidecar_statuses(obj)]
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in statuses)
    return f"{ready}/{len(at_path(obj, 'spec.containers') or []) + len(sidecars)}"


def _sidecar_names(obj: Object) -> set[str]:
    planned = at_path(obj, "spec.initContainers") or []
    return {one.get("name", "") for one in planned if one.get("restartPolicy") == "Always"}


def _sidecar_statuses(obj: Object) -> list[Object]:
    return [one for one in at_path(obj, "status.initContainerStatuses") or [] if one.get("name") in _sidecar_names(obj)]


def pod_restarts(obj: Object, now: datetime | None = None) -> str:
    """Return how often a Pod's containers were restarted, and when for the last time: `2 (60s ago)`."""
    statuses = [*(at_path(obj, "status.containerStatuses") or []), *_sidecar_statuses(obj)]
    count = sum(int(one.get("restartCount") or 0) for one in statuses)
    ended = [durations.parse(at_path(one, "lastState.terminated.finishedAt")) for one in statuses]
    moments = [moment for moment in ended if moment is not None]
    if not count or not moments:
        return str(count)
    return f"{count} ({durations.human(((now or datetime.now(UTC)) - max(moments)).total_seconds())} ago)"


def pod_gates(obj: Object) -> str:
    """Return how many readiness gates of a Pod are passed."""
    gates = {one.get("conditionType") for one in at_path(obj, "spec.readinessGates") or []}
    conditions = at_path(obj, "status.conditions") or []
    passed = sum(one.get("type") in gates and one.get("status") == "True" for one in conditions)
    return f"{passed}/{len(gates)}" if gates else _NONE


def pod_status(obj: Object) -> str:
    """Return the text of the STATUS column: the phase, or the most specific reason of its containers."""
    status = obj.get("status") or {}
    detail = str(status.get("reason") or status.get("phase", ""))
    conditions = {one.get("type"): one for one in status.get("conditions") or []}
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        detail = "SchedulingGated"
    initializing = _init_status(obj)
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


def _init_status(obj: Object) -> str:
    planned, sidecars = at_path(obj, "spec.initContainers") or [], _sidecar_names(obj)
    for index, one in enumerate(at_path(obj, "status.initContainerStatuses") or []):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        if ended is not None:
            return f"Init:{_end_reason(ended)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(planned)}"
    return ""


def _end_reason(state: Mapping[str, Any]) -> str:
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
            detail = _end_reason(ended)
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
