"""NVML's answers as a driver gave them, in place of pynvml."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

UUID = "GPU-5a9f1a50-5b1c-4ba0-8ff5-3b4b8c1d9e01"


class NvmlError(Exception):
    """pynvml's error; `value` is the code."""

    def __init__(self, value: int) -> None:
        self.value = value


class Recorded:
    """The answers of one GPU of type H100 SXM5 under load, by function. Functions that are not listed are not supported
    by the GPU (3); `calls` counts the calls."""

    NVMLError = NvmlError
    NVML_ERROR_NOT_SUPPORTED = 3

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events: list[int] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetUUID": UUID,
            "nvmlEventSetCreate": "set",
            "nvmlDeviceRegisterEvents": None,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=41),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=70_000_000_000, total=85_520_809_984),
            "nvmlDeviceGetPowerUsage": 512_345,
            "nvmlDeviceGetTemperature": 64,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTotalEccErrors": 2,
            "nvmlDeviceGetPcieThroughput": 1000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x25,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4711)],
        }

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> Any:
            self.calls.append(name)
            if name == "nvmlEventSetWait_v2":
                if not self.events:
                    raise NvmlError(10)  # timeout
                return SimpleNamespace(device="handle", eventData=self.events.pop(0))
            if name not in self.answers:
                raise NvmlError(3)
            return self.answers[name]

        return call
