"""Stacks of real processes, read from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.stacks import stacks_of
from kajitori.core.telemetry.stacks import Place, place_of

PROGRAM = """
import threading
lock = threading.Lock()
def load_batch():
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()
load_batch()
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-S", "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def place(*pids: int) -> list[Place]:
    (found,) = stacks_of([LocalMember("team", "bert-1-0", "u1", lambda: pids)])
    return [place_of(each) for each in found.processes]


def test_a_program_in_a_lock_is_found_also_when_it_is_stopped(program: subprocess.Popen[str]) -> None:
    (found,) = place(program.pid)
    assert found.words() == "is in load_batch (<string>:7)"
    program.send_signal(signal.SIGSTOP)
    os.waitpid(program.pid, os.WUNTRACED)
    (found,) = place(program.pid)
    assert found.words() == "is stopped by a signal (SIGSTOP), in load_batch (<string>:7)"


def test_other_programs_and_ended_processes_have_no_stack() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        (found,) = place(process.pid)
        assert found.words() == "runs sleep 1000, which is no Python program"
        process.kill()
    assert place(process.pid) == []


def test_a_process_that_takes_too_long_has_the_reason() -> None:
    def slow(pid: int, nonblocking: bool, seconds: float) -> tuple[()]:
        raise TimeoutError(f"gave up after {seconds:.0f} s")

    (found,) = stacks_of([LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()])], slow)
    assert found.processes[0].trouble == "gave up after 3 s"
