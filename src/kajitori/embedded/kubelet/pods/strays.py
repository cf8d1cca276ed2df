"""Kills strays: containers that still run although a restored backup has replaced their folders.

No Pod is known for them any more, and other Pods may be started in their place. So the kubelet kills them before it
starts any container. Otherwise an attempt from the backup could run beside a later attempt of the same container.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree

END_SECONDS = 5.0
"""Longest wait for a killed container. Only processes that hang in the kernel take longer."""


def end_strays(root: Path) -> list[int]:
    """Kill the containers that were started below this folder and do not belong to its present contents.

    Returns the process identifiers of their shims. Blocks until they are gone.
    """
    ended = []
    for pid, folder, lock in _shims_below(root):
        if _is_same_file(f"/proc/{pid}/fd/{lock}", folder / shim.LOCK_FILE):
            continue  # the kubelet of this folder adopts it
        with contextlib.suppress(ProcessLookupError):
            end(pid)
            ended.append(pid)
    return ended


def running(root: Path) -> dict[int, Path]:
    """Return the folders of the containers that run below this one, by the process identifiers of their shims."""
    return {pid: folder for pid, folder, _ in _shims_below(root)}


def _shims_below(root: Path) -> Iterator[tuple[int, Path, str]]:
    """Yield the process identifier of every shim, its container's folder, and the descriptor of its lock."""
    pods = f"{root.resolve()}/pods/"
    for entry in os.listdir("/proc"):  # noqa: PTH208 - no Path objects for every process of the machine
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
            if len(words) > 2 and words[-1].startswith(pods) and words[-3].endswith(shim.COMMAND_ENDS):
                yield int(entry), Path(words[-1]), words[-2]


def end(shim_pid: int) -> None:
    """Kill a container. Blocks until it is gone."""
    pidfd = os.pidfd_open(shim_pid)
    try:
        deadline = time.monotonic() + END_SECONDS
        gone = select.poll()
        gone.register(pidfd, select.POLLIN)
        while time.monotonic() < deadline:
            below = tree.descendants(shim_pid)
            for pid in below:  # the shim goes last, since its descendants are found through it
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not below:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if gone.poll(50):
                return
    finally:
        os.close(pidfd)


def _is_same_file(one: str, other: Path) -> bool:
    try:
        return os.path.samestat(os.stat(one), other.stat())  # noqa: PTH116 - a descriptor's own file, whatever its name
    except OSError:
        return False
