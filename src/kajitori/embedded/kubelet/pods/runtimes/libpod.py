"""Requests in the format of Podman's own API (libpod). It accepts CDI devices in versions before 5.4, in which Podman's
Docker-compatible API does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.embedded.kubelet.engine.client import LIBPOD

CREATE = f"{LIBPOD}/containers/create"
"""Path that creates a container."""
_NAMESPACES = {"PidMode": "pidns", "IpcMode": "ipcns"}
_SAME = {
    "Image": "image",
    "Labels": "labels",
    "Tty": "terminal",
    "OpenStdin": "stdin",
    "Entrypoint": "entrypoint",
    "Cmd": "command",
    "WorkingDir": "work_dir",
    "Hostname": "hostname",
    "User": "user",
    "Healthcheck": "healthconfig",
}
_SAME_OF_HOST = {
    "CapAdd": "cap_add",
    "CapDrop": "cap_drop",
    "GroupAdd": "groups",
    "OomScoreAdj": "oom_score_adj",
    "Privileged": "privileged",
    "ReadonlyRootfs": "read_only_filesystem",
}
_OF_PODMAN = ("AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce", "RestartPolicy")
"""Fields that are left out, because Podman sets them to the same values by default."""


def specification(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return Podman's request for the container that `body` describes in Docker's format. Raises KeyError for an
    unknown field, so that no field is lost.
    """
    rest = dict(body)
    host = dict(rest.pop("HostConfig"))
    made: dict[str, Any] = {
        "name": name,
        "env": dict(entry.split("=", 1) for entry in rest.pop("Env")),
        "mounts": [_mount(mount) for mount in host.pop("Mounts")],
        "netns": _namespace_document(host.pop("NetworkMode")),
        "log_configuration": {"driver": host.pop("LogConfig")["Type"]},
        "devices": [{"path": path} for request in host.pop("DeviceRequests", ()) for path in request["DeviceIDs"]],
        "resource_limits": _take_limits(host),
        **_security_document(host.pop("SecurityOpt")),
    }
    for field in _OF_PODMAN:
        (rest if field in rest else host).pop(field, None)
    made |= {_SAME[field]: value for field, value in rest.items()}
    for field, value in host.items():
        made |= (
            {_NAMESPACES[field]: _namespace_document(value)} if field in _NAMESPACES else {_SAME_OF_HOST[field]: value}
        )
    return made


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    options = ["rbind", "ro" if mount["ReadOnly"] else "rw"]
    return {"type": mount["Type"], "source": mount["Source"], "destination": mount["Target"], "options": options}


def _namespace_document(mode: str) -> dict[str, str]:
    kind, _, path = mode.partition(":")
    return {"nsmode": "path", "value": path} if kind == "ns" else {"nsmode": mode}


def _take_limits(host: dict[str, Any]) -> dict[str, Any]:
    """Remove the limits from a request in Docker's format; return those of the container's control groups."""
    cpu = {"shares": "CpuShares", "quota": "CpuQuota", "period": "CpuPeriod"}
    memory = {"limit": "Memory", "swap": "MemorySwap"}
    groups = {"cpu": cpu, "memory": memory, "pids": {"limit": "PidsLimit"}}
    found = {
        group: {field: value for field, name in names.items() if (value := host.pop(name, 0))}
        for group, names in groups.items()
    }
    return {group: limits for group, limits in found.items() if limits}


def _security_document(options: list[str]) -> dict[str, Any]:
    words: dict[str, dict[str, Any]] = {
        "label=disable": {"selinux_opts": ["disable"]},
        "no-new-privileges": {"no_new_privileges": True},
        "seccomp=unconfined": {"seccomp_profile_path": "unconfined"},
    }
    found: dict[str, Any] = {}
    for option in options:
        found |= words[option]
    return found
