"""Activity of the parts of a GPU, or of a MIG slice, by NVML's GPU performance monitoring (GPM): Hopper and later.

A figure is the mean between two samples of hardware counters. It needs no DCGM, which reads the same counters.
Numbers of metrics: nvmlGpmMetricId_t of nvml.h.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

BASE_SECONDS = 10.0
"""Age at which the sample that figures are compared with is replaced by the newest one. It is not replaced at each
read: after a user's question the next figure would otherwise be the mean of an instant."""
_METRICS: Mapping[int, str] = {
    1: "gpu.used",
    2: "gpu.sm.active",
    3: "gpu.sm.occupancy",
    5: "gpu.tensor.active",
    10: "gpu.dram.active",
}
"""GRAPHICS_UTIL, SM_UTIL, SM_OCCUPANCY, ANY_TENSOR_UTIL and DRAM_BW_UTIL, each in percent."""
PERMANENT_ERRORS = (3, 4, 13)
"""NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION and NVML_ERROR_FUNCTION_NOT_FOUND: asking again is of no use."""
_ONLY_OF_SLICES = "gpu.used"
"""Figure that is taken from here for slices only: NVML itself has it for whole GPUs."""


@dataclass(slots=True)
class _Sampled:
    """The two samples of a GPU or slice."""

    base: Any
    """The sample that the next one is compared with."""
    base_at: float
    spare: Any
    """Memory for the next sample."""


class Activity:
    """Activity of GPUs and slices. `library` is pynvml, or a recording of it."""

    def __init__(self, library: Any, clock: Callable[[], float]) -> None:
        self._library = library
        self._errors: tuple[type[Exception], ...] = (library.NVMLError, AttributeError)
        """AttributeError: an older library."""
        self._clock = clock
        self._sampled: dict[str, _Sampled] = {}
        self._unsupported: set[str] = set()

    def read(self, identifier: str, handle: Any, instance: int | None = None) -> dict[str, float]:
        """Return the means since the base sample. There are none in the first call, and on GPUs that do not measure
        them.

        `handle` is that of the whole GPU, and `instance` the number of the GPU instance of a slice.
        """
        if identifier in self._unsupported:
            return {}
        try:
            known = self._sampled.get(identifier)
            if known is None:
                self._begin(identifier, handle, instance)
                return {}
            now = self._clock()
            self._take(handle, instance, known.spare)
            found = self._readings_between(known.base, known.spare)
            if now - known.base_at >= BASE_SECONDS:
                known.base, known.spare, known.base_at = known.spare, known.base, now
        except self._errors as error:
            if isinstance(error, AttributeError) or getattr(error, "value", 0) in PERMANENT_ERRORS:
                log.debug("%s does not measure its activity: %s", identifier, error)
                self._unsupported.add(identifier)
            self._forget(identifier)
            return {}
        if instance is None:
            found.pop(_ONLY_OF_SLICES, None)
        return found

    def forget_others(self, present: Collection[str]) -> None:
        """Free the samples of slices that no longer exist."""
        for identifier in [identifier for identifier in self._sampled if identifier not in present]:
            self._forget(identifier)
        self._unsupported &= set(present)

    def _begin(self, identifier: str, handle: Any, instance: int | None) -> None:
        library = self._library
        if not library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            self._unsupported.add(identifier)
            return
        known = _Sampled(library.nvmlGpmSampleAlloc(), self._clock(), library.nvmlGpmSampleAlloc())
        self._sampled[identifier] = known
        self._take(handle, instance, known.base)

    def _take(self, handle: Any, instance: int | None, sample: Any) -> None:
        if instance is None:
            self._library.nvmlGpmSampleGet(handle, sample)
        else:
            self._library.nvmlGpmMigSampleGet(handle, instance, sample)

    def _readings_between(self, base: Any, sample: Any) -> dict[str, float]:
        request = self._library.c_nvmlGpmMetricsGet_t()
        request.version = self._library.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics, request.sample1, request.sample2 = len(_METRICS), base, sample
        for place, number in enumerate(_METRICS):
            request.metrics[place].metricId = number
        answered = self._library.nvmlGpmMetricsGet(request)
        measured = zip(_METRICS.values(), answered.metrics, strict=False)
        return {name: float(metric.value) for name, metric in measured if metric.nvmlReturn == 0}

    def _forget(self, identifier: str) -> None:
        known = self._sampled.pop(identifier, None)
        for sample in (known.base, known.spare) if known is not None else ():
            with contextlib.suppress(*self._errors):
                self._library.nvmlGpmSampleFree(sample)
