"""Containers as `docker ps` and `docker inspect` show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from kajitori.core.formats.quantities import parse_duration_seconds, parse_spec_memory_bytes
from kajitori.core.spec.image_health import HEALTH_TIMES, NANOSECONDS
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import MAX_RESTARTS
from kajitori.core.spec.status_parts.health import output_of_check
from kajitori.docker.translation.container import (
    NETWORK,
    NO_TIME,
    STARTING,
    UNHEALTHY,
    Container,
    network_id,
    seconds_of,
)
from kajitori.docker.translation.images import image_id

STATUS_CHARACTERS = 80
"""Longest reason in the column STATUS of `docker ps`. A registry's refusal has hundreds of characters."""

FAILED_CHECK = "Unhealthy"
"""Reason of kubelets' events about failed probes."""
KEPT_CHECKS = 5
"""Number of checks in the log of a container's health, as with Docker."""

_EXIT_CODE = re.compile(r"exit code ([0-9]{1,3})(?:: |$)", re.ASCII)

Networks = Mapping[str, Sequence[str]]
"""Names of networks, each with the container's aliases there."""

Ports = Mapping[str, Sequence[Mapping[str, str]]]
"""Addresses and ports of this machine that lead to a container's port, such as `80/tcp`."""


def summary(
    container: Container,
    now: float,
    ports: Ports | None = None,
    networks: Networks | None = None,
) -> dict[str, Any]:
    """Return one entry of `GET /containers/json`. `ports` are those that are open on this machine."""
    networks = container.networks if networks is None else networks
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": container.spec.get("image", ""),
        "ImageID": image_id(str(container.spec.get("image", ""))),
        "Command": " ".join(_words(container)),
        "Created": int(seconds_of(str(container.view["createdAt"]))),
        "Ports": _port_list(container, ports),
        "Labels": container.labels,
        "State": container.state,
        "Status": status_words(container, now),
        "HostConfig": {"NetworkMode": next(iter(networks), NETWORK)},
        "NetworkSettings": {"Networks": _endpoints(container, "", networks)},
        "Mounts": mounts(container),
    }


