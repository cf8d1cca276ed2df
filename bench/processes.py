"""Helper processes of benchmarks: each prints one JSON document a line; and what a process weighs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent


def helper(module: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a module of this package in a process of its own, with a pipe to read its answers from."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> Any:
    """The next JSON document that a helper prints on a line. Raises RuntimeError where it ends instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return json.loads(line)


def say(document: Any) -> None:
    """For helpers: prints an answer."""
    print(json.dumps(document), flush=True)


def memory_mib() -> tuple[float, float]:
    """Resident memory of this process now, and at its peak, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def processor_seconds() -> dict[str, float]:
    """Processor time until now, user and system, of this process (`bench`) and of each that it started and that lives.

    They are called as their programs, ours as their modules or verbs: `kube-apiserver`, `etcd`, `sim`; what has ended,
    and was not waited for, `ended`. On a machine that others use, too, it tells more than seconds do.
    """
    spent = {"bench": time.process_time()}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times, name = process.cpu_times(), _called(process)
            spent[name] = spent.get(name, 0.0) + times.user + times.system
    return spent


def _called(process: psutil.Process) -> str:
    try:
        command = process.cmdline()
    except psutil.ZombieProcess:
        return "ended"
    program = Path(command[0]).name if command else "?"
    if "-m" not in command[:-1]:
        return program
    module = command[command.index("-m") + 1 :]
    return module[1] if module[0] == "kajitori.cli" and len(module) > 1 else module[0]


def since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What processes spent between two looks."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def in_words(spent: Mapping[str, float]) -> str:
    """`kube-apiserver 3.1, sim 1.2`: whoever spent most comes first."""
    most_first = sorted(spent.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in most_first if seconds >= 0.05)
