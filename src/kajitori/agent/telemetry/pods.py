"""Finds the members on a node with any kubelet: the name of a Pod's control group contains the UID of the Pod.

A kubelet names a Pod's group after its UID, and the runtime makes one below it for each container. The Pod's sandbox
(its pause process) is also a container, but runs no command of the user and uses next to nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from kajitori.agent.engines.cgroups import group_of_pod
from kajitori.agent.telemetry.gpus.pod_resources import SOCKET, Assigned, KubeletDevices
from kajitori.agent.telemetry.gpus.readings import GpuSource
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.process_files import variable
from kajitori.agent.telemetry.processes import pids_below
from kajitori.core.naming import names
from kajitori.core.telemetry.training import METRICS_ENV
from kajitori.core.traffic.totals import Pod

GPU_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables in which device plugins and runtimes give a container its GPUs."""
_NO_GPU = frozenset({"", "all", "none", "void"})
_CONTROLLERS = ("memory", "cpu,cpuacct", "cpuacct", "blkio")
"""Hierarchies of version 1 in which a member's use of resources is counted."""


class Pods(Protocol):
    """A source of this node's Pods: the one that the traffic counters use."""

    def pods(self) -> Mapping[str, Pod]:
        """Return the Pods of this node by UID. Raises OSError if they cannot be listed now."""
        ...


class PodMembers:
    """The members of runs among a node's Pods. `root` is where the node's own file system is mounted.

    The kubelet says which GPUs a member has. If it does not answer, the container's variables say it, and without them
    the processes that NVML sees on a GPU.
    """

    def __init__(self, pods: Pods, gpus: GpuSource, root: Path = Path("/")) -> None:
        self._pods = pods
        self._gpus = gpus
        self._kubelet = KubeletDevices(root / SOCKET)
        self._assigned: dict[str, tuple[str, ...]] = {}
        """The kubelet's answers by UID of the Pod. A Pod keeps its GPUs, so it is asked once."""
        self._cgroups = root / "sys/fs/cgroup"
        self._logs = root / "var/log/pods"
        self._known: dict[str, LocalMember] = {}

    def members(self) -> Sequence[LocalMember]:
        """Return the members with processes. Raises OSError if the Pods cannot be listed now."""
        found: dict[str, LocalMember] = {}
        running: dict[str, tuple[Pod, tuple[str, ...], list[int]]] = {}
        for uid, pod in self._pods.pods().items():
            groups = groups_of(self._cgroups, uid) if pod.run_uid else ()
            if groups and (pids := pids_below(groups[0])):
                running[uid] = pod, groups, pids
        self._ask_kubelet({uid: pod for uid, (pod, _, _) in running.items()})
        for uid, (pod, groups, pids) in running.items():
            known, assigned = self._known.get(uid), self._assigned.get(uid)
            if known is not None and known.cgroups == groups and known.gpus and known.gpus == (assigned or known.gpus):
                found[uid] = known
                continue
            found[uid] = LocalMember(
                namespace=pod.namespace,
                pod=pod.name,
                uid=uid,
                pids=partial(program_pids, groups[0]),
                cgroups=groups,
                log=self._log(pod),
                gpus=assigned or self._gpus_of(pids),
            )
        self._known = found
        return list(found.values())

    def _ask_kubelet(self, pods: Mapping[str, Pod]) -> None:
        """Ask the kubelet for the GPUs of new Pods."""
        self._assigned = {uid: gpus for uid, gpus in self._assigned.items() if uid in pods}
        new = [pod for uid, pod in pods.items() if uid not in self._assigned]
        listed: Assigned = (self._kubelet.assigned() if new else None) or {}
        if not listed:
            return
        aliases = self._gpus.aliases()
        for pod in new:
            gpus = listed.get((pod.namespace, pod.name))
            if gpus is not None:
                self._assigned[pod.uid] = tuple(dict.fromkeys(aliases.get(gpu, gpu) for gpu in gpus))

    def _log(self, pod: Pod) -> Path | None:
        folder = self._logs / f"{pod.namespace}_{pod.name}_{pod.uid}" / names.MEMBER_CONTAINER
        with contextlib.suppress(OSError, ValueError):
            return max((file for file in folder.glob("*.log")), key=lambda file: int(file.stem))
        return None

    def _gpus_of(self, pids: Sequence[int]) -> tuple[str, ...]:
        """Return the GPUs in the variables of the member's container; else those that its processes use."""
        for name in GPU_VARIABLES:
            for pid in pids:
                value = variable(pid, name)
                if value and value not in _NO_GPU:
                    return tuple(part.strip() for part in value.split(",") if part.strip())
        using = self._gpus.processes()
        return tuple(sorted({using[pid] for pid in pids if pid in using}))


def groups_of(mount: Path, uid: str) -> tuple[str, ...]:
    """Return the groups that a kubelet made for a Pod, one in each hierarchy that counts the use of resources."""
    if (mount / "cgroup.controllers").exists():
        roots = [mount]
    else:
        roots = [mount / name for name in _CONTROLLERS if (mount / name).is_dir()]
    return tuple(str(group) for root in roots if (group := group_of_pod(root, uid)) is not None)


def program_pids(group: str, variable_of: Callable[[int, str], str] = variable) -> list[int]:
    """Return the processes of a Pod, with those of the member's own container first, by its $KAJI_METRICS."""
    pids = pids_below(group)
    first = next((pid for pid in pids if variable_of(pid, METRICS_ENV)), None)
    if first is None:
        return pids
    return [first, *(pid for pid in pids if pid != first and _command_line(pid) != "pause")]


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""
