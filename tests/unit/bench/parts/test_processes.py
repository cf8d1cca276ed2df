"""Processor time of each process, as benchmarks print it."""

from __future__ import annotations

import subprocess
import sys

from bench.parts.processes import in_words, processor_seconds, since


def test_processes_are_listed_by_time_and_idle_ones_are_left_out() -> None:
    spent = since({"etcd": 1.0, "idle": 5.0}, {"etcd": 2.25, "idle": 5.01, "sim": 3.0})
    assert in_words(spent) == "sim 3.0, etcd 1.2"


def test_processes_are_named_by_the_module_that_they_run() -> None:
    """A process that has ended no longer counts."""
    program = "import sys; sys.stdin.read(); sum(range(10**6))"
    with subprocess.Popen([sys.executable, "-c", program, "-m", "some.module", "x"], stdin=subprocess.PIPE) as child:
        spent = processor_seconds()
        assert spent["bench"] > 0 and "some.module" in spent
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert "some.module" not in processor_seconds()
