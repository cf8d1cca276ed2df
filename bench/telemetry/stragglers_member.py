"""One rank of a training for `bench.telemetry.stragglers_real`: steps of half a second, each ended by a collective.

A rank with a GPU sleeps while its kernel would run, and notes for the simulated GPU how long a kernel ran, and for how
much of that time its multiprocessors were active: kernels that wait for other ranks need few of them. A rank without a
GPU computes, measured in processor time, or sleeps and writes its own part of each step to $KAJI_METRICS.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import time
from pathlib import Path

import collectives  # type: ignore[import-not-found]

SCENARIO, SLOW_AFTER_SECONDS = sys.argv[1], float(sys.argv[2])
RANK, RANKS, GUILTY = int(os.environ["KAJI_RANK"]), int(os.environ["KAJI_WORLD_SIZE"]), 5
STEP_SECONDS, NOISE = 0.5, 0.03
BRIEF_SECONDS, BRIEF_FACTOR, SHARED_FACTOR = 120.0, 1.5, 1.5
ACTIVE, WAITING = 0.6, 0.03
"""Share of the multiprocessors that a kernel needs while it computes, and while it waits for other ranks."""
DISK_SECONDS = 0.3
CLOCK_MHZ = 1980.0
CORES = 0.14
BEGAN = time.monotonic()


def factor() -> float:
    """Return by how much longer than usual this rank computes now."""
    elapsed = time.monotonic() - BEGAN - SLOW_AFTER_SECONDS
    is_guilty = RANK == GUILTY
    if SCENARIO == "roles":
        return 1.0 if RANK < RANKS - 2 else 1.6
    if elapsed < 0:
        return 1.0
    if SCENARIO in ("slow", "clock", "processor", "figures", "own-pace") and is_guilty:
        return 1.3
    if SCENARIO == "slightly" and is_guilty:
        return 1.05
    if SCENARIO == "briefly" and is_guilty and elapsed < BRIEF_SECONDS:
        return BRIEF_FACTOR
    return SHARED_FACTOR if SCENARIO == "all" else 1.0


def read_batch() -> float:
    """Wait for the disk that all ranks share, each for another time. Return the seconds."""
    seconds = random.expovariate(1 / DISK_SECONDS) if SCENARIO == "disk" else 0.0
    time.sleep(seconds)
    return seconds


def compute(seconds: float) -> None:
    if not SCENARIO.startswith("processor"):
        time.sleep(seconds)
        return
    used, until = CORES * seconds, time.process_time() + CORES * seconds
    while time.process_time() < until:
        pass
    time.sleep(max(0.0, seconds - used))


def train() -> None:
    gpu, ran, active, step = os.environ.get("CUDA_VISIBLE_DEVICES", ""), 0.0, 0.0, 0
    file = os.open(Path(os.environ["GPUS"]) / gpu, os.O_WRONLY | os.O_CREAT) if gpu else -1
    figures = open(os.environ["KAJI_METRICS"], "a", buffering=1)  # noqa: SIM115
    while True:
        read_batch()
        began = time.monotonic()
        compute(STEP_SECONDS * factor() * max(0.5, random.gauss(1.0, NOISE)))
        computed = time.monotonic()
        if SCENARIO != "own-pace":
            GANG.all_reduce(True)
        ran += time.monotonic() - began
        active += ACTIVE * (computed - began) + WAITING * (time.monotonic() - computed)
        step += 1
        if SCENARIO.startswith("figures"):
            print(json.dumps({"step": step, "work_seconds": computed - began}), file=figures)
        elif SCENARIO.startswith("own-pace"):
            print(json.dumps({"step": step}), file=figures)
        if file >= 0:
            clock = CLOCK_MHZ / (factor() if SCENARIO == "clock" else 1.0)
            os.pwrite(file, struct.pack("ddd", ran, active, clock), 0)
        if RANK == 0 and step % 20 == 0:
            print("step", step, flush=True)


GANG = collectives.Gang(RANK, RANKS)
train()
