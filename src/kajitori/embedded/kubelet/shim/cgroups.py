"""The control groups of one container, version 1 and 2: creating, joining, reading and removing them."""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


V1_CHARGED_AHEAD_BYTES = 1 << 20
"""Each processor charges some pages ahead, so a group this close to its limit can't get any more."""


class Cgroup:
    """One directory in one hierarchy. `writes` are (file, value, required), in the order in which they are written."""

    def __init__(
        self, path: str, version: int, counts_memory: bool, writes: Iterable[tuple[str, str, bool]] = ()
    ) -> None:
        self.path = path
        self.version = version
        self.counts_memory = counts_memory
        self.writes = [(str(name), str(value), bool(required)) for name, value, required in writes]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Cgroup:
        return cls(document["path"], document["version"], document["counts_memory"], document["writes"])

    def as_document(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "version": self.version,
            "counts_memory": self.counts_memory,
            "writes": self.writes,
        }

    def create(self) -> None:
        """Create the directory and set its limits.

        Raises OSError if the kernel refuses a required limit.
        """
        os.makedirs(self.path, exist_ok=True)
        for name, value, required in self.writes:
            try:
                write_control(os.path.join(self.path, name), value)
            except OSError:
                if required:
                    raise

    def join(self) -> None:
        """Move the calling process into the group."""
        write_control(os.path.join(self.path, "cgroup.procs"), "0")

    def pids(self) -> list[int]:
        try:
            with open(os.path.join(self.path, "cgroup.procs")) as file:
                return [int(line) for line in file]
        except OSError:
            return []

    def kill(self) -> bool:
        """Ask the kernel to kill all processes in the group at once. Return False if it can't (version 1, Linux before
        5.14)."""
        try:
            write_control(os.path.join(self.path, "cgroup.kill"), "1")
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Remove the directory. The kernel may need a moment after the last process has died."""
        for attempt in range(20):
            try:
                os.rmdir(self.path)
                return True
            except FileNotFoundError:
                return True
            except OSError:
                time.sleep(0.002 * (attempt + 1))
        return False

    def oom_kills(self) -> int:
        """Return how many processes of the group the kernel killed because the limit was reached."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return self._keyed_numbers(name).get("oom_kill", 0)

    def reached_limit(self) -> bool:
        """Return whether the group ever reached its own limit. If not, a kill for memory had another cause."""
        if self.version == 2:
            return self._keyed_numbers("memory.events").get("oom", 0) > 0
        # Not memory.failcnt, which stays at 0 if swap is limited as well.
        return self.peak_bytes() + V1_CHARGED_AHEAD_BYTES >= self._number_in("memory.limit_in_bytes")

    def usage_bytes(self) -> int:
        """Return the working set as Kubernetes counts it: the usage without file pages that could be dropped at
        once."""
        return self.usage_and_cache_bytes()[0]

    def usage_and_cache_bytes(self) -> tuple[int, int]:
        """Return the working set, and all pages of files on disks."""
        stat = self._keyed_numbers("memory.stat")
        if self.version == 2:
            used = self._number_in("memory.current") - stat.get("inactive_file", 0)
            return max(0, used), max(0, stat.get("file", 0) - stat.get("shmem", 0))
        used = self._number_in("memory.usage_in_bytes") - stat.get("total_inactive_file", 0)
        return max(0, used), max(0, stat.get("total_cache", 0) - stat.get("total_shmem", 0))

    def peak_bytes(self) -> int:
        """Return the largest usage so far, including pages of files. A program that reads much reaches its limit by
        file pages alone, and is not killed for it."""
        return self._number_in("memory.peak" if self.version == 2 else "memory.max_usage_in_bytes")

    def cpu_seconds(self) -> float | None:
        """Return the processor time of all processes that were ever in the group; None if this hierarchy does not count
        it."""
        if self.version == 2:
            used = self._keyed_numbers("cpu.stat").get("usage_usec")
            return None if used is None else used / 1e6
        return self._number_in("cpuacct.usage") / 1e9 or None

    def _number_in(self, name: str) -> int:
        with contextlib.suppress(OSError, ValueError), open(os.path.join(self.path, name)) as file:
            return int(file.read())
        return 0

    def _keyed_numbers(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError), open(os.path.join(self.path, name)) as file:
            for line in file:
                key, _, value = line.partition(" ")
                found[key] = int(value)
        return found


def write_control(path: str, value: str) -> None:
    """Write a kernel control file with one write; never create it."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
