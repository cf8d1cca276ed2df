"""Whether the platform names slow ranks of real programs, and none in healthy gangs.

    python -m bench.telemetry.stragglers_real                      each scenario once, three healthy gangs: 24 minutes
    python -m bench.telemetry.stragglers_real --scenario slow      only this one; again for several
    python -m bench.telemetry.stragglers_real --record FILE        keep the telemetry for bench.telemetry.recorded_gangs

Gangs of 8 processes under `kaji up` take a step of half a second together, and wait for each other. Their GPUs are
simulated (`bench.telemetry.simulated_gpus`). In the scenarios `figures` and `own-pace` they have none, and write
figures of their steps. In `processor` and `processor-healthy` they compute on 1.2 cores in all: run these two alone. A
gang is accused once its status names a straggler, without being asked. Needs root and network namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.parts.common import CONSOLE, Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.telemetry.stuck import NODE, Platform, own_network, running_platform

RANKS, GUILTY = 8, "5"
SLOW_AFTER_SECONDS = 120.0
WATCHED_SECONDS = 1380.0
"""Two minutes, a quarter of an hour, and the telemetry of that time."""
BETWEEN_SECONDS = 5.0
LOOK_SECONDS = 10.0
GUILTY_SCENARIOS = {
    "slow": "kernels of rank 5 take 30 % longer",
    "clock": "the same, and the clock of its GPU is lower",
    "figures": "no GPUs: rank 5 writes that its own part of a step takes 30 % longer",
    "own-pace": "no GPUs, ranks that do not wait for each other: steps of rank 5 take 30 % longer",
    "processor": "no GPUs: rank 5 computes for 30 % longer",
}
HEALTHY = {
    "healthy": "healthy, 3 % noise",
    "slightly": "kernels of rank 5 take 5 % longer",
    "briefly": "kernels of rank 5 take 50 % longer for two minutes",
    "all": "all ranks become slower by 50 %",
    "roles": "ranks 6 and 7 have 60 % more work",
    "disk": "a shared disk serves each rank late at times",
    "figures-healthy": "no GPUs: ranks write their own part of a step, 3 % noise",
    "own-pace-healthy": "no GPUs, ranks that do not wait for each other, 3 % noise",
    "processor-healthy": "no GPUs: healthy, 3 % noise",
}
ALONE = ("processor", "processor-healthy")
"""Scenarios that compute, and need the processors of the machine."""
WITHOUT_GPUS = ("figures", "own-pace")
"""Beginnings of the names of scenarios that need neither GPUs nor processors."""
POLICY = {"security": {"allowRoot": True, "allowHostNetwork": True}, "nodeHealth": {"slowRuns": 0}}


@dataclass
class Gang:
    scenario: str
    run: str
    began_at: float
    ranks: list[str] = field(default_factory=list)
    """Ranks that the status names as slow, in the order in which it did."""
    after_minutes: float | None = None
    """Time from the beginning of the slowness until the first finding."""
    message: str = ""
    why: str = ""
    """Sentences of `kaji why` about slow ranks at the end."""
    unexpected: str = ""

    @property
    def is_right(self) -> bool:
        return self.ranks == ([GUILTY] if self.scenario in GUILTY_SCENARIOS else [])


def submit(platform: Platform, run: str, scenario: str, folder: Path) -> None:
    """Start a gang."""
    program = [sys.executable, "-S", "-E", "-c", _START, str(folder), scenario, str(SLOW_AFTER_SECONDS)]
    options = ["--launcher", "torchrun", "-n", str(RANKS), "-m", "64m", "--restarts", "0", "-e", f"GPUS={folder}/gpus"]
    if scenario in ALONE:
        options += ["--cpus", "0.2"]
    else:
        options += ["--cpus", "0.001", *(() if scenario.startswith(WITHOUT_GPUS) else ("--gpus", "1"))]
    node = ["--node-selector", f"kubernetes.io/hostname={NODE}"]
    platform.kaji("run", "-d", "-q", "--name", run, *options, *node, "-w", str(folder), "host", *program)


_START = "import sys; folder = sys.argv.pop(1); sys.path[:0] = [folder]; import stragglers_member"


def look(platform: Platform, gang: Gang) -> None:
    """Note what the status says now."""
    status = platform.get(f"/v1/runs/default/{gang.run}")["status"]
    if status["phase"] in ("Failed", "Succeeded"):
        gang.unexpected = f"the run is {status['phase']}: {status.get('message', '')}"
    for place in status.get("slow", ())[len(gang.ranks) :]:
        gang.ranks.append(place["ranks"])
        if gang.after_minutes is None:
            gang.after_minutes = (time.monotonic() - gang.began_at - SLOW_AFTER_SECONDS) / 60
            gang.message = place["message"]


def watch(platform: Platform, scenarios: Sequence[str], folder: Path) -> list[Gang]:
    """Run a gang of each scenario, and return the platform's findings about each."""
    gangs: list[Gang] = []
    for number, scenario in enumerate(scenarios):
        run = f"{scenario}-{number}"
        submit(platform, run, scenario, folder)
        gangs.append(Gang(scenario, run, time.monotonic()))
        time.sleep(BETWEEN_SECONDS)
    while time.monotonic() - gangs[-1].began_at < WATCHED_SECONDS:
        for gang in gangs:
            try:
                look(platform, gang)
            except OSError as error:  # the machine is busy: it is looked at again
                CONSOLE.print(f"{gang.run}: {error}")
        time.sleep(LOOK_SECONDS)
    for gang in gangs:
        words = platform.get(f"/v1/runs/default/{gang.run}/why?look=false")["words"]
        gang.why = " ".join(each for each in words if "slower than its peers" in each)
    return gangs


