"""Builds the environment and the command line of a container's program."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.errors import KajitoriError

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)|\$")
_FIELD_WITH_KEY = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")
_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
_DIVISOR_UNITS = {
    "": 1,
    "1": 1,
    "1m": 0,
    "1k": 10**3,
    "1M": 10**6,
    "1G": 10**9,
    "1Ki": 2**10,
    "1Mi": 2**20,
    "1Gi": 2**30,
}


class ConfigError(KajitoriError):
    """A container can't be configured yet, or ever: a ConfigMap, key or field is missing. Kubernetes shows
    `CreateContainerConfigError` and tries again."""

    code = "CreateContainerConfigError"


@dataclass(frozen=True)
class PodFacts:
    """Facts about a Pod that only the node knows."""

    pod_ip: str
    host_ip: str
    node_name: str
    allocatable_cpu_millis: int = 0
    allocatable_memory_bytes: int = 0


Configs = Mapping[tuple[str, str], Mapping[str, str] | None]
"""Contents of the ConfigMaps and Secrets that a container names, by kind and name; None if the object does not
exist."""


def referenced_configs(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of every ConfigMap and Secret that the environment needs."""
    for source in container.get("envFrom") or ():
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if source.get(field):
                yield kind, source[field].get("name", "")
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if value_from.get(field):
                yield kind, value_from[field].get("name", "")


def base_environment(inherited: Sequence[str], uid: int | None, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that come from this machine: where programs are, the user, the language."""
    found = {name: own[name] for name in inherited if name in own}
    found.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    if uid is not None and uid != os.geteuid():
        try:
            entry = pwd.getpwuid(uid)
            found |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
        except KeyError:
            found |= {"HOME": "/", "USER": str(uid), "LOGNAME": str(uid)}
    return found


def container_environment(
    pod: Manifest, container: Mapping[str, Any], base: Mapping[str, str], configs: Configs, facts: PodFacts
) -> dict[str, str]:
    """Return the container's whole environment: the machine's part, then `envFrom`, then `env`; later ones win.

    Raises ConfigError naming the field.
    """
    environment = dict(base)
    environment["HOSTNAME"] = pods.hostname(pod)
    for source in container.get("envFrom") or ():
        environment |= _from_whole_object(source, configs)
    declared: dict[str, str] = {}
    for variable in container.get("env") or ():
        name = variable["name"]
        if variable.get("valueFrom"):
            value = _value_from(pod, container, name, variable["valueFrom"], configs, facts)
            if value is None:
                continue
        else:
            value = expand(variable.get("value") or "", environment | declared)
        declared[name] = value
    return environment | declared


def command_line(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Return `command` and `args` with `$(VAR)` expanded. Raises ConfigError if there is neither.

    An image's own entrypoint is unknown here and counts as empty. So arguments alone are a program, as with most images
    that people train in.
    """
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words:
        image = container.get("image", "")
        raise ConfigError(
            f"there is no command, and this node cannot look it up in the image ({image}): without a container engine, "
            "runs start the machine's own programs",
            hint="name it after the image: IMAGE python3 train.py",
            code="NoCommand",
        )
    return [expand(word, environment) for word in words]


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Expand variables as Kubernetes does: `$(VAR)` is replaced if known, else kept; `$$` is one dollar."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] is None:
            return match[0]
        return environment.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def field_value(pod: Manifest, path: str, facts: PodFacts) -> str:
    """Return a `fieldRef` of the downward API. Raises ConfigError for an unknown path."""
    metadata, spec = pod["metadata"], pod["spec"]
    if keyed := _FIELD_WITH_KEY.match(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", "default"),
        "metadata.uid": metadata["uid"],
        "metadata.labels": _environment_lines(metadata.get("labels")),
        "metadata.annotations": _environment_lines(metadata.get("annotations")),
        "spec.nodeName": facts.node_name,
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
    }
    if path not in known:
        raise ConfigError(f"the downward API has no field {path!r}")
    return str(known[path])


def resource_value(pod: Manifest, container: Mapping[str, Any], reference: Mapping[str, Any], facts: PodFacts) -> str:
    """Return a `resourceFieldRef`, divided and rounded up; a missing limit is the whole node. Raises ConfigError."""
    named = reference.get("containerName")
    target = pods.container(pod, named) if named else container
    if target is None:
        raise ConfigError(f"resourceFieldRef names container {named!r}, which this Pod does not have")
    resource = str(reference.get("resource"))
    side, _, kind = resource.partition(".")
    amounts = pods.container_limit(target) if side == "limits" else pods.container_request(target)
    divisor = str(reference.get("divisor") or "")
    unit = _DIVISOR_UNITS.get("" if divisor == "0" else divisor)
    if unit is None or kind not in ("cpu", "memory", "ephemeral-storage"):
        raise ConfigError(f"resourceFieldRef {resource!r} with divisor {divisor!r} is not supported")
    if kind == "cpu":
        millis = amounts.cpu_millis or (facts.allocatable_cpu_millis if side == "limits" else 0)
        return str(millis if unit == 0 else -(-millis // 1000))
    amount = amounts.memory_bytes if kind == "memory" else amounts.ephemeral_bytes
    if not amount and side == "limits" and kind == "memory":
        amount = facts.allocatable_memory_bytes
    return str(-(-amount // max(1, unit)))


def _from_whole_object(source: Mapping[str, Any], configs: Configs) -> dict[str, str]:
    kind = "ConfigMap" if source.get("configMapRef") else "Secret"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    content = configs.get((kind, reference.get("name", "")))
    if content is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f'{kind.lower()} "{reference.get("name", "")}" not found')
    prefix = source.get("prefix") or ""
    return {prefix + name: value for name, value in content.items() if _NAME.fullmatch(prefix + name)}


def _value_from(
    pod: Manifest,
    container: Mapping[str, Any],
    name: str,
    value_from: Mapping[str, Any],
    configs: Configs,
    facts: PodFacts,
) -> str | None:
    if value_from.get("fieldRef"):
        return field_value(pod, value_from["fieldRef"]["fieldPath"], facts)
    if value_from.get("resourceFieldRef"):
        return resource_value(pod, container, value_from["resourceFieldRef"], facts)
    kind = "ConfigMap" if value_from.get("configMapKeyRef") else "Secret"
    reference = value_from.get("configMapKeyRef") or value_from.get("secretKeyRef")
    if not reference:
        raise ConfigError(f"env {name}: valueFrom {sorted(value_from)} is not supported")
    content = configs.get((kind, reference.get("name", "")))
    if content is not None and reference["key"] in content:
        return content[reference["key"]]
    if reference.get("optional"):
        return None
    if content is None:
        raise ConfigError(f'{kind.lower()} "{reference.get("name", "")}" not found (env {name})')
    raise ConfigError(f"couldn't find key {reference['key']} in {kind} {reference['name']} (env {name})")


def _environment_lines(entries: Mapping[str, str] | None) -> str:
    escaped = {name: value.replace('"', '\\"').replace("\n", "\\n") for name, value in (entries or {}).items()}
    return "\n".join(f'{name}="{value}"' for name, value in sorted(escaped.items()))
