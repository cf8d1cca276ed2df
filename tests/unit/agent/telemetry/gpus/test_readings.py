"""GPUs: NVML as a driver answered it, dcgm-exporter's text, AMD's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.helpers.gpus.recorded_nvml import SLICES, UUID, Divided, Hopper, NvmlError, Recorded

from kajitori.agent.telemetry.gpus.amd import Amd
from kajitori.agent.telemetry.gpus.dcgm import Dcgm
from kajitori.agent.telemetry.gpus.nvml import Nvml
from kajitori.agent.telemetry.gpus.readings import CombinedGpus


def test_nvmls_figures_have_our_names_and_units() -> None:
    library = Recorded()
    found = Nvml(library).read()
    assert found[UUID] == found["0"]
    assert found[UUID] == {
        "gpu.used": 97.0,
        "gpu.memory.busy": 41.0,
        "gpu.memory.used": 70_000_000_000.0,
        "gpu.memory.total": 85_520_809_984.0,
        "gpu.power": 512.345,
        "gpu.temperature": 64.0,
        "gpu.clock.sm": 1980.0,
        "gpu.clock.memory": 1980.0,
        "gpu.ecc.corrected": 2.0,
        "gpu.ecc.uncorrected": 2.0,
        "gpu.pcie.sent": 1_024_000.0,
        "gpu.pcie.received": 1_024_000.0,
        "gpu.throttled": 36.0,
        "gpu.xid": 0.0,
    }
    assert Nvml(library).processes() == {4711: UUID}


def test_a_figure_that_a_gpu_lacks_is_asked_for_once() -> None:
    library = Recorded()
    nvml = Nvml(library)
    for _ in range(3):
        nvml.read()
    assert library.calls.count("nvmlDeviceGetFieldValues") == 2, "bytes and errors of NVLinks"
    assert library.calls.count("nvmlDeviceGetPowerUsage") == 3


def test_nvlinks_have_their_errors_and_the_number_of_those_that_are_active() -> None:
    library: Any = Recorded()
    totals = {138: 7, 139: 9, 38: 1, 45: 0, 52: 40, 59: 2}

    def values(_handle: Any, fields: list[Any]) -> list[Any]:
        numbers = [field[0] if isinstance(field, tuple) else field for field in fields]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=totals[each])) for each in numbers]

    def state(_handle: Any, link: int) -> int:
        if link >= 12:
            raise NvmlError(2)
        return int(link != 5)

    library.nvmlDeviceGetFieldValues, library.nvmlDeviceGetNvLinkState = values, state
    reading = Nvml(library).read()[UUID]
    assert (reading["gpu.nvlink.errors"], reading["gpu.nvlink.links"], reading["gpu.nvlink.sent"]) == (43, 11, 7168)


def test_a_gpu_that_fell_off_the_bus_has_no_figures() -> None:
    """Other GPUs are still read, and it is asked again: a reset may bring it back."""
    library = Recorded()
    nvml = Nvml(library)

    def lost(*_: Any) -> Any:
        raise NvmlError(15)

    vars(library)["nvmlDeviceGetPowerUsage"] = lost
    assert "gpu.power" not in nvml.read()[UUID]
    del vars(library)["nvmlDeviceGetPowerUsage"]
    assert nvml.read()[UUID]["gpu.power"] == 512.345


def test_the_last_xid_error_is_remembered() -> None:
    library = Recorded()
    nvml = Nvml(library)
    library.events = [13, 79]
    assert [nvml.read()[UUID]["gpu.xid"] for _ in range(2)] == [79.0, 79.0]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_activity_is_the_mean_between_two_samples() -> None:
    """A question in between does not shorten the time over which the next sample is the mean."""
    library, clock = Hopper(), Clock()
    nvml = Nvml(library, clock)
    assert "gpu.sm.active" not in nvml.read()[UUID]  # there is only one sample
    for seconds in (2.0, 15.0, 30.0):
        clock.now = seconds
        found = nvml.read()[UUID]
        assert (found["gpu.sm.active"], found["gpu.sm.occupancy"], found["gpu.dram.active"]) == (47.5, 22.25, 18.5)
        assert (found["gpu.used"], "gpu.tensor.active" in found) == (97.0, False)
    assert library.between == [(0, 1), (0, 1), (1, 0)]


def test_a_sample_serves_as_the_earlier_one_for_ten_seconds() -> None:
    library, clock = Hopper(), Clock()
    clock.now = 100.0
    nvml = Nvml(library, clock)
    for seconds in (100.0, 109.0, 110.0, 119.0, 120.0, 121.0):
        clock.now = seconds
        nvml.read()
    assert library.between == [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize(("code", "asked"), [(3, 1), (4, 1), (13, 1), (15, 3)])
def test_activity_that_a_gpu_does_not_measure_is_asked_for_once(code: int, asked: int) -> None:
    """A driver may also forbid it. A GPU that is lost for a moment (15) is asked again, and leaves no sample behind."""
    library = Hopper()
    library.gpm_error = code
    nvml = Nvml(library)
    for _ in range(3):
        assert nvml.read()[UUID]["gpu.used"] == 97.0
    assert library.calls.count("nvmlGpmQueryDeviceSupport") == asked
    assert not [sample for sample in library.samples if sample is not None]


def test_slices_have_memory_and_activity_of_their_own() -> None:
    library, clock = Divided(), Clock()
    nvml = Nvml(library, clock)
    nvml.read()
    clock.now = 15.0
    found = nvml.read()
    activity = {"gpu.used": 61.0, "gpu.sm.active": 47.5, "gpu.sm.occupancy": 22.25, "gpu.dram.active": 18.5}
    memory = {"gpu.memory.used": 4e9, "gpu.memory.total": 10_200_547_328.0}
    assert found[SLICES[1]] == {**memory, **activity, "gpu.xid": 0.0}
    assert found[SLICES[0]]["gpu.memory.used"] == 1e9
    assert "gpu.used" not in found[UUID] and found[UUID]["gpu.sm.active"] == 47.5
    assert {taken[1:] for taken in library.taken} == {(), (7,), (10,)}
    assert nvml.processes() == {71: SLICES[0], 72: SLICES[1]}


def test_slices_of_a_gpu_without_gpm_have_memory_alone() -> None:
    library = Divided()
    library.answers["nvmlGpmQueryDeviceSupport"].isSupportedDevice = 0
    nvml = Nvml(library)
    for _ in range(2):
        assert set(nvml.read()[SLICES[0]]) == {"gpu.memory.used", "gpu.memory.total", "gpu.xid"}


def test_slices_are_known_by_the_names_of_plugins_and_drivers() -> None:
    names = Nvml(Divided()).aliases()
    assert (names["gpu-0"], names["nvidia0"]) == (UUID, UUID)
    assert names["nvidia0/gi10"] == names[f"{UUID}/gi10"] == SLICES[1]
    assert names["gpu-0-mig-1g10gb-19-4"] in SLICES


def test_a_gpu_that_is_no_longer_divided_has_its_figures_again() -> None:
    library = Divided()
    nvml = Nvml(library)
    nvml.read()
    library.mode = 0
    library.answers |= {"nvmlDeviceGetUtilizationRates": Recorded().answers["nvmlDeviceGetUtilizationRates"]}
    found = nvml.read()
    assert set(found) == {UUID, "0"} and found[UUID]["gpu.used"] == 97.0
    assert len([sample for sample in library.samples if sample is not None]) == 2  # those of the whole GPU


def test_dcgms_activity_of_slices_is_added_to_their_memory() -> None:
    """On GPUs before Hopper it is the only source. Metrics of the whole GPU, which it repeats, are left out."""
    library = Divided()
    library.answers["nvmlGpmQueryDeviceSupport"].isSupportedDevice = 0
    labels = f'gpu="0",UUID="{UUID}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="10"'
    text = f"""DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.75
