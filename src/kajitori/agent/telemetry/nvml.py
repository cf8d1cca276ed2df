"""NVIDIA's GPUs by NVML, the library of the driver. It is loaded only on machines that have it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

log = logging.getLogger(__name__)

_KIB = 1 << 10
_IDLE = 0x1
"""nvmlClocksEventReasonGpuIdle: the clocks are low because nothing runs."""
_XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""
_NVLINK_DATA_RX, _NVLINK_DATA_TX = 139, 138
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX and _TX: KiB over all links since the driver was loaded."""
_ALL_LINKS = 0xFFFFFFFF


class Nvml:
    """NVML's GPUs, under their UUIDs and their indices. `library` is pynvml, or a recording of it."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._error: type[Exception] = library.NVMLError
        library.nvmlInit()
        self._devices: dict[str, Any] = {}
        self._xids: dict[str, float] = {}
        self._unsupported: set[tuple[str, str]] = set()
        """Figures that a GPU does not have. They are not asked for again, since each costs a call of the driver."""
        self._events: Any = None
        for index in range(library.nvmlDeviceGetCount()):
            with contextlib.suppress(self._error):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                self._devices[_text(library.nvmlDeviceGetUUID(handle))] = handle
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
        found: dict[str, Mapping[str, float]] = {}
        for index, (uuid, handle) in enumerate(self._devices.items()):
            reading = dict(self._figures(uuid, handle))
            reading["gpu.xid"] = self._xids[uuid]
            found[uuid] = found[str(index)] = reading
        return found

    def processes(self) -> Mapping[int, str]:
        """Return the GPU of each process that computes on one."""
        found: dict[int, str] = {}
        for uuid, handle in self._devices.items():
            with contextlib.suppress(self._error):
                for process in self._library.nvmlDeviceGetComputeRunningProcesses(handle):
                    found[int(process.pid)] = uuid
        return found

    def _take_events(self) -> None:
        if self._events is None:
            return
        with contextlib.suppress(self._error):  # NVML_ERROR_TIMEOUT: there are no more
            for _ in range(64):
                event = self._library.nvmlEventSetWait_v2(self._events, 0)
                uuid = _text(self._library.nvmlDeviceGetUUID(event.device))
                self._xids[uuid] = float(event.eventData)

    def _figures(self, uuid: str, handle: Any) -> Iterator[tuple[str, float]]:
        library = self._library

        def ask(what: str, call: Callable[[], Any]) -> Any:
            """Return the answer; None for a figure that this GPU does not have, or has not now."""
            if (uuid, what) in self._unsupported:
                return None
            try:
                return call()
            except self._error as error:
                if getattr(error, "value", 0) == getattr(library, "NVML_ERROR_NOT_SUPPORTED", 3):
                    self._unsupported.add((uuid, what))
                return None
            except AttributeError:  # an older library
                self._unsupported.add((uuid, what))
                return None

        use = ask("utilisation", lambda: library.nvmlDeviceGetUtilizationRates(handle))
        if use is not None:
            yield "gpu.used", float(use.gpu)
            yield "gpu.memory.busy", float(use.memory)
        memory = ask("memory", lambda: library.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None:
            yield "gpu.memory.used", float(memory.used)
            yield "gpu.memory.total", float(memory.total)
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


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
