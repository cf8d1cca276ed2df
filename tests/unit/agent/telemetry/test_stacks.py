"""Stacks of real processes, read from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kajitori.agent.telemetry import stacks
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.stacks import StackReader
from kajitori.core.telemetry.hangs.stacks import (
    MAX_PROCESSES,
    NO_TIME,
    Detail,
    Frame,
    Place,
    ProcessStacks,
    ThreadStack,
    place_of,
)

PROGRAM = """
import threading
lock = threading.Lock()
def load_batch():
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()
load_batch()
"""


READS = """
import ctypes, sys, threading, time
def read_checkpoint():
    libc = ctypes.CDLL(None)
    libc.printf(b"ready\\n"), libc.fflush(None)
    libc.vfork() or libc.pause()
if sys.argv[1:]:
    threading.Thread(target=read_checkpoint).start()
    time.sleep(1000)
read_checkpoint()
"""
"""After vfork a process waits in the kernel for its child, and cannot be stopped. So it does for a dead file server."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes seconds to start py-spy."""
    monkeypatch.setattr(stacks, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(stacks, "PROCESS_SECONDS", 60.0)


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-S", "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def processes(*pids: int, detail: Detail = Detail.PLAIN) -> Sequence[ProcessStacks]:
    (found,) = StackReader().read([LocalMember("team", "bert-1-0", "u1", lambda: pids)], detail)
    return found.processes


def place(*pids: int) -> list[Place]:
    return [place_of(each) for each in processes(*pids)]


def test_a_program_in_a_lock_is_found_also_when_it_is_stopped(program: subprocess.Popen[str]) -> None:
    (found,) = place(program.pid)
    assert found.words() == "is in load_batch (<string>:7)"
    program.send_signal(signal.SIGSTOP)
    os.waitpid(program.pid, os.WUNTRACED)
    (found,) = place(program.pid)
    assert found.words() == "is stopped by a signal (SIGSTOP), in load_batch (<string>:7)"


def test_calls_in_native_code_are_kept_apart_from_those_in_python(program: subprocess.Popen[str]) -> None:
    (plain,), (found,) = processes(program.pid), processes(program.pid, detail=Detail.NATIVE)
    places, before = ([(one.name, one.frames) for one in each.threads] for each in (found, plain))
    assert (places, plain.native) == (before, ())  # whether a thread is active differs from look to look
    (thread,) = found.native or (ThreadStack("", ()),)
    calls = [(frame.is_native, frame.function) for frame in thread.frames]
    assert found.native_trouble or (calls[0][0] and (False, "load_batch") in calls), "a machine without unwinding"


def test_native_calls_that_cannot_be_read_have_the_reason() -> None:
    def dump(pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[ThreadStack, ...]:
        if detail is Detail.NATIVE:
            raise OSError("error: unexpected argument '--native' found")
        return (ThreadStack("MainThread", (Frame("train", "/train.py", 3),)),)

    member = LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()])
    (found,) = StackReader(dump).read([member], Detail.NATIVE)
    (process,) = found.processes
    assert (len(process.threads), process.native) == (1, ())
    assert process.native_trouble == "error: unexpected argument '--native' found"


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (Detail.PLAIN, [Detail.PLAIN]),
        (Detail.VALUES, [Detail.VALUES]),
        (Detail.NATIVE, [Detail.PLAIN, Detail.NATIVE]),
    ],
)
def test_processes_are_read_in_the_asked_detail_and_the_number_of_the_others_is_told(
    tmp_path: Path, asked: Detail, taken: list[Detail]
) -> None:
    """Values of variables tell a program that repeats itself from one that works."""
    pids = range(1, MAX_PROCESSES + 4)
    for pid in pids:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (python) S 1")
    seen: dict[int, list[Detail]] = {}

    def dump(pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[ThreadStack, ...]:
        seen.setdefault(pid, []).append(detail)
        return (ThreadStack("MainThread", (Frame("train", "/train.py", 3),)),)

    member = LocalMember("team", "bert-1-0", "u1", lambda: pids)
    (found,) = StackReader(dump, tmp_path).read([member], asked)
    assert seen == dict.fromkeys(pids[:MAX_PROCESSES], taken)
    assert (len(found.processes), found.left_out) == (MAX_PROCESSES, 3)


def test_other_programs_have_the_kernels_functions_and_ended_ones_nothing() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        while "S" not in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]:
            os.sched_yield()
        (found,) = processes(process.pid)
        assert place_of(found).words() == "runs sleep 1000, which is no Python program"
        assert {frame.file for thread in found.native for frame in thread.frames} <= {"[kernel]"}
        assert os.geteuid() or found.native, "root reads /proc/PID/stack"
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
    (found,) = StackReader(lambda *_, **__: (), tmp_path).read([LocalMember("team", "bert-1-0", "u1", lambda: [7])])
    assert (found.unanswered, found.connections) == (("10.244.0.2",), 2)


def test_a_process_that_takes_too_long_has_the_reason() -> None:
    def slow(pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[()]:
        raise TimeoutError(f"gave up after {seconds:.0f} s")

    (found,) = StackReader(slow).read([LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()])])
    assert found.processes[0].trouble == NO_TIME


def state_of(task: Path) -> str:
    """Return the state of a thread as in the kernel's table, for example `S` for one that sleeps."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_process_that_waits_in_the_kernel_is_read_without_stopping_it(in_thread: bool) -> None:
    """Whoever tries to stop it, or one thread of it, waits as well."""
    command = [sys.executable, "-S", "-c", READS, *(["thread"] if in_thread else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            tasks = Path(f"/proc/{process.pid}/task")
            while sorted(map(state_of, tasks.iterdir())) != (["D", "S"] if in_thread else ["D"]):
                os.sched_yield()
            (found,) = processes(process.pid, detail=Detail.NATIVE)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    functions = {frame.function for thread in found.threads for frame in thread.frames}
    assert "read_checkpoint" in functions and len(found.threads) == 1 + in_thread, found.trouble
    assert (found.state, found.native_trouble) == ("S" if in_thread else "D", "it cannot be stopped now")
    if not in_thread:
        assert place_of(found).words() == "waits in the kernel (read_checkpoint (<string>:6))"
    calls = [frame.function for thread in found.native for frame in thread.frames]
    assert os.geteuid() or any("vfork" in each for each in calls), "root reads what it waits for"


def test_a_process_that_blocks_its_reader_does_not_keep_others_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """So may do a process whose memory the kernel keeps locked, and a flight recorder's file on a dead file server."""
    monkeypatch.setattr(stacks, "PATIENCE_SECONDS", 1.0)  # enough for the other one on a busy machine
    monkeypatch.setattr(stacks, "GRACE_SECONDS", 0.05)
    served, asked = threading.Event(), []

    def dump(pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[ThreadStack, ...]:
        if pid == os.getpid():
            served.wait()
        return (ThreadStack("MainThread", (Frame("train", "/train.py", 3),)),)

    def recorders(pids: Sequence[int]) -> None:
        asked.append(pids)
        served.wait()

    monkeypatch.setattr(stacks, "Recorders", recorders)
    reader = StackReader(dump)
    members = [
        LocalMember("team", "bert-1-0", "u0", lambda: [os.getpid()]),
        LocalMember("team", "bert-1-1", "u1", lambda: [1]),
    ]
    blocked, read = reader.read(members)
    assert [each.trouble for each in blocked.processes] == [NO_TIME]
    assert [each.threads[0].frames[0].function for each in read.processes] == ["train"]
    reader.read(members[1:])
    assert len(asked) == 2, "a recorder that hangs is not asked again"
    served.set()
