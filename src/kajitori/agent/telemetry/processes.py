"""Readings of a member's processes: from control groups of version 1 or 2, and from /proc where groups are missing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kajitori.agent.telemetry.members import LocalMember

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NO_LIMIT = 1 << 60
"""Version 1 shows a limit near 2**63 for none."""
MAX_EXACT = 64
"""Up to this number of processes, pages that they share are counted once. With more processes, their resident pages are
added up, which is cheaper."""


class Processes:
    """Readings of one member. Totals include processes that have ended since."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._cpu = _Totals()
        self._read = _Totals()
        self._written = _Totals()
        self._peak = 0.0

    def read(self, member: LocalMember) -> dict[str, float]:
        """Return the readings that exist, by name of the quantity. Totals are since the member's start."""
        pids = list(member.pids())
        found: dict[str, float] = {"processes": float(len(pids))}
        for path in member.cgroups:
            found |= {name: value for name, value in _group_readings(path).items() if name not in found}
        if "cpu.used" not in found and pids:
            found["cpu.used"] = self._cpu.add({pid: ticks / _TICKS_PER_SECOND for pid, ticks in self._cpu_ticks(pids)})
        if "memory.used" not in found and pids:
            found["memory.used"] = float(self._memory_bytes(pids))
        if "memory.used" in found and "memory.peak" not in found:
            self._peak = max(self._peak, found["memory.used"])
            found["memory.peak"] = self._peak
        if pids:
            traffic = [(pid, _keyed_numbers(self._proc / str(pid) / "io")) for pid in pids]
            read = self._read.add({pid: io["read_bytes"] for pid, io in traffic if "read_bytes" in io})
            written = self._written.add({pid: io["write_bytes"] for pid, io in traffic if "write_bytes" in io})
            if "disk.read" in found:
                found["storage.moved"] = read + written
            else:
                found["disk.read"], found["disk.written"] = read, written
        if member.memory_limit_bytes:
            found["memory.limit"] = float(member.memory_limit_bytes)
        if pids:
            found |= self._network_bytes(pids[0])
        if member.log is not None:
            with contextlib.suppress(OSError):
                found["output.age"] = max(0.0, time.time() - member.log.stat().st_mtime)
        return found

    def _cpu_ticks(self, pids: Sequence[int]) -> Iterable[tuple[int, float]]:
        for pid in pids:
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The command's name may hold anything, so fields begin after the last bracket.
                fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
                yield pid, float(fields[11]) + float(fields[12])

    def _memory_bytes(self, pids: Sequence[int]) -> int:
        if len(pids) <= MAX_EXACT:
            exact = sum(
                _keyed_numbers(self._proc / str(pid) / "smaps_rollup", b":").get("Pss", 0) * 1024 for pid in pids
            )
            if exact:
                return exact
        resident = 0
        for pid in pids:
            with contextlib.suppress(OSError, IndexError, ValueError):
                resident += int((self._proc / str(pid) / "statm").read_bytes().split()[1]) * _PAGE_BYTES
        return resident

    def _network_bytes(self, pid: int) -> dict[str, float]:
        """Return the bytes of a network of the member's own; nothing if it uses the node's."""
        try:
            own = (self._proc / "self" / "ns" / "net").stat().st_ino
            if (self._proc / str(pid) / "ns" / "net").stat().st_ino == own:
                return {}
            lines = (self._proc / str(pid) / "net" / "dev").read_text().splitlines()[2:]
        except OSError:
            return {}
        received = sent = 0
        for line in lines:
            name, _, figures = line.partition(":")
            fields = figures.split()
            if name.strip() != "lo" and len(fields) > 8:
                received, sent = received + int(fields[0]), sent + int(fields[8])
        return {"network.received": float(received), "network.sent": float(sent)}


class _Totals:
    """The sum of the totals of all processes, including those that have ended. It never decreases."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self._sum = 0.0

    def add(self, totals: Mapping[int, float]) -> float:
        for pid, total in totals.items():
            before = self._last.get(pid, 0.0)
            self._sum += total - before if total >= before else total  # less: another process has this number now
        self._last = dict(totals)
        return self._sum


def _group_readings(path: str) -> dict[str, float]:
    """Return the readings of one control group, as far as its hierarchy counts them."""
    found: dict[str, float] = {}
    used = _number_in(f"{path}/memory.current")
    if used is not None:  # version 2
        stat = _keyed_numbers(Path(f"{path}/memory.stat"), b" ")
        found["memory.used"] = max(0.0, used - stat.get("inactive_file", 0))
        _put(found, "memory.peak", _number_in(f"{path}/memory.peak"))
        _put(found, "memory.limit", _number_in(f"{path}/memory.max"))
    else:
        used = _number_in(f"{path}/memory.usage_in_bytes")
        if used is not None:
            stat = _keyed_numbers(Path(f"{path}/memory.stat"), b" ")
            found["memory.used"] = max(0.0, used - stat.get("total_inactive_file", 0))
            _put(found, "memory.peak", _number_in(f"{path}/memory.max_usage_in_bytes"))
            limit = _number_in(f"{path}/memory.limit_in_bytes")
            _put(found, "memory.limit", limit if limit is not None and limit < _NO_LIMIT else None)
    microseconds = _keyed_numbers(Path(f"{path}/cpu.stat"), b" ").get("usage_usec")
    if microseconds is not None:
        found["cpu.used"] = microseconds / 1e6
    else:
        nanoseconds = _number_in(f"{path}/cpuacct.usage")
        _put(found, "cpu.used", nanoseconds / 1e9 if nanoseconds is not None else None)
    return found | _disk_bytes(path)


def _disk_bytes(path: str) -> dict[str, float]:
    read = written = 0
    try:
        for line in Path(f"{path}/io.stat").read_text().splitlines():
            fields = dict(field.split("=", 1) for field in line.split()[1:] if "=" in field)
            read, written = read + int(fields.get("rbytes", 0)), written + int(fields.get("wbytes", 0))
    except (OSError, ValueError):
        try:
            for line in Path(f"{path}/blkio.throttle.io_service_bytes_recursive").read_text().splitlines():
                words = line.split()
                if len(words) == 3 and words[1] == "Read":
                    read += int(words[2])
                elif len(words) == 3 and words[1] == "Write":
                    written += int(words[2])
        except (OSError, ValueError):
            return {}
    return {"disk.read": float(read), "disk.written": float(written)}


def pids_below(path: str) -> list[int]:
    """Return the processes in a control group and all groups below it."""
    found: list[int] = []
    for folder, _, files in os.walk(path):
        if "cgroup.procs" in files:
            with contextlib.suppress(OSError, ValueError):
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
    return found


def _put(found: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        found[name] = value


def _number_in(path: str) -> float | None:
    try:
        with open(path, "rb") as file:
            return float(file.read())
    except (OSError, ValueError):  # `max` is no number
        return None


def _keyed_numbers(path: Path, separator: bytes = b":") -> dict[str, int]:
    """Return the numbers in a file of keys and values."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path, "rb") as file:
        for line in file:
            key, _, value = line.partition(separator)
            with contextlib.suppress(ValueError, IndexError):
                found[key.decode()] = int(value.split()[0])
    return found
