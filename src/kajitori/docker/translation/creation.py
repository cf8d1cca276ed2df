"""From the body of `POST /containers/create` to a request for a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from kajitori.client.submit.borrowed_options import BORROWED
from kajitori.core.spec.run import after_of, name_fault
from kajitori.core.words import texts
from kajitori.core.words.names import RUN_NAME_MAX_LENGTH
from kajitori.docker.translation.container import ANNOTATION, NETWORK, Container
from kajitori.errors import Fault, InvalidInput

CONTAINER_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", re.ASCII)

KEPT_CREATED = "10m"
"""With --rm: time after which the cluster deletes an ended run by itself, if the bridge is not there to do it. A
container that was created and not started counts as ended."""

LABEL_PREFIX = "kaji."

SPEC_OF_LABELS: Mapping[str, tuple[str, ...]] = {
    "replicas": ("replicas",),
    "min-replicas": ("minReplicas",),
    "array": ("array",),
    "launcher": ("launcher",),
    "type": ("type",),
    "qos": ("qos",),
    "priority": ("priority",),
    "time-limit": ("timeLimit",),
    "restarts": ("restarts",),
    "grace": ("grace",),
    "stuck-after": ("stuckAfter",),
    "gpu-type": ("resources", "gpuType"),
    "whole-node": ("resources", "wholeNode"),
    "checkpoint": ("checkpoint", "path"),
    "tensorboard": ("tensorboard",),
    "after": ("after",),
}
"""Field of the spec that a label `kaji.NAME` sets."""

_NUMBERS = frozenset({"replicas", "min-replicas", "restarts"})
_SWITCHES = frozenset({"whole-node"})
_RUNS = frozenset({"after"})
"""Labels with a list of other runs, separated by commas."""

LOG_DRIVERS = frozenset(
    {"awslogs", "etwlogs", "fluentd", "gcplogs", "gelf", "journald", "json-file", "local", "none", "splunk", "syslog"}
)
"""Docker's own. All of them keep the log as the cluster does, which the client is told."""

_BUILT = frozenset({"Env", "Cmd", "Entrypoint", "Image", "WorkingDir", "User", "Volumes", "OnBuild"})
"""Fields of a configuration that are read back from the spec."""

_CONFIG_OPTIONS = {
    "Hostname": "--hostname",
    "Domainname": "--domainname",
    "MacAddress": "--mac-address",
    "StopSignal": "--stop-signal",
}
_HOST_OPTIONS = {
    "BlkioDeviceReadBps": "--device-read-bps",
    "BlkioDeviceReadIOps": "--device-read-iops",
    "BlkioDeviceWriteBps": "--device-write-bps",
    "BlkioDeviceWriteIOps": "--device-write-iops",
    "BlkioWeight": "--blkio-weight",
    "BlkioWeightDevice": "--blkio-weight-device",
    "CapAdd": "--cap-add",
    "CapDrop": "--cap-drop",
    "CgroupParent": "--cgroup-parent",
    "CgroupnsMode": "--cgroupns",
    "CpuPeriod": "--cpu-period",
    "CpuQuota": "--cpu-quota",
    "CpuRealtimePeriod": "--cpu-rt-period",
    "CpuRealtimeRuntime": "--cpu-rt-runtime",
    "CpuShares": "--cpu-shares",
    "CpusetCpus": "--cpuset-cpus",
    "CpusetMems": "--cpuset-mems",
    "DeviceCgroupRules": "--device-cgroup-rule",
    "Devices": "--device",
    "Dns": "--dns",
    "DnsOptions": "--dns-option",
    "DnsSearch": "--dns-search",
    "ExtraHosts": "--add-host",
    "GroupAdd": "--group-add",
    "Init": "--init",
    "Isolation": "--isolation",
    "KernelMemory": "--kernel-memory",
    "Links": "--link",
    "MemoryReservation": "--memory-reservation",
    "MemorySwap": "--memory-swap",
    "MemorySwappiness": "--memory-swappiness",
    "OomKillDisable": "--oom-kill-disable",
    "OomScoreAdj": "--oom-score-adj",
    "PidMode": "--pid",
    "PidsLimit": "--pids-limit",
    "PublishAllPorts": "--publish-all",
    "ReadonlyRootfs": "--read-only",
    "Runtime": "--runtime",
    "SecurityOpt": "--security-opt",
    "StorageOpt": "--storage-opt",
    "Sysctls": "--sysctl",
    "Tmpfs": "--tmpfs",
    "UTSMode": "--uts",
    "Ulimits": "--ulimit",
    "UsernsMode": "--userns",
    "VolumeDriver": "--volume-driver",
    "VolumesFrom": "--volumes-from",
}
"""Option of a field that has no meaning on the cluster. What is said about it is the same as in `kaji run`."""

