"""Choice of the sources of GPU readings that this machine has."""

from __future__ import annotations

from kajitori.agent.telemetry.gpus.amd import Amd
from kajitori.agent.telemetry.gpus.dcgm import Dcgm
from kajitori.agent.telemetry.gpus.nvml import open_nvml
from kajitori.agent.telemetry.gpus.readings import CombinedGpus, GpuSource, NoGpus


def choose_gpus(dcgm_url: str = "") -> GpuSource:
    """Return the sources that this machine has, as one: NVML, AMD's driver, and the dcgm-exporter at this URL."""
    found: list[GpuSource] = []
    nvml, amd = open_nvml(), Amd()
    if nvml is not None:
        found.append(nvml)
    if len(amd):
        found.append(amd)
    if dcgm_url:
        found.append(Dcgm(dcgm_url))
    return CombinedGpus(found) if found else NoGpus()
