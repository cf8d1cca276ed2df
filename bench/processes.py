"""Helper processes of benchmarks: each prints one JSON document a line; and what a process weighs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