_UNSET: Mapping[str, tuple[object, ...]] = {
    "MemorySwappiness": (-1,),
    "PidsLimit": (-1,),
    "MemorySwap": (-1,),
    "VolumeDriver": ("local",),
    "CgroupnsMode": ("private", "host"),
    "Isolation": ("default",),
    "SecurityOpt": (),
}
"""Further values with which clients leave a field alone, besides empty ones."""

_IGNORED = frozenset({"ContainerIDFile", "ConsoleSize", "Annotations", "MaskedPaths", "ReadonlyPaths", "Cgroup"})
"""Fields that concern the client alone, or say how the daemon confines programs."""
_WINDOWS = frozenset({"CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth"})

_OWN_HOST = frozenset(
    {
        "AutoRemove",
        "Binds",
        "DeviceRequests",
        "IpcMode",
        "LogConfig",
        "Memory",
        "Mounts",
        "NanoCpus",
        "NetworkMode",
        "PortBindings",
        "Privileged",
        "RestartPolicy",
        "ShmSize",
    }
)
_OWN_CONFIG = frozenset(
    {
        "ArgsEscaped",
        "AttachStderr",
        "AttachStdin",
        "AttachStdout",
        "ExposedPorts",
        "Healthcheck",
        "Labels",
        "NetworkDisabled",
        "OpenStdin",
        "Shell",
        "StdinOnce",
        "StopTimeout",
        "Tty",
    }
)


@dataclass
class Creation:
    """A request for a run, and what is said to the client about it."""

    name: str
    """Name of the container; empty if the server is to make one."""
    spec: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    """Parts of the container's configuration that are stored with the run."""
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def complain(self, option: str, message: str, hint: str = "", value: object = "") -> None:
        self.faults.append(Fault(option, message, str(value), hint))

    def body(self, namespace: str) -> dict[str, Any]:
        """Return the body of `POST /v1/runs`. The run is created stopped: starting a container resumes its run."""
        document: dict[str, Any] = {"spec": self.spec | {"stopped": True}}
        if self.name:
            document["name"] = run_name(self.name)
        if namespace:
            document["namespace"] = namespace
        if self.labels:
            document["labels"] = self.labels
        document["annotations"] = {ANNOTATION: json.dumps(self.notes, separators=(",", ":"))}
        return document


def read_creation(body: Mapping[str, Any], name: str) -> Creation:
    """Return the request for a container. Raises InvalidInput with everything that is refused here."""
    made = Creation(name)
    host = body.get("HostConfig") or {}
    if name:
        _check_name(made, "--name")
    if not body.get("Image"):
        made.complain("Image", "a container needs an image")
    _program(made, body)
    _resources(made, host)
    _mounts(made, body, host)
    _ports(made, body, host)
    _life(made, body, host)
    _network(made, host, body.get("NetworkingConfig") or {})
    _labels(made, body.get("Labels") or {})
    known = _OWN_CONFIG | _BUILT | {"HostConfig", "NetworkingConfig"}
    _answer_others(made, body, _CONFIG_OPTIONS, known)
    _answer_others(made, host, _HOST_OPTIONS, _OWN_HOST)
    if made.faults:
        raise InvalidInput(made.faults)
    config = {key: value for key, value in body.items() if key in _OWN_CONFIG | {"Hostname"} and value}
    kept_host = {key: value for key, value in host.items() if not _is_unset(key, value) and key not in _IGNORED}
    made.notes = {"Name": name, "Config": config | {"Labels": body.get("Labels") or {}}, "HostConfig": kept_host}
    made.notes["Networks"] = _networks(host, body.get("NetworkingConfig") or {})
    return made


