"""Detects what this machine has and allows: processors, memory, GPUs, namespaces, control groups."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from kajitori.embedded.kubelet.machine import cgroup_layout
from kajitori.embedded.kubelet.machine.cgroup_layout import CgroupLayout
from kajitori.embedded.kubelet.shim import main as shim

_TRY = "import sys; sys.path.append({folder!r}); from shim import {module}; "
_TRY_MOUNT = _TRY + "import os; mounts.enter({document!r}, os.getuid(), os.getgid())"
_TRY_JOIN = _TRY + "cgroups.Cgroup({path!r}, 0, False).join()"


@dataclass(frozen=True)
class MountAbility:
    """Whether volumes can appear at their mount paths. `why_not` explains to a user why they can't."""

    possible: bool
    user_namespace: bool = False
    """Whether namespaces are created inside a user namespace, because this kubelet is not root."""
    why_not: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU. `identifier` is its value in CUDA_VISIBLE_DEVICES: the UUID, or a number for a GPU that does not exist."""

    identifier: str
    product: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True)
class Machine:
    """The resources of this machine, and its abilities that Pods need."""

    cpu_millis: int
    memory_bytes: int
    ephemeral_bytes: int
    gpus: tuple[Gpu, ...]
    mounts: MountAbility
    cgroups: CgroupLayout
    max_processes: int = 0
    """Limit of processes and threads of the kernel; 0 if unknown."""
    boot_id: str = ""
    machine_id: str = ""
    kernel: str = ""
    os_image: str = ""
    architecture: str = "amd64"

    @property
    def is_root(self) -> bool:
        return os.geteuid() == 0


def try_mounts(scratch: Path, *, allowed: bool = True) -> MountAbility:
    """Try to create a mount namespace, with a new folder under `/` in it, in a process of its own."""
    if not allowed:
        return MountAbility(False, why_not="namespaces are switched off for this kubelet")
    scratch.mkdir(parents=True, exist_ok=True)
    user_namespace = os.geteuid() != 0
    target = f"/kajitori-probe-{os.getpid()}"
    document = {
        "user_namespace": user_namespace,
        "scratch": str(scratch),
        "mounts": [{"source": str(scratch.parent), "sub_path": "", "target": target, "read_only": True}],
    }
    failure = _try(_TRY_MOUNT.format(folder=_shim_folder(), module="mounts", document=document))
    if failure is None:
        return MountAbility(True, user_namespace)
    who = "an ordinary user and user namespaces are off" if user_namespace else "in a sandbox"
    return MountAbility(False, why_not=f"this kubelet may not make mount namespaces (it runs as {who}: {failure})")


def detect_cgroups(name: str, *, allowed: bool = True) -> CgroupLayout:
    """Return the control groups that this kubelet may use; `name` is the parent directory of its containers' groups."""
    if not allowed:
        return CgroupLayout(why_not="control groups are switched off for this kubelet")
    return cgroup_layout.detect(
        name, lambda path: _try(_TRY_JOIN.format(folder=_shim_folder(), module="cgroups", path=str(path))) is None
    )


def max_processes(proc: Path = Path("/proc")) -> int:
    """Return how many processes and threads this machine may have at once; 0 if unknown."""
    limits = [_first_line(proc / "sys/kernel" / name) for name in ("pid_max", "threads-max")]
    return min((int(limit) for limit in limits if limit.isdecimal()), default=0)


def detect_gpus(override: int | None = None, run: Callable[[], str] | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs that nvidia-smi lists; `override` limits their number, or invents that many if there are none."""
    try:
        listing = (run or _nvidia_smi)()
    except (OSError, subprocess.SubprocessError):
        listing = ""
    found = []
    for line in listing.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[0].startswith(("GPU-", "MIG-")):
            mebibytes = int(fields[2]) if fields[2].isdigit() else 0
            found.append(Gpu(fields[0], fields[1].replace(" ", "-"), mebibytes << 20))
    if override is None:
        return tuple(found)
    if found:
        return tuple(found[:override])
    return tuple(Gpu(str(number)) for number in range(override))


def detect(
    root_dir: Path, cgroup_name: str, *, namespaces: bool = True, cgroups: bool = True, gpus: int | None = None
) -> Machine:
    """Detect everything about this machine; trying namespaces and control groups takes tens of milliseconds."""
    affinity = len(os.sched_getaffinity(0))
    disk = psutil.disk_usage(str(root_dir))
    return Machine(
        cpu_millis=affinity * 1000,
        memory_bytes=psutil.virtual_memory().total,
        ephemeral_bytes=disk.total,
        gpus=detect_gpus(gpus),
        mounts=try_mounts(root_dir / "probe" / "root", allowed=namespaces),
        cgroups=detect_cgroups(cgroup_name, allowed=cgroups),
        max_processes=max_processes(),
        boot_id=shim.boot_id(),
        machine_id=_first_line(Path("/etc/machine-id")),
        kernel=platform.release(),
        os_image=platform.freedesktop_os_release().get("PRETTY_NAME", "Linux") if _has_release() else "Linux",
        architecture={"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
    )


async def own_address(peer_host: str, peer_port: int) -> str:
    """Return the address from which this machine reaches the peer (its API server); 127.0.0.1 if there is no route."""

    def ask() -> str:
        try:
            family, _, _, _, where = socket.getaddrinfo(peer_host, peer_port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(where)  # sends nothing: a datagram socket only picks its route
                return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"

    return await asyncio.to_thread(ask)


def resolves_to_here(host: str, address: str) -> bool:
    """Return whether programs on this machine resolve the name `host` to `address`."""
    try:
        return any(found[4][0] == address for found in socket.getaddrinfo(host, None))
    except OSError:
        return False


def _try(program: str) -> str | None:
    """Run a few lines in a bare interpreter. Return None on success, else the last line of its errors."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={},
        timeout=30,
        check=False,
    )
    if done.returncode == 0:
        return None
    return (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _nvidia_smi() -> str:
    return subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def _shim_folder() -> str:
    return str(Path(shim.__file__).parent.parent)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _has_release() -> bool:
    return any(Path(path).exists() for path in ("/etc/os-release", "/usr/lib/os-release"))
