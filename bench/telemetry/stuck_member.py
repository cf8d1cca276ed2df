"""One rank of a training for `bench.telemetry.stuck`: a step each second, and after a while the event of its scenario.

The benchmark copies it to a folder and starts it by `kaji run`. `collectives` is beside it in a folder `site-packages`,
like a library. Busy parts use a share of a core that is far below that of a real program, so that many ranks fit on one
machine. The share is measured in processor time, so it is the same while others use the machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import collectives  # type: ignore[import-not-found]

SCENARIO = sys.argv[1]
TRAIN_SECONDS, EVENT_SECONDS, LONG_SECONDS, PAUSE_SECONDS = map(float, sys.argv[2:6])
RANK, RANKS, GUILTY = int(os.environ["KAJI_RANK"]), int(os.environ["KAJI_WORLD_SIZE"]), 5
STEP_SECONDS = 1.0
BUSY_CORES, HELPER_CORES = 0.1, 0.005
"""Use by the busiest rank of a busy part, and by the others."""
BURST_SECONDS = 0.1
BATCH_SECONDS = 3.0
PR_SET_PDEATHSIG = 1


def train(seconds: float) -> None:
    until, step = time.monotonic() + seconds, 0
    while GANG.all_reduce(time.monotonic() < until):
        time.sleep(STEP_SECONDS)
        step += 1
        if RANK == 0 and step % 10 == 0 and SCENARIO != "quiet":
            print("step", step, flush=True)


def work(seconds: float, cores: float) -> None:
    """Use a share of one core for a number of seconds (wall-clock time)."""
    began, used_before = time.monotonic(), time.process_time()
    while (elapsed := time.monotonic() - began) < seconds:
        while time.process_time() - used_before < cores * (elapsed + BURST_SECONDS):
            pass
        time.sleep(BURST_SECONDS)


# ------------------------------------------------------------------------------------------------- guilty


def load_batch() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def fetch_labels() -> None:
    ours, theirs = socket.socketpair()
    ours.recv(1)
    theirs.close()


def read_checkpoint() -> None:
    """Wait in the kernel, as for a file server that is gone: after vfork a process waits there for its child."""
    libc = ctypes.CDLL(None)
    libc.vfork() or (libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), libc.pause())


def augment() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    while True:
        pass


def wait_busily() -> None:
    """Look again and again, as for a result that a thread has lost."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    result = None
    while True:
        if result is not None:
            break
        if RANKS == 0:
            result = RANK


def wait_for_file() -> None:
    while not Path("never-written").exists():
        time.sleep(0.5)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def lose_network() -> None:
    """Ask the benchmark to drop all packets of this rank's own network, and train on."""
    Path("network.new").write_text(str(Path("/proc/self/ns/net").stat().st_ino))
    Path("network.new").rename("network")


# ------------------------------------------------------------------------------------------------- innocent


def forward() -> None:
    work(BATCH_SECONDS, BUSY_CORES if RANK == 0 else HELPER_CORES)


def compare_with_labels() -> None:
    work(BATCH_SECONDS, BUSY_CORES if RANK == 0 else HELPER_CORES)


def evaluate(seconds: float) -> None:
    """Evaluate without a word, batch after batch. A batch takes longer than the time between two looks."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        forward()
        compare_with_labels()


def compile_kernels(seconds: float = EVENT_SECONDS) -> None:
    if RANK == GUILTY:
        work(seconds, BUSY_CORES)


def save_checkpoint() -> None:
    until = time.monotonic() + EVENT_SECONDS
    if RANK == 0:
        with open("checkpoint", "wb") as file:
            while time.monotonic() < until:
                file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
                file.seek(0)
                time.sleep(2.0)


def load_data() -> None:
    """Read a file slowly from the disk; the processor has nothing to do."""
    until = time.monotonic() + EVENT_SECONDS
    if RANK == GUILTY:
        with open("data", "w+b") as file:
            file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
            while time.monotonic() < until:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                file.seek(0)
                file.read()
                time.sleep(2.0)


def pause() -> None:
    """All ranks wait, for example for a service that answers late."""
    time.sleep(PAUSE_SECONDS)


EVENTS: dict[str, Callable[[], None]] = {
    "lock": load_batch,
    "socket": fetch_labels,
    "kernel": read_checkpoint,
    "spin": augment,
    "spin-lines": wait_busily,
    "poll": wait_for_file,
    "stopped": stop,
    "network": lose_network,
    "evaluation": lambda: evaluate(EVENT_SECONDS),
    "evaluation-long": lambda: evaluate(LONG_SECONDS),
    "checkpoint": save_checkpoint,
    "compilation": compile_kernels,
    "compilation-first": lambda: None,
    "compilation-long": lambda: compile_kernels(LONG_SECONDS),
    "data": load_data,
    "pause": pause,
    "quiet": lambda: evaluate(EVENT_SECONDS),
    "trains": lambda: None,
}
GUILTY_SCENARIOS = ("lock", "socket", "spin", "spin-lines", "poll", "stopped", "network", "kernel")


def begin_event() -> None:
    """Note the time of the event for the benchmark."""
    if RANK == GUILTY:
        Path("event").write_text(str(time.time()))


if SCENARIO == "silent":
    time.sleep(1e6)
GANG = collectives.Gang(RANK, RANKS)
if SCENARIO == "compilation-first":
    compile_kernels()
train(TRAIN_SECONDS)
begin_event()
if SCENARIO not in GUILTY_SCENARIOS or RANK == GUILTY:
    EVENTS[SCENARIO]()
while True:
    train(TRAIN_SECONDS)
    if SCENARIO == "pause":
        pause()
