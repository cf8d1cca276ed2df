"""The memory of one container: its peak, its limit, and whether the container died of a lack of memory."""

from __future__ import annotations

from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .cgroups import Cgroup

LOOK_SECONDS = 0.25
MEASURE_SECONDS = 1.0
"""Interval at which page tables are read while they can only show a new peak."""


class MemoryWatch:
    """Looks at the memory of a container at intervals, and once more at its end.

    A control group counts the memory exactly. Without one the processes of the container are measured.
    """

    def __init__(self, limit_bytes: int, group: Cgroup | None, process_ids: Callable[[], list[int]]) -> None:
        """`limit_bytes` is 0 without a limit; `process_ids` returns all processes of the container."""
        self.group = group
        """The control group that counts the container's memory; None if there is none, or none any more."""
        self.was_killed = False
        """Whether the container exceeded its limit, or the kernel killed a process of it for memory."""
        self.within_limit = False
        """Whether the kernel killed the container for memory although it had not reached its own limit."""
        self.peak_bytes = 0
        """Largest working set that was seen."""
        self._limit_bytes = limit_bytes
        self._process_ids = process_ids
        self._page_cache_bytes = 0
        """Largest page cache that was seen."""
        self._largest_process_bytes = 0
        """Largest memory of a process that has ended."""
        self._look_at = 0.0
        """Time of the monotonic clock at which memory is looked at again."""
        self._measure_at = 0.0
        """Time of the monotonic clock from which page tables may be read again."""

    def is_due(self, now: float) -> bool:
        """Return whether memory has to be looked at again; `now` is the time of the monotonic clock."""
        return now >= self._look_at

    def look(self, now: float) -> bool:
        """Update the peak, and return whether the container is over its limit or was killed for memory."""
        self._look_at = now + LOOK_SECONDS
        if self.group is not None:
            self.was_killed = self.group.oom_kills() > 0
            self.note_peak()
        else:
            self._measure_processes(now)
        return self.was_killed

    def note_peak(self) -> None:
        """Update the peak: the largest working set seen, or the kernel's peak minus the largest page cache seen."""
        if self.group is not None:
            used, cache = self.group.usage_and_cache_bytes()
            self._page_cache_bytes = max(self._page_cache_bytes, cache)
            self.peak_bytes = max(self.peak_bytes, used, self.group.peak_bytes() - self._page_cache_bytes)

    def note_kills(self) -> None:
        """Read from the control group whether the kernel has killed the container for memory, and why."""
        if self.group is not None and not self.was_killed and self.group.oom_kills():
            self.was_killed, self.within_limit = True, not self.group.reached_limit()

    def note_ended_process(self, peak_bytes: int) -> None:
        """Take note of the largest memory that a process of the container had before it ended."""
        self._largest_process_bytes = max(self._largest_process_bytes, peak_bytes)

    def conclude(self) -> None:
        """Bring everything up to date at the container's end, before its control groups are removed."""
        if self.group is None:
            self.peak_bytes = max(self.peak_bytes, self._largest_process_bytes)
            return
        self.was_killed = self.was_killed or self.group.oom_kills() > 0
        self.note_peak()
        self.within_limit = self.was_killed and not self.group.reached_limit()

    def _measure_processes(self, now: float) -> None:
        """Compare the memory of all processes with the limit and the peak.

        Page tables tell it exactly, but take long to read, so they are read only if the resident memory, which counts
        shared pages several times, may be over the limit or the peak.
        """
        pids = self._process_ids()
        resident = tree.resident_bytes(pids)
        may_be_over = 0 < self._limit_bytes < resident
        may_be_peak = resident > self.peak_bytes and now >= self._measure_at
        if may_be_over or may_be_peak:
            used = tree.memory_bytes(pids)
            self._measure_at = now + MEASURE_SECONDS
            self.peak_bytes = max(self.peak_bytes, used)
            self.was_killed = 0 < self._limit_bytes < used
