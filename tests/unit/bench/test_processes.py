"""What each process spent, as benchmarks tell it."""

from __future__ import annotations

import subprocess
import sys

from bench.processes import in_words, processor_seconds, since


def test_who_spent_most_comes_first_and_who_spent_nothing_is_left_out() -> None:
    spent = since({"etcd": 1.0, "idle": 5.0}, {"etcd": 2.25, "idle": 5.01, "sim": 3.0})
    assert in_words(spent) == "sim 3.0, etcd 1.2"


def test_processes_are_called_by_what_they_run() -> None:
    """Ours by their modules; one that is gone is not counted any more."""
    program = "import sys; sys.stdin.read(); sum(range(10**6))"
    with subprocess.Popen([sys.executable, "-c", program, "-m", "some.module", "x"], stdin=subprocess.PIPE) as child:
        spent = processor_seconds()
        assert spent["bench"] > 0 and "some.module" in spent
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert "some.module" not in processor_seconds()