def renamed(container: Container, name: str) -> Creation:
    """Return the request for a container like one that was never started, with its id and another name.

    Raises InvalidInput for a name that a container can't have.
    """
    made = Creation(name, dict(container.spec), dict(container.view.get("labels") or {}))
    _check_name(made, "name")
    if made.faults:
        raise InvalidInput(made.faults)
    made.notes = {**container.notes, "Name": name, "Id": container.id}
    return made


def _check_name(made: Creation, option: str) -> None:
    if not CONTAINER_NAME.fullmatch(made.name):
        made.complain(option, "use letters, digits, '_', '.' and '-'; begin with a letter or digit", value=made.name)


def run_name(name: str) -> str:
    """Return the name of the run of a container: the same if a run may have it, else one that is like it."""
    if name_fault(name) is None:
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"c-{plain}"
    digest = sha256(name.encode()).hexdigest()[:6]
    return f"{plain[: RUN_NAME_MAX_LENGTH - 7].rstrip('-')}-{digest}"


def _program(made: Creation, body: Mapping[str, Any]) -> None:
    spec = made.spec
    if body.get("Image"):
        spec["image"] = str(body["Image"])
    entrypoint, words = _word_list(body.get("Entrypoint")), _word_list(body.get("Cmd")) or []
    if entrypoint == [""]:  # `--entrypoint ""`: the first word is the program
        entrypoint, words = words[:1], words[1:]
    if entrypoint:
        spec["command"] = entrypoint
    if words:
        spec["args"] = words
    spec |= {"stdin": True} if body.get("OpenStdin") else {}
    spec |= {"tty": True} if body.get("Tty") else {}
    if body.get("WorkingDir"):
        spec["workingDir"] = body["WorkingDir"]
    if body.get("User"):
        spec["user"] = "0" if body["User"] == "root" else str(body["User"])
    environment = {}
    for word in body.get("Env") or ():
        key, equals, value = str(word).partition("=")
        if equals:
            environment[key] = value
        else:
            made.complain("--env", "has no value", "write NAME=VALUE; an image's variable can't be removed", value=key)
    if environment:
        spec["env"] = environment


def _word_list(words: object) -> list[str] | None:
    if words is None:
        return None
    return [words] if isinstance(words, str) else [str(word) for word in words]  # type: ignore[attr-defined]


def _resources(made: Creation, host: Mapping[str, Any]) -> None:
    resources: dict[str, Any] = {}
    if host.get("Memory"):
        resources["memory"] = str(host["Memory"])
    if host.get("ShmSize"):
        resources["shm"] = str(host["ShmSize"])
    if host.get("NanoCpus"):
        resources["cpu"] = f"{max(1, round(host['NanoCpus'] / 10**6))}m"
    for request in host.get("DeviceRequests") or ():
        _gpus(made, resources, request)
    if resources:
        made.spec["resources"] = resources
    if host.get("Privileged"):
        made.spec["privileged"] = True


def _gpus(made: Creation, resources: dict[str, Any], request: Mapping[str, Any]) -> None:
    kinds = {kind for kinds in request.get("Capabilities") or () for kind in kinds}
    if "gpu" not in kinds:
        made.complain("--device", "only GPUs can be requested as devices", "say --gpus 8", value=request.get("Driver"))
    elif request.get("DeviceIDs"):
        devices = ",".join(request["DeviceIDs"])
        made.complain("--gpus", "which GPUs a member gets is decided by its node", "say --gpus NUMBER", value=devices)
    elif request.get("Count", 0) < 0:
        resources["wholeNode"] = True  # all GPUs of the node; needs --label kaji.gpu-type
    else:
        resources["gpu"] = int(request.get("Count") or 1)


