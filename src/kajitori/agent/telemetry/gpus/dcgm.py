"""Figures of dcgm-exporter, which has what NVML lacks: activity of multiprocessors and of tensor cores.

The exporter measures by itself (every 30 seconds by default), and is asked over HTTP on the same node. Metric names:
dcgm-exporter's default-counters.csv and its section on profiling.
"""

from __future__ import annotations

import logging
import re
import urllib.request
from collections.abc import Callable, Mapping, Sequence

log = logging.getLogger(__name__)

MAX_BYTES = 4 << 20
SECONDS = 2.0

_MIB = float(1 << 20)
_METRICS: Mapping[str, tuple[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu.used", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gpu.memory.busy", 1.0),
    "DCGM_FI_DEV_FB_USED": ("gpu.memory.used", _MIB),
    "DCGM_FI_PROF_SM_ACTIVE": ("gpu.sm.active", 100.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("gpu.sm.occupancy", 100.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gpu.tensor.active", 100.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gpu.dram.active", 100.0),
    "DCGM_FI_DEV_POWER_USAGE": ("gpu.power", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu.temperature", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("gpu.clock.sm", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("gpu.clock.memory", 1.0),
    "DCGM_FI_DEV_XID_ERRORS": ("gpu.xid", 1.0),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("gpu.pcie.received", 1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("gpu.pcie.sent", 1.0),
}
_SLICE_METRICS: Mapping[str, tuple[str, float]] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gpu.used", 100.0),
    **{
        name: _METRICS[name]
        for name in (
            "DCGM_FI_PROF_SM_ACTIVE",
            "DCGM_FI_PROF_SM_OCCUPANCY",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "DCGM_FI_PROF_DRAM_ACTIVE",
        )
    },
}
"""Metrics that the exporter measures for each slice. It repeats most of the others for each slice of a GPU."""
_LINE = re.compile(r"^([A-Z_0-9]+)\{([^}]*)\}\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Dcgm:
    """The GPUs of one dcgm-exporter, under their UUIDs and indices."""

    def __init__(self, url: str, fetch: Callable[[str], str] | None = None) -> None:
        self._url = url
        self._fetch = fetch or _get
        self._failed = False
        self._devices: Sequence[Sequence[str]] = ()

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """Return readings by UUID, and the same by index; none while the exporter does not answer."""
        try:
            text = self._fetch(self._url)
        except (OSError, ValueError) as error:
            if not self._failed:
                log.warning("%s does not answer; GPUs are watched without it: %s", self._url, error)
            self._failed = True
            return {}
        self._failed = False
        self._devices = devices_in(text)
        return parse(text)

    def devices(self) -> Sequence[Sequence[str]]:
        """Return the GPUs of the last answer."""
        return self._devices

    def processes(self) -> Mapping[int, str]:
        return {}

    def aliases(self) -> Mapping[str, str]:
        return {}


def parse(text: str) -> dict[str, dict[str, float]]:
    """Return readings by UUID and by index in an exporter's text."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or (match[1] not in _METRICS and match[1] not in _SLICE_METRICS):
            continue
        labels = dict(_LABEL.findall(match[2]))
        instance = labels.get("GPU_I_ID")
        known = (_SLICE_METRICS if instance else _METRICS).get(match[1])
        if known is None:
            continue
        try:
            value = float(match[3]) * known[1]
        except ValueError:
            continue
        for identifier in (labels.get("UUID"), labels.get("gpu")):
            if identifier:  # a slice has the identifiers of the whole GPU
                found.setdefault(f"{identifier}/gi{instance}" if instance else identifier, {})[known[0]] = value
    return found


def devices_in(text: str) -> Sequence[Sequence[str]]:
    """Return UUID and index of each GPU in an exporter's text, by index."""
    found: dict[str, str] = {}
    for match in filter(None, map(_LINE.match, text.splitlines())):
        labels = dict(_LABEL.findall(match[2]))
        if match[1] in _METRICS and labels.get("UUID") and labels.get("gpu", "").isdigit():
            found[labels["UUID"]] = labels["gpu"]
    return sorted(found.items(), key=lambda device: int(device[1]))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # the operator's own option
        return str(answer.read(MAX_BYTES).decode(errors="replace"))
