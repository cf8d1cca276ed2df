"""Stacks of real processes, read from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.stacks import stacks_of
from kajitori.core.telemetry.stacks import NO_TIME, Place, place_of

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


def test_connections_of_a_member_are_those_of_its_own_processes(tmp_path: Path) -> None:
    """Its network may be the node's, with the connections of others in the same table."""
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/net").mkdir()
    (tmp_path / "7/stat").write_text("7 (python) S 1")
    for number, target in enumerate(("socket:[502]", "socket:[504]", "/dev/null")):
        (tmp_path / f"7/fd/{number}").symlink_to(target)
    rows = (  # inode, peer, resends
        (502, "0200F40A", "00000009"),
        (503, "0300F40A", "00000009"),
        (504, "0400F40A", "00000000"),
    )
    table = [f"0: 0900F40A:9C40 {peer}:7344 01 1:0 01:A31 {resends} 0 0 {inode} 2" for inode, peer, resends in rows]
    (tmp_path / "7/net/tcp").write_text("\n".join(["sl local_address", *table]))
    (found,) = stacks_of([LocalMember("team", "bert-1-0", "u1", lambda: [7])], lambda *_: (), tmp_path)
    assert (found.unanswered, found.connections) == (("10.244.0.2",), 2)


def test_a_process_that_takes_too_long_has_the_reason() -> None:
    def slow(pid: int, nonblocking: bool, seconds: float) -> tuple[()]:
        raise TimeoutError(f"gave up after {seconds:.0f} s")

    (found,) = stacks_of([LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()])], slow)
    assert found.processes[0].trouble == NO_TIME