def _mounts(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    found = []
    for bind in host.get("Binds") or ():
        source, _, rest = str(bind).partition(":")
        path, _, mode = rest.partition(":")
        if not path:
            made.complain("--volume", "an anonymous volume would be lost", "name one: -v NAME:PATH", value=bind)
            continue
        others = set(filter(None, mode.split(","))) - {"ro", "rw", "z", "Z"}
        if others:
            made.complain("--volume", "the only mode is ro", "leave the others out", value=",".join(sorted(others)))
        found.append(_use(source, path, is_folder=source.startswith("/"), read_only="ro" in mode.split(",")))
    for mount in host.get("Mounts") or ():
        kind, source, path = mount.get("Type"), str(mount.get("Source") or ""), str(mount.get("Target") or "")
        if kind not in ("bind", "volume"):
            made.complain("--mount", f"type {kind} is not there", "use type=bind or type=volume", value=path)
        elif not source:
            made.complain("--mount", "an anonymous volume would be lost", "name it: source=NAME", value=path)
        else:
            found.append(_use(source, path, is_folder=kind == "bind", read_only=bool(mount.get("ReadOnly"))))
    named = {use["path"] for use in found}
    for path in body.get("Volumes") or {}:
        if path not in named:
            made.complain("--volume", "an anonymous volume would be lost", f"name one: -v NAME:{path}", value=path)
    if found:
        made.spec["volumes"] = found


def _use(source: str, path: str, *, is_folder: bool, read_only: bool) -> dict[str, Any]:
    use: dict[str, Any] = {"hostPath" if is_folder else "name": source, "path": path}
    return use | ({"readOnly": True} if read_only else {})


def _ports(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    ports = set()
    for name in [*(body.get("ExposedPorts") or ()), *(host.get("PortBindings") or ())]:
        number, _, kind = str(name).partition("/")
        if kind not in ("", "tcp"):
            made.complain("--publish", f"{kind} is not forwarded", "publish TCP ports only", value=name)
        elif not number.isdigit():
            made.complain("--publish", "is no port", "write ports one by one: -p 8080:80", value=name)
        else:
            ports.add(int(number))
    if ports:
        made.spec["ports"] = sorted(ports)


def _life(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    policy = host.get("RestartPolicy") or {}
    kind, count = policy.get("Name") or "no", int(policy.get("MaximumRetryCount") or 0)
    if kind == "on-failure":
        made.spec["restarts"] = count or 1_000_000
    elif kind in ("always", "unless-stopped"):
        made.spec["type"] = "service"
    elif kind != "no":
        made.complain("--restart", "is not known", "use no, on-failure[:N], always or unless-stopped", value=kind)
    if body.get("StopTimeout") is not None:
        made.spec["grace"] = f"{max(0, int(body['StopTimeout']))}s"
    if host.get("AutoRemove"):
        made.spec["removeAfter"] = KEPT_CREATED
    test = (body.get("Healthcheck") or {}).get("Test") or []
    if test and test != ["NONE"]:
        _refuse(made, "--health-cmd", " ".join(map(str, test)))
    log = host.get("LogConfig") or {}
    kind = str(log.get("Type") or "json-file")
    if kind not in LOG_DRIVERS:
        made.complain("--log-driver", f"no log driver named {kind!r} is registered", "leave it out", value=kind)
    elif kind not in ("json-file", "local", "journald") or log.get("Config"):
        _warn(made, "--log-driver")
    if host.get("IpcMode") not in (None, "", "private", "shareable"):
        hint = "say --shm-size 8g for a large /dev/shm"
        made.complain("--ipc", "members share no memory with others", hint, value=host["IpcMode"])


def _network(made: Creation, host: Mapping[str, Any], networking: Mapping[str, Any]) -> None:
    mode = str(host.get("NetworkMode") or "default")
    if mode == "host":
        made.spec["hostNetwork"] = True
    elif mode == "none":
        made.complain("--network", "a run without network is not possible", "leave it out", value=mode)
    elif mode.startswith("container:"):
        made.complain("--network", "runs do not share a network", "reach the other run by its name", value=mode)
    elif mode not in ("default", "bridge", "nat"):
        made.warnings.append(f"network {mode}: runs of a namespace reach each other by name; networks do not part them")
    aliases = {
        alias
        for endpoint in (networking.get("EndpointsConfig") or {}).values()
        for alias in (endpoint or {}).get("Aliases") or ()
    } - {made.name}
    if aliases:
        names = ", ".join(sorted(aliases))
        made.warnings.append(f"--network-alias {names}: a run is reached by its own name only, so choose --name")


def _networks(host: Mapping[str, Any], networking: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the networks that a client asked for, each with the container's aliases there."""
    endpoints = networking.get("EndpointsConfig") or {}
    found = {name: list((endpoint or {}).get("Aliases") or ()) for name, endpoint in endpoints.items()}
    mode = str(host.get("NetworkMode") or "default")
    return found or {NETWORK if mode in ("default", "nat") else mode: []}


def _labels(made: Creation, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if key.startswith(LABEL_PREFIX):
            _set_by_label(made, key, str(value))
        elif not texts.qualified_name(key) and not texts.label_value(str(value)) and "kajitori.dev/" not in key:
            made.labels[key] = str(value)  # the others are kept as notes only, since Kubernetes refuses them


def _set_by_label(made: Creation, key: str, text: str) -> None:
    name = key.removeprefix(LABEL_PREFIX)
    if name not in SPEC_OF_LABELS:
        known = ", ".join(LABEL_PREFIX + known for known in sorted(SPEC_OF_LABELS))
        made.complain("--label", f"{key} is not known", f"use one of {known}", value=text)
        return
    value: Any = text
    if name in _NUMBERS:
        if not text.isascii() or not text.isdigit():
            made.complain("--label", f"{key} must be a number", f"write {key}=4", value=text)
            return
        value = int(text)
    elif name in _SWITCHES:
        value = text.lower() in ("", "1", "true", "yes")
    elif name in _RUNS:
        value = [after_of(word.strip()) for word in text.split(",") if word.strip()]
    *above, last = SPEC_OF_LABELS[name]
    target = made.spec
    for part in above:
        target = target.setdefault(part, {})
    target[last] = value


def _answer_others(
    made: Creation, fields: Mapping[str, Any], options: Mapping[str, str], known: frozenset[str]
) -> None:
    """Refuse fields that cannot be obeyed, and warn of those that change nothing."""
    for key, value in _set_fields(fields, known):
        if key in options:
            option = options[key]
            if BORROWED[option].is_accepted:
                _warn(made, option)
            else:
                _refuse(made, option, _shown(value))
        elif key in _WINDOWS:
            made.complain(key, "is for Windows", "leave it out", value=_shown(value))
        elif options is _CONFIG_OPTIONS:  # some libraries send their own fields, or those of a HostConfig here
            made.warnings.append(f"{key} is ignored, as Docker's daemon does: it is no field of a container")
        else:
            made.complain(key, "is not known to kaji docker", "leave it out", value=_shown(value))


def _set_fields(fields: Mapping[str, Any], known: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if key not in known and key not in _IGNORED and not _is_unset(key, value):
            yield key, value


def _is_unset(key: str, value: object) -> bool:
    return not value or value in _UNSET.get(key, ())


def _warn(made: Creation, option: str) -> None:
    made.warnings.append(f"{option}: {BORROWED[option].why}")


def _refuse(made: Creation, option: str, value: str) -> None:
    answer = BORROWED[option]
    hint = f"say {answer.instead}" if answer.instead.startswith("-") else answer.instead
    made.complain(option, answer.why, hint, value)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:80]
