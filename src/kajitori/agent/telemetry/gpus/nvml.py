"""NVIDIA's GPUs by NVML, the library of the driver. It is loaded only on machines that have it."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kajitori.agent.telemetry.gpus.gpm import PERMANENT_ERRORS, Activity

log = logging.getLogger(__name__)

_KIB = 1 << 10
_IDLE = 0x1
"""nvmlClocksEventReasonGpuIdle: the clocks are low because nothing runs."""
_XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""
_NVLINK_DATA_RX, _NVLINK_DATA_TX = 139, 138
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX and _TX: KiB over all links since the driver was loaded."""
_ALL_LINKS = 0xFFFFFFFF
_NVLINK_ERRORS = (38, 45, 52, 59)
"""NVML_FI_DEV_NVLINK_*_COUNT_TOTAL: CRC errors of flits and of data, replays and recoveries over all links."""
_MAX_LINKS = 18
"""NVML_NVLINK_MAX_LINKS."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """A MIG device: a part of a GPU with memory and multiprocessors of its own."""

    uuid: str
    handle: Any
    parent: str
    """UUID of the whole GPU."""
    instance: int
    """Number of its GPU instance. Device plugins give a slice one compute instance, which is all of it."""


class Nvml:
    """NVML's GPUs, under their UUIDs and their indices, and their MIG slices under their UUIDs. `library` is pynvml, or
    a recording of it.

    NVML reports only the memory of a slice, and "not supported" for its utilisation. The activity of a slice comes from
    GPM on Hopper and later GPUs (`gpm.py`), and from DCGM on older ones.
    """

    def __init__(self, library: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._library = library
        self._error: type[Exception] = library.NVMLError
        library.nvmlInit()
        self._devices: dict[str, Any] = {}
        self._xids: dict[str, float] = {}
        self._unsupported: set[tuple[str, str]] = set()
        """Figures that a GPU does not have. They are not read again, since each read is a call of the driver."""
        self._events: Any = None
        for index in range(library.nvmlDeviceGetCount()):
            with contextlib.suppress(self._error):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                self._devices[_as_text(library.nvmlDeviceGetUUID(handle))] = handle
        self._activity = Activity(library, clock)
        self._slices: tuple[_Slice, ...] = ()
        self._listen()

    def _listen(self) -> None:
        """Ask the driver to report Xid errors."""
        library = self._library
        with contextlib.suppress(self._error):
            self._events = library.nvmlEventSetCreate()
        for uuid, handle in self._devices.items():
            self._xids[uuid] = 0.0
            with contextlib.suppress(self._error):
                library.nvmlDeviceRegisterEvents(handle, _XID_EVENT, self._events)

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """Return readings by UUID, and the same by index."""
        self._take_events()
        self._find_slices()
        found: dict[str, Mapping[str, float]] = {}
        for index, (uuid, handle) in enumerate(self._devices.items()):
            reading = dict(self._device_readings(uuid, handle))
            reading["gpu.xid"] = self._xids[uuid]
            found[uuid] = found[str(index)] = reading
            reading |= self._activity.read(uuid, handle)
        for each in self._slices:
            reading = dict(self._memory_readings(each.uuid, each.handle))
            reading["gpu.xid"] = self._xids[each.parent]  # slices have no Xid errors of their own
            activity = self._activity.read(each.uuid, self._devices[each.parent], each.instance)
            found[each.uuid] = reading | activity
        self._activity.forget_others(found)
        return found

    def devices(self) -> Sequence[Sequence[str]]:
        return [(uuid, str(index)) for index, uuid in enumerate(self._devices)]

    def processes(self) -> Mapping[int, str]:
        """Return the GPU, or the slice, of each process that computes on one."""
        found: dict[int, str] = {}
        self._find_slices()
        for uuid, handle in (*self._devices.items(), *((each.uuid, each.handle) for each in self._slices)):
            with contextlib.suppress(self._error):  # a slice comes after its GPU, which has the same processes
                for process in self._library.nvmlDeviceGetComputeRunningProcesses(handle):
                    found[int(process.pid)] = uuid
        return found

    def aliases(self) -> Mapping[str, str]:
        """Return UUIDs by the names that device plugins and drivers of dynamic resource allocation give."""
        found: dict[str, str] = {}
        minors: dict[str, int] = {}
        for uuid, handle in self._devices.items():
            minor = self._ask(uuid, "minor", partial(self._call, "nvmlDeviceGetMinorNumber", handle))
            if minor is not None:
                minors[uuid] = minor
                found[f"nvidia{minor}"] = found[f"gpu-{minor}"] = uuid
        self._find_slices()
        for each in self._slices:
            found[f"{each.parent}/gi{each.instance}"] = each.uuid  # dcgm-exporter
            if each.parent in minors:
                found[f"nvidia{minors[each.parent]}/gi{each.instance}"] = each.uuid  # GKE
                if name := self._claimed_name(each, minors[each.parent]):
                    found[name] = each.uuid
        return found

    def _claimed_name(self, each: _Slice, minor: int) -> str:
        """Return the name of a slice in NVIDIA's driver of dynamic resource allocation: GPU, profile and placement, as
        in gpu-0-mig-1g10gb-19-4. Empty if it cannot be told."""
        library, parent = self._library, self._devices[each.parent]
        with contextlib.suppress(self._error, AttributeError):
            info = library.nvmlGpuInstanceGetInfo(library.nvmlDeviceGetGpuInstanceById(parent, each.instance))
            profile = re.search(r"MIG ([0-9a-z.+]+)", _as_text(library.nvmlDeviceGetName(each.handle)))
            if profile is not None:
                name = profile[1].replace(".", "").replace("+", "-")
                return f"gpu-{minor}-mig-{name}-{info.profileId}-{info.placement.start}"
        return ""

    def _find_slices(self) -> None:
        """Find the present slices. An operator may change the slices of a GPU whenever nothing uses it."""
        found = tuple(each for uuid, handle in self._devices.items() for each in self._slices_of(uuid, handle))
        divided = {each.parent for each in found}
        for uuid in divided ^ {each.parent for each in self._slices}:  # other figures are supported now
            self._unsupported = {(known, what) for known, what in self._unsupported if known != uuid or what == "mig"}
        self._slices = found

    def _slices_of(self, uuid: str, handle: Any) -> Iterator[_Slice]:
        library = self._library
        mode = self._ask(uuid, "mig", lambda: library.nvmlDeviceGetMigMode(handle))
        if not mode or mode[0] != 1:
            return
        for index in range(self._ask(uuid, "slices", lambda: library.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
            with contextlib.suppress(self._error):  # NVML_ERROR_NOT_FOUND: no slice has this number
                part = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                instance = int(library.nvmlDeviceGetGpuInstanceId(part))
                yield _Slice(_as_text(library.nvmlDeviceGetUUID(part)), part, uuid, instance)

    def _take_events(self) -> None:
        if self._events is None:
            return
        with contextlib.suppress(self._error):  # NVML_ERROR_TIMEOUT: there are no more
            for _ in range(64):
                event = self._library.nvmlEventSetWait_v2(self._events, 0)
                uuid = _as_text(self._library.nvmlDeviceGetUUID(event.device))
                self._xids[uuid] = float(event.eventData)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function. Raises AttributeError if the library is older than it."""
        return getattr(self._library, name)(*arguments)

    def _ask(self, uuid: str, what: str, call: Callable[[], Any]) -> Any:
        """Return the answer; None if this GPU does not have the figure, or does not have it now."""
        if (uuid, what) in self._unsupported:
            return None
        try:
            return call()
        except self._error as error:
            if getattr(error, "value", 0) in PERMANENT_ERRORS:
                self._unsupported.add((uuid, what))
            return None
        except AttributeError:  # an older library
            self._unsupported.add((uuid, what))
            return None

    def _memory_readings(self, uuid: str, handle: Any) -> Iterator[tuple[str, float]]:
        memory = self._ask(uuid, "memory", lambda: self._library.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None:
            yield "gpu.memory.used", float(memory.used)
            yield "gpu.memory.total", float(memory.total)

    def _device_readings(self, uuid: str, handle: Any) -> Iterator[tuple[str, float]]:
        library = self._library

        def ask(what: str, call: Callable[[], Any]) -> Any:
            return self._ask(uuid, what, call)

        use = ask("utilisation", lambda: library.nvmlDeviceGetUtilizationRates(handle))
        if use is not None:
            yield "gpu.used", float(use.gpu)
            yield "gpu.memory.busy", float(use.memory)
        yield from self._memory_readings(uuid, handle)
        simple: tuple[tuple[str, float, Callable[[], Any]], ...] = (
            ("gpu.power", 1e-3, lambda: library.nvmlDeviceGetPowerUsage(handle)),
            ("gpu.temperature", 1.0, lambda: library.nvmlDeviceGetTemperature(handle, 0)),
            ("gpu.clock.sm", 1.0, lambda: library.nvmlDeviceGetClockInfo(handle, 1)),
            ("gpu.clock.memory", 1.0, lambda: library.nvmlDeviceGetClockInfo(handle, 2)),
            ("gpu.ecc.corrected", 1.0, lambda: library.nvmlDeviceGetTotalEccErrors(handle, 0, 0)),
            ("gpu.ecc.uncorrected", 1.0, lambda: library.nvmlDeviceGetTotalEccErrors(handle, 1, 0)),
            ("gpu.pcie.sent", _KIB, lambda: library.nvmlDeviceGetPcieThroughput(handle, 0)),
            ("gpu.pcie.received", _KIB, lambda: library.nvmlDeviceGetPcieThroughput(handle, 1)),
        )
        for name, factor, call in simple:
            value = ask(name, call)
            if value is not None:
                yield name, float(value) * factor
        reasons = ask("throttled", lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        if reasons is not None:
            yield "gpu.throttled", float(int(reasons) & ~_IDLE)
        fields = [(_NVLINK_DATA_RX, _ALL_LINKS), (_NVLINK_DATA_TX, _ALL_LINKS)]
        links = ask("nvlink", lambda: library.nvmlDeviceGetFieldValues(handle, fields))
        for name, value in zip(("gpu.nvlink.received", "gpu.nvlink.sent"), links or (), strict=False):
            if value.nvmlReturn == 0:
                yield name, float(value.value.ullVal) * _KIB
        counts = ask("nvlink errors", lambda: library.nvmlDeviceGetFieldValues(handle, list(_NVLINK_ERRORS)))
        known = [float(each.value.ullVal) for each in counts or () if each.nvmlReturn == 0]
        if known:
            yield "gpu.nvlink.errors", sum(known)
        active = self._active_links(uuid, handle)
        if active:
            yield "gpu.nvlink.links", float(active)

    def _active_links(self, uuid: str, handle: Any) -> int:
        """Return how many NVLinks are active."""
        states = (
            self._ask(uuid, f"link {link}", partial(self._call, "nvmlDeviceGetNvLinkState", handle, link))
            for link in range(_MAX_LINKS)
        )
        return sum(state == 1 for state in states)


def open_nvml() -> Nvml | None:
    """Return NVML if this machine has the driver's library; else None."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        return Nvml(pynvml)
    except Exception as error:  # no driver, or one that does not answer: the node is watched without its GPUs
        log.debug("NVML is not available: %s", error)
        return None


def _as_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
