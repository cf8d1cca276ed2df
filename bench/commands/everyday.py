"""Processor time of everyday commands, beside kubectl for the same question and beside Python doing nothing.

    python -m bench.commands.everyday            fifteen rounds
    python -m bench.commands.everyday --small    five

`kaji up` runs in a process of its own and holds some ended runs. Each round runs every command once, in turn, and reads
what the operating system counted for it: user and system time of the process and its children.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which

from tests.harness.kaji_up import installed_kaji_up

from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser

LIMIT_ABOVE_PYTHON_MS = 80.0
"""Processor time that a verb may take in addition to `python -c pass`, in milliseconds."""

RUNS = 20

EVERYDAY: Mapping[str, Sequence[str]] = {
    "kaji ps -a": ("ps", "-a"),
    "kaji describe": ("describe", "bench-0"),
    "kaji logs": ("logs", "bench-0"),
    "kaji wait": ("wait", "bench-0"),
    "kaji stop": ("stop", "bench-0"),
    "kaji queue": ("queue",),
    "kaji gpus": ("gpus",),
}


def main() -> int:
    """Print the figures; return 0 if every verb was within its limit."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="five rounds")
    rounds = 5 if parser.parse_args().small else 15
    kaji = str(Path(sys.executable).with_name("kaji"))
    with tempfile.TemporaryDirectory(prefix="kajitori-cli-") as place, installed_kaji_up(Path(place)) as environment:
        _submit_runs(kaji, environment)
        commands = _commands(kaji, Path(place) / "data" / "kubeconfig")
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds + 1):
            for name, command in commands.items():
                times[name].append(_processor_ms(command, environment))
    found = {name: values[1:] for name, values in times.items()}  # the first round also fills caches
    rows = [(name, median_and_range(values, 0)) for name, values in found.items()]
    print_table(f"processor time of a command, {rounds} rounds", ("command", "ms"), rows)
    nothing = statistics.median(found["python -c pass"])
    return print_limits(
        [
            Limit(
                f"{name} above python", statistics.median(found[name]) - nothing, most=LIMIT_ABOVE_PYTHON_MS, unit=" ms"
            )
            for name in EVERYDAY
        ]
    )


def _commands(kaji: str, kubeconfig: Path) -> dict[str, Sequence[str]]:
    """Return the commands to measure, by name: Python alone, our verbs, and the same questions to other tools."""
    commands: dict[str, Sequence[str]] = {"python -c pass": (sys.executable, "-c", "pass")}
    commands |= {name: (kaji, *words) for name, words in EVERYDAY.items()}
    if kubectl := which("kubectl"):
        asking = (kubectl, f"--kubeconfig={kubeconfig}")
        commands |= {
            "kubectl get runs": (*asking, "get", "runs"),
            "kubectl describe run": (*asking, "describe", "run", "bench-0"),
            "kubectl logs": (*asking, "logs", "bench-0-1-0"),
        }
    if docker := which("docker"):
        commands["docker --version"] = (docker, "--version")
    return commands


def _submit_runs(kaji: str, environment: dict[str, str]) -> None:
    """Create ended runs, so that lists are not empty."""
    for number in range(RUNS):
        command = (kaji, "run", "-d", "-q", "--name", f"bench-{number}", "--cpus", "0.01", "-m", "64m", "x", "true")
        subprocess.run(command, env=environment, check=True, capture_output=True)
    names = (f"bench-{number}" for number in range(RUNS))
    subprocess.run((kaji, "wait", *names), env=environment, check=True, capture_output=True)


def _processor_ms(command: Sequence[str], environment: dict[str, str]) -> float:
    """Return user and system time of one command in milliseconds. Raises RuntimeError if it fails."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return (usage.ru_utime + usage.ru_stime) * 1000


if __name__ == "__main__":
    sys.exit(main())
