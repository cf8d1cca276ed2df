"""Helper processes of benchmarks, which print one JSON document per line; memory and processor time of processes."""

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

ROOT = Path(__file__).resolve().parents[2]


def helper(module: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module of this package in a separate process, with a pipe for its answers."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> Any:
    """Return the next JSON document that a helper prints. Raises RuntimeError if the helper ends instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return json.loads(line)


def say(document: Any) -> None:
    """Print an answer. For helpers."""
    print(json.dumps(document), flush=True)


def memory_mib() -> tuple[float, float]:
    """Return the resident memory of this process now and at its peak, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def processor_seconds() -> dict[str, float]:
    """Return user and system time of this process (`bench`) and of each living process that it started.

    Keys are names of programs, and our own modules or verbs: `kube-apiserver`, `etcd`, `sim`; `ended` is for processes
    that ended and were not waited for. On a shared machine these figures say more than seconds.
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
    """Return the processor time that each process used between two samples."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def in_words(spent: Mapping[str, float]) -> str:
    """Return text such as `kube-apiserver 3.1, sim 1.2`, the largest first."""
    most_first = sorted(spent.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in most_first if seconds >= 0.05)
