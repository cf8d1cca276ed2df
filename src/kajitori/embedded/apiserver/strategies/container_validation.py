"""Containers of Pods: names, images, resources, environment, mounts, ports, probes."""

from __future__ import annotations

import re
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.strategies.paths import inside_path, relative_path
from kajitori.embedded.apiserver.strategies.pod_volumes import sound_volumes
from kajitori.embedded.apiserver.strategies.resource_names import container_resource_faults

Spec = dict[str, Any]
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MAX_ID = 2147483647
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_FIELD_PATHS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_VALUE_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_MORE_THAN_ONE = "may not have more than one field specified at a time"


def validate_containers(spec: Spec, field: str) -> list[Cause]:
    """Every fault of all containers of a Pod."""
    volumes = sound_volumes(spec.get("volumes") or [])
    host_network = bool(spec.get("hostNetwork"))
    causes: list[Cause] = []
    containers = spec.get("containers") or []
    seen: set[str] = set()
    if not containers:
        causes.append(required(f"{field}.containers"))
    for index, container in enumerate(containers):
        where = f"{field}.containers[{index}]"
        causes += _container(container, where, volumes, host_network, seen)
        causes += _lifecycle(container, where)
        causes += _probes(container, where)
        causes += _restart_policy(container, where)
    causes += _host_ports(containers, f"{field}.containers")
    for index, container in enumerate(spec.get("initContainers") or []):
        where = f"{field}.initContainers[{index}]"
        causes += _container(container, where, volumes, host_network, seen)
        causes += _init_container(container, where)
    for index, container in enumerate(spec.get("ephemeralContainers") or []):
        causes += _container(container, f"{field}.ephemeralContainers[{index}]", volumes, host_network, seen)
    return causes


def _container(
    container: Spec, field: str, volumes: dict[str, Spec], host_network: bool, seen: set[str]
) -> list[Cause]:
    causes: list[Cause] = []
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        causes.append(required(f"{field}.name"))
    else:
        causes += [invalid(f"{field}.name", name, fault) for fault in texts.dns_label(name)]
        if name in seen:
            causes.append(duplicate(f"{field}.name", name))
        seen.add(name)
    if not image:
        causes.append(required(f"{field}.image"))
    elif image != image.strip():
        causes.append(invalid(f"{field}.image", image, "must not have leading or trailing whitespace"))
    policy = container.get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        allowed = ("File", "FallbackToLogsOnError")
        causes.append(not_supported(f"{field}.terminationMessagePolicy", policy or "", allowed))
    causes += _ports(container.get("ports") or [], f"{field}.ports", host_network)
    causes += _env(container.get("env") or [], f"{field}.env")
    causes += _env_from(container.get("envFrom") or [], f"{field}.envFrom")
    causes += _mounts(container, field, volumes)
    pull = container.get("imagePullPolicy")
    if pull not in ("Always", "IfNotPresent", "Never"):
        causes.append(not_supported(f"{field}.imagePullPolicy", pull or "", ("Always", "IfNotPresent", "Never")))
    causes += validate_resources(container.get("resources") or {}, f"{field}.resources")
    return causes + _security(container.get("securityContext") or {}, f"{field}.securityContext")


def validate_resources(resources: Spec, field: str, *, whole_pod: bool = False) -> list[Cause]:
    """Every fault of resource requests and limits: amounts, names, requests over limits, extended resources."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    causes: list[Cause] = []
    needs_limit = False
    for resource, amount in limits.items():
        causes += _amount(resource, amount, f"{field}.limits[{resource}]", whole_pod)
    for resource, amount in requests.items():
        causes += _amount(resource, amount, f"{field}.requests[{resource}]", whole_pod)
        limit = limits.get(resource)
        extended = is_extended(resource)
        if limit is not None:
            more = quantities.parse_nano(amount) - quantities.parse_nano(limit)
            if more and extended:
                detail = f"must be equal to {resource} limit of {limit}"
                causes.append(invalid(f"{field}.requests", amount, detail))
            elif more > 0:
                detail = f"must be less than or equal to {resource} limit of {limit}"
                causes.append(invalid(f"{field}.requests", amount, detail))
        elif extended:
            needs_limit = True
    if needs_limit:
        causes.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
    return causes


def is_extended(resource: str) -> bool:
    """Resources that can't be overcommitted: GPUs and other devices, huge pages."""
    if resource.startswith("hugepages-"):
        return True
    domain = resource.rpartition("/")[0]
    return bool(domain) and not domain.endswith("kubernetes.io") and not resource.startswith("requests.")


def _amount(resource: str, amount: str, field: str, whole_pod: bool) -> list[Cause]:
    causes = container_resource_faults(resource, field)
    nano = quantities.parse_nano(amount)
    if nano < 0:
        causes.append(invalid(field, amount, "must be greater than or equal to 0"))
    elif is_extended(resource) and not resource.startswith("hugepages-") and nano % quantities.NANO:
        causes.append(invalid(field, amount, "must be an integer"))
    elif resource.startswith("hugepages-"):
        causes += _huge_pages(resource, amount, nano, field)
    return causes


