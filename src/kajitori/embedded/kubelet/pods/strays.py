"""Containers that still run though their folders were put in another's place: a backup was restored meanwhile.

No Pod is known for them any more, and other members may be started in their stead, so they are ended before anything
is: nothing of a later attempt lives beside an earlier one that begins anew.
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
"""How long is waited for one that was killed: longer only where its processes hang in the kernel."""


def end_strays(root: Path) -> list[int]:
    """Kills the containers that were started below this folder and do not belong to what lies there now; answers the
    pids of their shims. Blocks until they are gone."""
    ended = []
    for pid, folder, lock in _shims_below(root):
        if _is_same_file(f"/proc/{pid}/fd/{lock}", folder / shim.LOCK_FILE):
            continue  # a kubelet of this folder adopts it
        with contextlib.suppress(ProcessLookupError):
            end(pid)
            ended.append(pid)
    return ended


def running(root: Path) -> dict[int, Path]:
    """The folders of containers that run below this one, by the pids of their shims."""
    return {pid: folder for pid, folder, _ in _shims_below(root)}


def _shims_below(root: Path) -> Iterator[tuple[int, Path, str]]:
    """The pid of every shim, its container's folder, and the descriptor of its lock."""
    pods = f"{root.resolve()}/pods/"
    for entry in os.listdir("/proc"):  # noqa: PTH208 - no Path objects for every process of the machine
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
            if len(words) > 2 and words[-1].startswith(pods) and words[-3].endswith(shim.COMMAND_END):
                yield int(entry), Path(words[-1]), words[-2]


def end(shim_pid: int) -> None:
    """Kills a container. Blocks until it is gone."""
    pidfd = os.pidfd_open(shim_pid)
    try:
        deadline = time.monotonic() + END_SECONDS
        gone = select.poll()
        gone.register(pidfd, select.POLLIN)
        while time.monotonic() < deadline:
            below = tree.descendants(shim_pid)
            for pid in below:  # the shim is what holds them together: it goes last
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
