"""Fields of a container that have no field in a run's spec: the warning or refusal for each one that a client sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.client.submit.borrowed_options import BORROWED
from kajitori.docker.translation.request import Creation

_IN_SPEC = frozenset({"Env", "Cmd", "Entrypoint", "Image", "WorkingDir", "User", "Volumes", "OnBuild"})
"""Fields of a configuration that become part of the spec, and are read back from it."""

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
    "Runtime": ("runc",),
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
        "Tmpfs",
    }
)
"""Fields of a HostConfig that `creation` translates."""
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
"""Fields of a configuration that `creation` translates, or that concern clients alone; they are stored with the run."""


def answer_others(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    """Answer the fields that become no part of the spec: refuse those that cannot be obeyed, and warn of those that
    change nothing."""
    for key, value in _set_fields(body, _OWN_CONFIG | _IN_SPEC | {"HostConfig", "NetworkingConfig"}):
        if key in _CONFIG_OPTIONS:
            _answer(made, _CONFIG_OPTIONS[key], value)
        else:  # some libraries send their own fields, or those of a HostConfig here
            made.warnings.append(f"{key} is ignored, as Docker's daemon does: it is no field of a container")
    for key, value in _set_fields(host, _OWN_HOST):
        if key in _HOST_OPTIONS:
            _answer(made, _HOST_OPTIONS[key], value)
        elif key in _WINDOWS:
            made.complain(key, "is for Windows", "leave it out", value=_shown(value))
        else:
            made.complain(key, "is not known to kaji docker", "leave it out", value=_shown(value))


def kept_config(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration that are stored with the run, for `docker inspect`."""
    return {key: value for key, value in body.items() if key in _OWN_CONFIG | {"Hostname"} and value}


def kept_host_config(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a HostConfig that are stored with the run, for `docker inspect`."""
    return {key: value for key, value in host.items() if key not in _IGNORED and value}


def warn(made: Creation, option: str) -> None:
    """Add what is said of an option that changes nothing."""
    made.warnings.append(f"{option}: {BORROWED[option].why}")


def refuse(made: Creation, option: str, value: str) -> None:
    """Add what is said of an option that cannot be obeyed."""
    answer = BORROWED[option]
    hint = f"say {answer.instead}" if answer.instead.startswith("-") else answer.instead
    made.complain(option, answer.why, hint, value)


def _answer(made: Creation, option: str, value: object) -> None:
    if BORROWED[option].is_accepted:
        warn(made, option)
    else:
        refuse(made, option, _shown(value))


def _set_fields(fields: Mapping[str, Any], known: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields that are not `known`, and that the client has not left alone."""
    for key, value in fields.items():
        if key not in known and key not in _IGNORED and value and value not in _UNSET.get(key, ()):
            yield key, value


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:80]