DCGM_FI_PROF_DRAM_ACTIVE{{{labels}}} 0.125
DCGM_FI_DEV_POWER_USAGE{{{labels}}} 412
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{UUID}"}} 0.5
"""
    found = CombinedGpus((Nvml(library), Dcgm("http://127.0.0.1:9400/metrics", lambda _: text))).read()[SLICES[1]]
    assert (found["gpu.used"], found["gpu.dram.active"], found["gpu.memory.used"]) == (75.0, 12.5, 4e9)
    assert "gpu.power" not in found


DCGM = f"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="{UUID}",pci_bus_id="00000000:1B:00.0",modelName="NVIDIA H100"}} 1980
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{UUID}",device="nvidia0",container="main",pod="bert-1-0",namespace="team"}} 66757
DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{UUID}",device="nvidia0"}} 0.874321
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",UUID="{UUID}",device="nvidia0"}} 0.412000
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{UUID}",device="nvidia0"}} nonsense
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="GPU-other",device="nvidia1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 3
"""


def test_dcgms_activity_is_added_to_nvmls_figures() -> None:
    dcgm = Dcgm("http://127.0.0.1:9400/metrics", lambda _: DCGM)
    found = CombinedGpus((Nvml(Recorded()), dcgm)).read()
    assert set(found) == {UUID, "0"}
    assert (found[UUID]["gpu.sm.active"], found[UUID]["gpu.tensor.active"]) == pytest.approx((87.4321, 41.2))
    assert (found[UUID]["gpu.memory.used"], found[UUID]["gpu.power"]) == (66757.0 * 2**20, 512.345)


