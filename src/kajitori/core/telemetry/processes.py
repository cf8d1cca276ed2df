"""Read the processes of a member from its /proc."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

TICKS_A_SECOND = 100
"""USER_HZ: the unit of times in /proc, the same on all architectures of today."""

LOOK = """
echo "$$ $PPID"; cat /proc/uptime; getconf PAGESIZE 2>/dev/null || echo 4096
head -c 600 /proc/[0-9]*/stat /proc/[0-9]*/cmdline 2>/dev/null
"""
"""For /bin/sh: needs no ps, which many images lack. `head` names each file before what is in it."""

_HEADER = re.compile(r"(?:^|\n)==> /proc/(\d+)/(stat|cmdline) <==\n")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a member."""

    pid: int
    parent: int
    cpu_seconds: float
    memory_bytes: int
    age_seconds: float
    command: str
    caught: int = 0
    """Signals for which it has a handler, as bits: bit 0 is signal 1."""

    def ignores(self, name: str) -> bool:
        """Whether the kernel drops this signal (`USR1`) if another process of its PID namespace sends it: the first
        process of a namespace gets only signals for which it has a handler."""
        return self.pid == 1 and not self.caught >> (signal.Signals[f"SIG{name}"] - 1) & 1


def program_of(processes: Iterable[Process]) -> Process | None:
    """Return the program of a member: the oldest of its processes that none of them started. The others are commands
    of people, and health checks."""
    found = {process.pid: process for process in processes}
    first = [process for process in found.values() if process.parent not in found]
    return max(first, key=lambda process: process.age_seconds, default=None)


def processor_time(cpu_seconds: float) -> str:
    """Return processor time for people: `1:02:03`, `2:05`."""
    whole = int(cpu_seconds)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def read_processes(output: str) -> list[Process]:
    """Return the processes of a member, ordered by PID, without the shell that read /proc and its children.

    `told` holds the PID of that shell and of its parent, /proc/uptime, the page size, and then `stat` and `cmdline` of
    every process, each behind a header that `head` wrote. In a container only its own processes are visible, and the
    shell's parent is not among them. If the parent is visible, the member shares the PIDs of its machine: then only
    descendants of that parent belong to the member.
    """
    lines = output.split("\n", 3)
    try:
        shell, above = (int(word) for word in lines[0].split())
        uptime, page_bytes = float(lines[1].split()[0]), int(lines[2])
    except (IndexError, ValueError):
        return []
    files = dict(_split_files(lines[3]))
    found: dict[int, Process] = {}
    for (pid, kind), text in files.items():
        process = (
            _parse_process(pid, text, files.get((pid, "cmdline"), ""), uptime, page_bytes) if kind == "stat" else None
        )
        if process is not None:
            found[pid] = process
    looking = _descendants(found, shell) | {shell}
    shown = found.keys() if above not in found else _descendants(found, above)
    return [found[pid] for pid in sorted(shown) if pid not in looking]


def _split_files(output: str) -> Iterator[tuple[tuple[int, str], str]]:
    parts = _HEADER.split("\n" + output)
    for index in range(1, len(parts) - 2, 3):
        yield (int(parts[index]), parts[index + 1]), parts[index + 2]


def _parse_process(pid: int, stat: str, cmdline: str, uptime: float, page_bytes: int) -> Process | None:
    """None if the line can't be parsed because the process has ended."""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    try:  # fields as in proc(5), which counts from 1; the state is field 3
        parent, ticks, began, pages = (
            int(fields[1]),
            int(fields[11]) + int(fields[12]),
            int(fields[19]),
            int(fields[21]),
        )
    except (IndexError, ValueError):
        return None
    caught = int(fields[31]) if len(fields) > 31 and fields[31].isdecimal() else 0
    command = " ".join(cmdline.rstrip("\0\n").split("\0")) or f"[{name}]"
    age = max(0.0, uptime - began / TICKS_A_SECOND)
    return Process(pid, parent, ticks / TICKS_A_SECOND, pages * page_bytes, round(age, 2), command, caught)


def _descendants(processes: Mapping[int, Process], ancestor: int) -> set[int]:
    """Return the PIDs of all descendants of a process."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    left = [ancestor]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found
