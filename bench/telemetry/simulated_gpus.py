"""GPUs of a machine without any: readings follow from what programs note in a file for each GPU.

    python -m bench.telemetry.simulated_gpus FOLDER ARGUMENTS...

runs `kaji ARGUMENTS` with these GPUs.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from kajitori.cli.app import kaji


class SimulatedGpus:
    """A source of readings, by the index of the GPU. The first reading of a GPU has no shares yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[str, tuple[float, float, float]] = {}

    def read(self) -> Mapping[str, Mapping[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for file in self._folder.iterdir():
            noted = file.read_bytes()
            if len(noted) < struct.calcsize("ddd"):
                continue
            now, (ran, active, clock) = time.monotonic(), struct.unpack("ddd", noted)
            before, self._last[file.name] = self._last.get(file.name), (now, ran, active)
            reading = found[file.name] = {"gpu.clock.sm": clock}
            if before is not None and ran >= before[1]:
                seconds = now - before[0]
                reading["gpu.used"] = min(100.0, 100 * (ran - before[1]) / seconds)
                reading["gpu.sm.active"] = min(100.0, 100 * (active - before[2]) / seconds)
        return found

    def devices(self) -> Sequence[Sequence[str]]:
        return [
            (name,)
            for name in sorted((file.name for file in self._folder.iterdir()), key=lambda name: (len(name), name))
        ]

    def processes(self) -> Mapping[int, str]:
        return {}

    def aliases(self) -> Mapping[str, str]:
        return {}


if __name__ == "__main__":
    gpus = SimulatedGpus(Path(sys.argv[1]))
    with patch("kajitori.entrypoints.parts.telemetry.choose_gpus", lambda: gpus):
        kaji(sys.argv[2:])