def _huge_pages(resource: str, amount: str, nano: int, field: str) -> list[Cause]:
    try:
        page = quantities.parse_nano(resource.removeprefix("hugepages-"))
    except ValueError as error:
        return [invalid(field, resource, str(error))]
    if page <= 0 or nano % page:
        return [invalid(field, amount, f"{amount} is not positive integer multiple of {resource}")]
    return []


def _ports(ports: list[Spec], field: str, host_network: bool) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{field}[{index}]", port.get("name", "")
        if name:
            faults = texts.port_name(name)
            causes += [invalid(f"{where}.name", name, fault) for fault in faults]
            if not faults and name in seen:
                causes.append(duplicate(f"{where}.name", name))
            seen.add(name)
        number, host_port = port.get("containerPort", 0), port.get("hostPort", 0)
        if number == 0:
            causes.append(required(f"{where}.containerPort"))
        else:
            causes += [invalid(f"{where}.containerPort", number, fault) for fault in texts.port_number(number)]
        if host_port:
            causes += [invalid(f"{where}.hostPort", host_port, fault) for fault in texts.port_number(host_port)]
            if host_network and host_port != number:
                detail = "must match `containerPort` when `hostNetwork` is true"
                causes.append(invalid(f"{where}.hostPort", host_port, detail))
        if port.get("protocol") not in ("SCTP", "TCP", "UDP"):
            causes.append(not_supported(f"{where}.protocol", port.get("protocol", ""), ("SCTP", "TCP", "UDP")))
    return causes


def _host_ports(containers: list[Spec], field: str) -> list[Cause]:
    causes: list[Cause] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or []):
            if port.get("hostPort"):
                key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in taken:
                    causes.append(duplicate(f"{field}[{index}].ports[{position}].hostPort", key))
                taken.add(key)
    return causes


def _env(variables: list[Spec], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(variables):
        where, name = f"{field}[{index}]", variable.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        else:
            causes += [invalid(f"{where}.name", name, fault) for fault in texts.env_name(name)]
        if "valueFrom" in variable:
            causes += _value_source(variable, f"{where}.valueFrom")
    return causes


def _value_source(variable: Spec, field: str) -> list[Cause]:
    source = variable["valueFrom"] or {}
    given = [name for name in _VALUE_SOURCES if name in source]
    causes: list[Cause] = []
    if "fieldRef" in source:
        causes += _field_reference(source["fieldRef"], f"{field}.fieldRef")
    if "resourceFieldRef" in source:
        resource = source["resourceFieldRef"].get("resource", "")
        if not resource:
            causes.append(required(f"{field}.resourceFieldRef.resource"))
        elif resource not in _RESOURCE_FIELDS and ".hugepages-" not in resource:
            causes.append(not_supported(f"{field}.resourceFieldRef.resource", resource, _RESOURCE_FIELDS))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            causes += _key_reference(source[name], f"{field}.{name}")
    if not given:
        causes.append(invalid(field, "", _ONE_VALUE_SOURCE))
    elif variable.get("value"):
        causes.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        causes.append(invalid(field, "", _MORE_THAN_ONE))
    return causes


def _field_reference(reference: Spec, field: str) -> list[Cause]:
    path, version = reference.get("fieldPath", ""), reference.get("apiVersion", "v1")
    if not path:
        return [required(f"{field}.fieldPath")]
    subscript = _SUBSCRIPT.fullmatch(path)
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{field}.fieldPath", path, detail)]
    if subscript is not None:
        return [invalid(field, subscript[2], fault) for fault in texts.qualified_name(subscript[2])]
    if path not in _FIELD_PATHS:
        return [invalid(f"{field}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}")]
    return []


def _key_reference(reference: Spec, field: str) -> list[Cause]:
    name, key = reference.get("name", ""), reference.get("key", "")
    causes = [invalid(f"{field}.name", name, fault) for fault in texts.dns_subdomain(name)]
    if not key:
        return [*causes, required(f"{field}.key")]
    return causes + [invalid(f"{field}.key", key, fault) for fault in texts.config_key(key)]


def _env_from(sources: list[Spec], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, source in enumerate(sources):
        where, prefix = f"{field}[{index}]", source.get("prefix", "")
        if prefix:
            causes += [invalid(f"{where}.prefix", prefix, fault) for fault in texts.env_name(prefix)]
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            referred = source[name].get("name", "")
            if not referred:
                causes.append(required(f"{where}.{name}.name"))
            else:
                causes += [invalid(f"{where}.{name}.name", referred, one) for one in texts.dns_subdomain(referred)]
        if not given:
            causes.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            causes.append(invalid(field, "", _MORE_THAN_ONE))
    return causes


def _mounts(container: Spec, field: str, volumes: dict[str, Spec]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    devices = {one.get("name") for one in container.get("volumeDevices") or []}
    for index, mount in enumerate(container.get("volumeMounts") or []):
        where, name, path = f"{field}.volumeMounts[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{where}.name"))
        if name not in volumes:
            causes.append(not_found(f"{where}.name", name))
        if not path:
            causes.append(required(f"{where}.mountPath"))
        if path in seen:
            causes.append(invalid(f"{where}.mountPath", path, "must be unique"))
        seen.add(path)
        if name in devices:
            detail = "must not already exist in volumeDevices"
            causes.append(invalid(f"{where}.name", name, detail))
        sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
        if sub_path:
            causes += relative_path(sub_path, f"{field}.volumeMounts.subPath")
        if expression:
            if sub_path:
                detail = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid(f"{where}.subPathExpr", expression, detail))
            causes += inside_path(expression, f"{field}.volumeMounts.subPathExpr")
        propagation = mount.get("mountPropagation")
        if propagation not in (None, "Bidirectional", "HostToContainer", "None"):
            allowed = ("Bidirectional", "HostToContainer", "None")
            causes.append(not_supported(f"{field}.volumeMounts.mountPropagation", propagation, allowed))
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            causes.append(forbidden(f"{field}.volumeMounts.mountPropagation", detail))
    return causes


