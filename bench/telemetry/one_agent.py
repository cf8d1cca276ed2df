"""The cost of one agent, for `bench.telemetry.agents`. This process loads the modules of a real agent, and no other
large ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from tests.helpers.gpus.recorded_nvml import UUID, Recorded

from kajitori.agent.telemetry.gpus.nvml import Nvml
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.reporting import TelemetryReporting
from kajitori.agent.telemetry.samples import MemberSamples
from kajitori.core.telemetry.report import encode
from kajitori.entrypoints import agent as _entrypoint  # everything that a real agent has loaded

GPUS = 8


def main() -> None:
    """Sample and report 8 members; print the share of a core, the bytes of memory, and NVML's calls for a sample."""
    programs = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(GPUS)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for number, program in enumerate(programs):
                log = Path(folder) / f"{number}.log"
                log.write_text("2026-11-23T10:00:00Z stdout F hello\n")
                pids: Callable[[], list[int]] = partial(list, (program.pid,))
                found.append(LocalMember("team", f"bert-1-{number}", f"u{number}", pids, (), log, (UUID,)))

            class Source:
                def members(self) -> list[LocalMember]:
                    return found

            library = Recorded()
            now = [1_200_000.0]
            samples = MemberSamples(Source(), Nvml(library), lambda: now[0])
            count = 240
            for _ in range(count // 4):  # warm up
                now[0] += 15
                samples.sample()
            library.calls.clear()
            began = time.process_time()
            for number in range(count):
                now[0] += 15
                samples.sample()
                if number % 4 == 3:
                    encode(samples.report((int(now[0] // 60) - 2, int(now[0] // 60) - 1)))
            share = (time.process_time() - began) / (count * 15)
            memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            calls = len(library.calls) / count
            print(msgspec.json.encode([share, memory, calls]).decode())
            assert {TelemetryReporting.__module__, _entrypoint.__name__} <= sys.modules.keys()
    finally:
        for program in programs:
            program.kill()
            program.wait()


if __name__ == "__main__":
    main()