def test_an_exporter_that_does_not_answer_is_done_without() -> None:
    def fetch(_: str) -> str:
        raise ConnectionRefusedError("refused")

    assert Dcgm("http://127.0.0.1:9400/metrics", fetch).read() == {}


def test_amds_files_are_read(tmp_path: Path) -> None:
    """As an MI300X shows them; another card of the machine is a server's display. The kubelet names the GPU as AMD's
    driver for dynamic resource allocation does."""
    device = tmp_path / "devices/0000:19:00.0"
    for name in ("card1", "renderD128"):
        (device / "drm" / name).mkdir(parents=True)
    (tmp_path / "class/drm/card1").mkdir(parents=True)
    (tmp_path / "class/drm/card1/device").symlink_to(device)
    for name, text in {
        "vendor": "0x1002\n",
        "unique_id": "5f2a3b\n",
        "gpu_busy_percent": "88\n",
        "mem_info_vram_used": "1024\n",
        "mem_info_vram_total": "4096\n",
        "hwmon/hwmon3/power1_average": "700000000\n",
        "hwmon/hwmon3/temp1_input": "61000\n",
        "hwmon/hwmon3/freq1_input": "2100000000\n",
        "ras/umc_err_count": "ue: 1\nce: 4\n",
        "ras/gfx_err_count": "ue: 0\nce: 2\n",
    }.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(text)
    display = tmp_path / "class/drm/card0/device"
    display.mkdir(parents=True)
    (display / "vendor").write_text("0x1a03\n")
    amd = Amd(tmp_path)
    assert len(amd) == 1
    assert amd.aliases() == {"gpu-1-128": "0000:19:00.0"}
    assert amd.read()["0000:19:00.0"] == amd.read()["5f2a3b"]
    assert amd.read()["5f2a3b"] == {
        "gpu.used": 88.0,
        "gpu.memory.used": 1024.0,
        "gpu.memory.total": 4096.0,
        "gpu.power": 700.0,
        "gpu.temperature": 61.0,
        "gpu.clock.sm": 2100.0,
        "gpu.ecc.corrected": 6.0,
        "gpu.ecc.uncorrected": 1.0,
    }