def inspection(
    container: Container,
    members: Sequence[Mapping[str, Any]],
    ports: Ports | None = None,
    networks: Networks | None = None,
    events: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the answer of `GET /containers/{id}/json`. `members` are those of the run that have a Pod, `ports` those
    that are open on this machine, `events` those of the run, the newest first."""
    words = _words(container)
    member = next((one for one in members if one["rank"] == container.rank), None)
    address = str(member["address"]) if member is not None else ""
    image, is_checked = str(container.spec.get("image", "")), container.has_health_check
    return {
        "Id": f"{container.id}.{container.rank}" if container.rank else container.id,  # docker logs asks by this id
        "Created": container.view["createdAt"],
        "Path": words[0] if words else "",
        "Args": words[1:],
        "State": state(container, member) | ({"Health": _health(container, member, events)} if is_checked else {}),
        "Image": image_id(image),
        "ResolvConfPath": "",
        "HostnamePath": "",
        "HostsPath": "",
        "LogPath": "",
        "Name": f"/{container.shown_name}",
        "RestartCount": container.restarts + int((member or {}).get("restarts") or 0),
        "Driver": "kajitori",
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": "",
        "ExecIDs": None,
        "HostConfig": _host_config(container),
        "GraphDriver": {"Name": "kajitori", "Data": None},
        "Mounts": mounts(container),
        "Config": _config(container, member),
        "NetworkSettings": _network_settings(container, address, ports, networks),
    }


def state(container: Container, member: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `State` of an inspected container. `member` is that of its rank, if it has a Pod."""
    word = container.state
    exit_code = container.exit_code
    if word == "restarting":  # as with Docker, only until the program runs again
        of_member = member.get("lastExitCode") if member is not None else None
        exit_code = int(of_member if of_member is not None else container.last_exit_code or 0)
    return {
        "Status": word,
        "Running": word in ("running", "restarting"),
        "Paused": False,
        "Restarting": word == "restarting",
        "OOMKilled": container.has_ended and container.reason is Reason.OUT_OF_MEMORY,
        "Dead": False,
        "Pid": 1 if word == "running" else 0,
        "ExitCode": exit_code,
        "Error": container.message if container.phase is Phase.FAILED else "",
        "StartedAt": container.started_at or NO_TIME,
        "FinishedAt": container.finished_at or NO_TIME,
    }


def _health(
    container: Container, member: Mapping[str, Any] | None, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the `Health` of an inspected container. The log has failed checks only, since kubelets tell no others."""
    status, pod = container.health, f"Pod/{member['pod']}" if member is not None else ""
    if container.is_member and member is not None:
        status = str(member.get("health") or status)
    failed = [one for one in events if one["reason"] == FAILED_CHECK and one["object"] == pod][:KEPT_CHECKS]
    retries = int(container.spec["health"].get("retries") or 1)
    return {
        "Status": status,
        "FailingStreak": retries if status == UNHEALTHY else 0,
        "Log": [_log_entry(str(one["time"]), str(one["message"])) for one in reversed(failed)],
    }


def _log_entry(time: str, message: str) -> dict[str, Any]:
    """Return an entry of the log for a kubelet's message. Only Kajitori's own kubelets tell the exit code."""
    output = output_of_check(message)
    told = _EXIT_CODE.match(output)
    code, output = (int(told[1]), output[told.end() :]) if told is not None else (1, output)
    return {"Start": time, "End": time, "ExitCode": code, "Output": output}


def status_words(container: Container, now: float) -> str:
    """Return the column STATUS of `docker ps`."""
    if container.view.get("deleting"):
        return "Removal In Progress"
    if container.was_never_started:
        return "Created"
    phase = container.phase
    if container.has_ended:
        return f"Exited ({container.exit_code}) {_ago(now - seconds_of(container.finished_at))} ago"
    if phase is Phase.RUNNING:
        health = "health: starting" if container.health == STARTING else container.health
        words = f" ({health})" if container.has_health_check else ""
        return f"Up {_ago(now - seconds_of(container.started_at))}{words}"
    why = shorten(container.message, STATUS_CHARACTERS, placeholder="…")
    return f"{phase.value}: {why}" if why else phase.value


def mounts(container: Container) -> list[dict[str, Any]]:
    """Return the volumes and folders of a container."""
    return [
        {
            "Type": "volume" if use.get("name") else "bind",
            **({"Name": use["name"], "Driver": "kajitori"} if use.get("name") else {}),
            "Source": use.get("name") or use.get("hostPath", ""),
            "Destination": use["path"],
            "Mode": "ro" if use.get("readOnly") else "",
            "RW": not use.get("readOnly"),
            "Propagation": "" if use.get("name") else "rprivate",
        }
        for use in container.spec.get("volumes") or ()
    ]


def published(container: Container, ports: Ports | None = None) -> dict[str, list[dict[str, str]] | None]:
    """Return the ports of a container by Docker's name, such as `80/tcp`, each with those that lead to it."""
    names = sorted(f"{port}/tcp" for port in container.spec.get("ports") or ())
    bindings_by_port = {name: [dict(one) for one in (ports or {}).get(name, ())] for name in names}
    return {name: bindings or None for name, bindings in bindings_by_port.items()}


def _words(container: Container) -> list[str]:
    return [*(container.spec.get("command") or ()), *(container.spec.get("args") or ())]


def _config(container: Container, member: Mapping[str, Any] | None) -> dict[str, Any]:
    spec, stored = container.spec, container.config
    return {
        "Hostname": str(member["pod"]) if member is not None else container.run,
        "Domainname": "",
        "User": spec.get("user") or "",
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "OpenStdin": False,
        "StdinOnce": False,
        **{key: value for key, value in stored.items() if key not in ("Hostname", "Domainname")},
        "Env": [*container.unset_variables, *(f"{name}={value}" for name, value in (spec.get("env") or {}).items())],
        "Cmd": spec.get("args") or None,
        "Image": spec.get("image", ""),
        "Volumes": None,
        "WorkingDir": spec.get("workingDir") or "",
        "Entrypoint": spec.get("command") or None,
        "OnBuild": None,
        "Labels": container.labels,
        **_health_check(container),
    }


def _health_check(container: Container) -> dict[str, Any]:
    """Return the check of the container's run if its client named none: that of its image, or one that `kaji` gave."""
    check, given = container.spec.get("health"), container.config.get("Healthcheck") or {}
    if not check or given.get("Test"):
        return {}
    command = check["command"]
    times = {
        name: parse_duration_seconds(str(check[field])) * NANOSECONDS
        for name, field in HEALTH_TIMES.items()
        if field in check
    }
    retries = {"Retries": check["retries"]} if "retries" in check else {}
    test = ["CMD-SHELL", command] if isinstance(command, str) else ["CMD", *command]
    return {"Healthcheck": {"Test": test, **times, **retries}}


def _host_config(container: Container) -> dict[str, Any]:
    resources = container.spec.get("resources") or {}
    defaults: dict[str, Any] = {
        "Binds": None,
        "NetworkMode": NETWORK,
        "CgroupnsMode": "private",
        "Isolation": "",
        "Runtime": "runc",
        "PortBindings": {},
        "AutoRemove": False,
        "Privileged": bool(container.spec.get("privileged")),
        "ShmSize": _bytes(resources.get("shm")) or 64 << 20,
        **resource_fields(container),
        "DeviceRequests": _gpu_requests(resources.get("gpu")),
    }
    log = container.host_config.get("LogConfig") or {}
    shown: dict[str, Any] = {"LogConfig": {"Type": log.get("Type") or "json-file", "Config": log.get("Config") or {}}}
    shown["RestartPolicy"] = _restart_policy(container)  # `docker update` changes it
    if container.host_config.get("NetworkMode") in ("default", "nat"):
        shown["NetworkMode"] = NETWORK
    return defaults | dict(container.host_config) | shown


def resource_fields(container: Container) -> dict[str, int]:
    """Return the limits of a container by their fields in a HostConfig."""
    resources = container.spec.get("resources") or {}
    return {"Memory": _bytes(resources.get("memory")), "NanoCpus": _nano_cpus(resources.get("cpu"))}


def _restart_policy(container: Container) -> dict[str, Any]:
    asked = (container.host_config.get("RestartPolicy") or {}).get("Name")
    restarts = int(container.spec.get("restarts") or 0)
    if container.is_service:
        return {"Name": "unless-stopped" if asked == "unless-stopped" else "always", "MaximumRetryCount": 0}
    count = 0 if restarts >= MAX_RESTARTS else restarts
    return {"Name": "on-failure" if restarts else "no", "MaximumRetryCount": count}


def _network_settings(
    container: Container, address: str, open_ports: Ports | None, networks: Networks | None
) -> dict[str, Any]:
    ports = published(container, open_ports) if container.phase is Phase.RUNNING else {}
    return {
        "Bridge": "",
        "SandboxID": "",
        "SandboxKey": "",
        "Ports": ports,
        "IPAddress": address,
        "IPPrefixLen": 32 if address else 0,
        "Gateway": "",
        "MacAddress": "",
        "Networks": _endpoints(container, address, container.networks if networks is None else networks),
    }


def _endpoints(container: Container, address: str, networks: Networks) -> dict[str, Any]:
    return {name: _endpoint(container, address, name, aliases) for name, aliases in networks.items()}


def _endpoint(container: Container, address: str, network: str, aliases: Sequence[str]) -> dict[str, Any]:
    return {
        "IPAMConfig": None,
        "Links": None,
        "Aliases": list(aliases) or None,
        "DriverOpts": container.driver_options.get(network),
        "DNSNames": list(dict.fromkeys((container.name, container.run, *aliases))),
        "NetworkID": network_id(network),
        "EndpointID": container.id if address else "",
        "Gateway": "",
        "IPAddress": address,
        "IPPrefixLen": 32 if address else 0,
        "MacAddress": "",
    }


def _port_list(container: Container, ports: Ports | None) -> list[dict[str, Any]]:
    ports_shown: list[dict[str, Any]] = []
    for name, bindings in published(container, ports).items():
        private, _, kind = name.partition("/")
        port: dict[str, Any] = {"PrivatePort": int(private), "Type": kind or "tcp"}
        hosts = [one for one in bindings or () if str(one.get("HostPort") or "").isdigit()]
        ports_shown += [
            port | {"PublicPort": int(one["HostPort"]), "IP": one.get("HostIp") or "127.0.0.1"} for one in hosts
        ]
        if not hosts:
            ports_shown.append(port)
    return ports_shown


def _bytes(text: object) -> int:
    return parse_spec_memory_bytes(str(text)) if text else 0


def _nano_cpus(cpu: object) -> int:
    text = str(cpu or "0")
    return int(text.removesuffix("m")) * 10**6 if text.endswith("m") else int(float(text) * 10**9)


def _gpu_requests(gpus: object) -> list[dict[str, Any]] | None:
    if not isinstance(gpus, int) or not gpus:
        return None
    return [{"Driver": "", "Count": gpus, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}]


def _ago(seconds: float) -> str:
    """Return a time span in Docker's words."""
    seconds = max(0, int(seconds))
    if seconds < 1:
        return "Less than a second"
    for size, word in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'s' if count > 1 else ''}"
    raise AssertionError("unreachable")
