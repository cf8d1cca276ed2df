"""NVML's answers as a driver gave them, in place of pynvml."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pynvml

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


SLICES = "MIG-0f0d5e3a-1111-5c2e-9d1f-2a3b4c5d6e7f", "MIG-1a1d5e3a-2222-5c2e-9d1f-2a3b4c5d6e7f"
ACTIVITY = {1: 61.0, 2: 47.5, 3: 22.25, 5: 31.0, 10: 18.5}
"""Metrics of GPM: utilisation, multiprocessors, occupancy, tensor cores, bandwidth of the memory."""


class Hopper(Recorded):
    """The same GPU with GPM. The structures are pynvml's own, so that a wrong field is an error here, too."""

    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t
    NVML_GPM_METRICS_GET_VERSION = pynvml.NVML_GPM_METRICS_GET_VERSION

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {
            "nvmlDeviceGetMinorNumber": 0,
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
        }
        self.taken: list[tuple[Any, ...]] = []
        """Samples that were taken: of the GPU, or of the GPU and a GPU instance."""
        self.samples: list[Any] = []
        self.between: list[tuple[int, int]] = []
        """Numbers of the two samples of each question."""
        self.gpm_error = 0

    def nvmlGpmSampleAlloc(self) -> Any:
        self.samples.append(pynvml.struct_c_nvmlGpmSample_t())
        return pynvml.c_nvmlGpmSample_t(self.samples[-1])

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self.samples[self._number(sample)] = None

    def nvmlGpmSampleGet(self, *device: Any) -> None:
        if self.gpm_error:
            raise NvmlError(self.gpm_error)
        self.taken.append(device[:-1])

    nvmlGpmMigSampleGet = nvmlGpmSampleGet

    def nvmlGpmMetricsGet(self, request: Any) -> Any:
        assert request.version == 1
        self.between.append((self._number(request.sample1), self._number(request.sample2)))
        for metric in request.metrics[: request.numMetrics]:
            metric.nvmlReturn, metric.value = (0, ACTIVITY[metric.metricId]) if metric.metricId != 5 else (3, 0.0)
        return request

    def _number(self, sample: Any) -> int:
        address = ctypes.addressof(sample.contents)
        return next(
            number for number, one in enumerate(self.samples) if one is not None and ctypes.addressof(one) == address
        )


class Divided(Hopper):
    """The same GPU, divided into two MIG slices of 1g.10gb and five places that are free."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = 1
        for name in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPcieThroughput"):
            del self.answers[name]  # the driver answers "not supported", for the GPU and its slices
        self.answers |= {
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "nvmlDeviceGetGpuInstanceById": "instance",
            "nvmlGpuInstanceGetInfo": SimpleNamespace(profileId=19, placement=SimpleNamespace(start=4, size=1)),
        }

    def nvmlDeviceGetMigMode(self, _handle: Any) -> list[int]:
        return [self.mode, self.mode]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _handle: Any, index: int) -> Any:
        if index not in (0, 3):
            raise NvmlError(6)  # not found
        return f"slice {index}"

    def nvmlDeviceGetGpuInstanceId(self, handle: Any) -> int:
        return 7 + int(handle[-1])

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return {"slice 0": SLICES[0], "slice 3": SLICES[1]}.get(handle, UUID)

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        if handle == "handle":
            return SimpleNamespace(used=20_000_000_000, total=85_520_809_984)
        return SimpleNamespace(used=int(handle[-1]) * 10**9 + 10**9, total=10_200_547_328)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in {"slice 0": [71], "slice 3": [72]}.get(handle, [71, 72])]