def _lifecycle(container: Spec, field: str) -> list[Cause]:
    lifecycle = container.get("lifecycle") or {}
    return [
        one
        for name in ("postStart", "preStop")
        if name in lifecycle
        for one in _handler(lifecycle[name] or {}, f"{field}.lifecycle.{name}")
    ]


def _probes(container: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in _PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        where = f"{field}.{name}"
        causes += _handler(probe, where)
        for number in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            if probe.get(number, 0) < 0:
                causes.append(invalid(f"{where}.{number}", probe[number], "must be greater than or equal to 0"))
        grace = probe.get("terminationGracePeriodSeconds")
        if name == "readinessProbe":
            if grace is not None:
                detail = "must not be set for readinessProbes"
                causes.append(invalid(f"{where}.terminationGracePeriodSeconds", grace, detail))
            continue
        if grace is not None and grace <= 0:
            causes.append(invalid(f"{where}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
        if probe.get("successThreshold", 1) != 1:
            causes.append(invalid(f"{where}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _handler(handler: Spec, field: str) -> list[Cause]:
    given = [name for name in _HANDLERS if name in handler]
    causes = [forbidden(f"{field}.{name}", "may not specify more than 1 handler type") for name in given[1:]]
    if not given:
        return [required(field, "must specify a handler type")]
    name = given[0]
    where, action = f"{field}.{name}", handler[name] or {}
    if name == "exec" and not action.get("command"):
        causes.insert(0, required(f"{where}.command"))
    if name in ("httpGet", "tcpSocket", "grpc"):
        causes[:0] = _port_reference(action.get("port", 0), f"{where}.port")
    if name == "httpGet":
        if not action.get("path"):
            causes.append(required(f"{where}.path"))
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            causes.insert(
                1 if causes else 0, not_supported(f"{where}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
            )
    if name == "sleep" and action.get("seconds", 0) < 0:
        causes.append(invalid(f"{where}.seconds", action["seconds"], "must be non-negative"))
    return causes


def _port_reference(port: Any, field: str) -> list[Cause]:
    faults = texts.port_number(port) if isinstance(port, int) else texts.port_name(port)
    return [invalid(field, port, fault) for fault in faults]


def _restart_policy(container: Spec, field: str) -> list[Cause]:
    policy = container.get("restartPolicy")
    allowed = ("Always", "Never", "OnFailure")
    return [] if policy in (None, *allowed) else [not_supported(f"{field}.restartPolicy", policy, allowed)]


def _init_container(container: Spec, field: str) -> list[Cause]:
    causes = _restart_policy(container, field)
    if container.get("restartPolicy") == "Always":
        return causes + _lifecycle(container, field) + _probes(container, field)
    for name in ("lifecycle", *_PROBES):
        if name in container:
            detail = "may not be set for init containers without restartPolicy=Always"
            causes.append(forbidden(f"{field}.{name}", detail))
    return causes


def _security(context: Spec, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("runAsUser", "runAsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= _MAX_ID:
            causes.append(invalid(f"{field}.{name}", value, f"must be between 0 and {_MAX_ID}, inclusive"))
    if context.get("procMount") not in (None, "Default", "Unmasked"):
        causes.append(not_supported(f"{field}.procMount", context["procMount"], ("Default", "Unmasked")))
    profile = context.get("seccompProfile")
    if profile is not None:
        causes += validate_seccomp(profile, f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(invalid(field, context, detail))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            causes.append(invalid(field, context, detail))
    return causes


def validate_seccomp(profile: Spec | None, field: str) -> list[Cause]:
    """Every fault of a seccomp profile."""
    if profile is None:
        return []
    kind = profile.get("type", "")
    if kind == "Localhost" and not profile.get("localhostProfile"):
        return [required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost")]
    if not kind:
        return [required(f"{field}.type", "type is required when seccompProfile is set")]
    if kind not in _SECCOMP:
        return [not_supported(f"{field}.type", kind, _SECCOMP)]
    if kind != "Localhost" and profile.get("localhostProfile"):
        detail = "can only be set when seccomp type is Localhost"
        return [invalid(f"{field}.localhostProfile", profile["localhostProfile"], detail)]
    return []