def main() -> int:
    """Print what was said of each gang; return 0 if exactly the slow ranks were named."""
    parser = option_parser(__doc__)
    every = [*GUILTY_SCENARIOS, *HEALTHY]
    parser.add_argument("--scenario", action="append", choices=every, help="only this one")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append the telemetry of each gang to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all runs are deleted
    if lacking := own_network():
        CONSOLE.print(f"Nothing was measured: {lacking}.")
        return 1
    together = [scenario for scenario in every if scenario not in ALONE]
    scenarios = options.scenario or [*together, "processor", "healthy", "healthy"]
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="slow") as text, tempfile.TemporaryDirectory(prefix="slowhome") as home:
        folder = Path(text)
        (folder / "gpus").mkdir()
        here = Path(__file__).parent
        shutil.copy(here / "stuck_collectives.py", folder / "collectives.py")
        shutil.copy(here / "stragglers_member.py", folder)
        (folder / "policy.yaml").write_text(json.dumps(POLICY))
        program = [sys.executable, "-m", "bench.telemetry.simulated_gpus", str(folder / "gpus")]
        more = ["--gpus", str(RANKS * len(scenarios)), "--gpu-type", "simulated"]
        with running_platform(
            Path(home), folder / "policy.yaml", has_own_network=True, node_program=program, node_options=more
        ) as platform:
            gangs = watch(platform, scenarios, folder)
            for gang in gangs if options.record else ():
                platform.record(gang.run, gang.scenario, options.record)
    load.append(os.getloadavg()[0])
    rows = [
        (
            (GUILTY_SCENARIOS | HEALTHY)[gang.scenario],
            ", ".join(gang.ranks),
            f"{gang.after_minutes:.1f}" if gang.after_minutes is not None else "",
            "yes" if gang.why else "",
        )
        for gang in gangs
    ]
    title = f"gangs of 8 processes; load of the machine {min(load):.1f} to {max(load):.1f}"
    print_table(title, ("", "ranks named", "minutes until then", "kaji why names one"), rows)
    for gang in gangs:
        if gang.message or gang.unexpected:
            CONSOLE.print(f"{gang.run}: {gang.message or gang.unexpected}")
    guilty = [gang for gang in gangs if gang.scenario in GUILTY_SCENARIOS]
    healthy = [gang for gang in gangs if gang.scenario in HEALTHY]
    return print_limits(
        [
            Limit("gangs that ended", sum(bool(gang.unexpected) for gang in gangs), most=0),
            Limit("slow ranks that were named", sum(gang.is_right for gang in guilty), least=len(guilty)),
            Limit("other gangs that were accused", sum(not gang.is_right for gang in healthy), most=0),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
