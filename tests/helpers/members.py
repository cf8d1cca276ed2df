"""Members that run as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def kill_member(variable: str, value: str, rank: int) -> int:
    """Kill all processes of a member, like a machine that fails, and return their number.

    `variable` and `value` identify the run by its environment, since other tests have members on this machine, too.
    """
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found = (process / "environ").read_bytes().split(b"\0")
            if f"{variable}={value}".encode() in found and f"KAJI_RANK={rank}".encode() in found:
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    return killed
