"""AMD's GPUs by the files of the amdgpu driver in sysfs: no library is needed.

Files: Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst of Linux. Partitions of a GPU have no such files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

_VENDOR = "0x1002"


class Amd:
    """AMD's GPUs, under their unique identifiers, their bus addresses and their indices."""

    def __init__(self, sys: Path = Path("/sys")) -> None:
        cards = sys / "class" / "drm"
        self._devices = []
        for card in sorted(cards.glob("card[0-9]*"), key=lambda path: (len(path.name), path.name)):
            if "-" not in card.name and _text_of(card / "device" / "vendor") == _VENDOR:
                self._devices.append(card / "device")

    def __len__(self) -> int:
        return len(self._devices)

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """Return readings by identifier."""
        found: dict[str, Mapping[str, float]] = {}
        for index, device in enumerate(self._devices):
            found |= dict.fromkeys(_identifiers(device, index), _device_readings(device))
        return found

    def devices(self) -> Sequence[Sequence[str]]:
        return [_identifiers(device, index) for index, device in enumerate(self._devices)]

    def processes(self) -> Mapping[int, str]:
        return {}

    def aliases(self) -> Mapping[str, str]:
        """Return the bus address by the name that AMD's driver for dynamic resource allocation gives a GPU:
        gpu-CARD-RENDER, from the names of its device files (CanonicalName in cmd/gpu-kubeletplugin/deviceinfo.go)."""
        found = {}
        for device in self._devices:
            numbers = [
                path.name.removeprefix(word)
                for word in ("card", "renderD")
                for path in (device / "drm").glob(f"{word}[0-9]*")
            ]
            if len(numbers) == 2:
                found["-".join(("gpu", *numbers))] = device.resolve().name
        return found


def _identifiers(device: Path, index: int) -> list[str]:
    return [name for name in (_text_of(device / "unique_id"), device.resolve().name, str(index)) if name]


def _device_readings(device: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    sensors = next(iter(sorted((device / "hwmon").glob("hwmon*"))), device / "hwmon")
    for name, file, factor in (
        ("gpu.used", device / "gpu_busy_percent", 1.0),
        ("gpu.memory.busy", device / "mem_busy_percent", 1.0),
        ("gpu.memory.used", device / "mem_info_vram_used", 1.0),
        ("gpu.memory.total", device / "mem_info_vram_total", 1.0),
        ("gpu.power", sensors / "power1_average", 1e-6),
        ("gpu.power", sensors / "power1_input", 1e-6),
        ("gpu.temperature", sensors / "temp1_input", 1e-3),
        ("gpu.clock.sm", sensors / "freq1_input", 1e-6),
        ("gpu.clock.memory", sensors / "freq2_input", 1e-6),
    ):
        with contextlib.suppress(ValueError):
            found[name] = float(_text_of(file)) * factor
    for kind, name in (("ce", "gpu.ecc.corrected"), ("ue", "gpu.ecc.uncorrected")):
        counts = [
            float(line.rpartition(":")[2])
            for file in (device / "ras").glob("*_err_count")
            for line in _text_of(file).splitlines()
            if line.startswith(f"{kind}:") and line.rpartition(":")[2].strip().isdigit()
        ]
        if counts:
            found[name] = sum(counts)
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
