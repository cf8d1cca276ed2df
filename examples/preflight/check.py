"""A short test of one node: its GPUs, what they compute, whether they reach each other, and its disk.

Exits with 0 if every test that was possible passed, else with 1; the last lines name the faults. Without PyTorch the
GPUs are only counted. Skipped tests are reported. Environment variables:

PREFLIGHT_GPUS            number of GPUs that must exist (Kajitori sets it); default: any number
PREFLIGHT_GPU_MEMORY_GIB  memory that each must have at least (0)
PREFLIGHT_SLOWEST         the slowest GPU must reach this share of the fastest (0.8)
PREFLIGHT_SECONDS         how long each GPU computes (10)
PREFLIGHT_DISK            the folder whose disk is tested (the one for temporary files)
PREFLIGHT_DISK_MIB        how much is written and read (256)
PREFLIGHT_DISK_MIB_S      lowest speed of writing and reading, in MiB a second (50)
PREFLIGHT_DISK_FREE_GIB   free space that must be left (5)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STEP_SECONDS = 240
"""A step that takes longer hangs: broken GPUs and links do."""

SIZE = 8192
SMALL = 512
TOLERANCE = 1e-2


class Failed(Exception):
    """This node has a fault."""


class Skipped(Exception):
    """This cannot be tested here."""


def setting(name: str, default: float) -> float:
    text = os.environ.get(f"PREFLIGHT_{name}", "")
    try:
        return float(text) if text else default
    except ValueError:
        sys.exit(f"PREFLIGHT_{name} is {text!r}, which is no number")


# ---------------------------------------------------------------------------------------------- steps


def gpus_are_there() -> str:
    """All expected GPUs exist, with enough memory and without uncorrected memory errors."""
    expected = int(setting("GPUS", -1))
    if shutil.which("nvidia-smi") is None:
        if expected > 0:
            raise Failed(f"{expected} GPUs are to be here, but there is no nvidia-smi: no driver, or not in this image")
        raise Skipped("no GPUs are asked for, and there is no nvidia-smi")
    asked = "index,name,memory.total,ecc.errors.uncorrected.volatile.total"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Failed(f"nvidia-smi ended with {done.returncode}: {(done.stdout + done.stderr).strip()[:200]}")
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    if expected >= 0 and len(rows) < expected:
        raise Failed(f"{len(rows)} of {expected} GPUs are there")
    least = setting("GPU_MEMORY_GIB", 0)
    for index, name, memory_mib, uncorrected in rows:
        if float(memory_mib) / 1024 < least:
            raise Failed(f"GPU {index} ({name}) has {float(memory_mib) / 1024:.0f} GiB of memory, not {least:.0f}")
        if uncorrected.isdigit() and int(uncorrected):
            raise Failed(f"GPU {index} ({name}) had {uncorrected} memory errors that could not be corrected")
    return ", ".join(f"{name} {float(memory_mib) / 1024:.0f} GiB" for _, name, memory_mib, _ in rows) or "none"


def gpus_compute() -> str:
    """Products of matrices are the same on every GPU each time, agree with the CPU, and are about equally fast."""
    torch = torch_with_gpus()
    torch.manual_seed(1)
    small = torch.randn(SMALL, SMALL)
    right = small @ small
    rates = []
    for index in range(torch.cuda.device_count()):
        device = torch.device("cuda", index)
        product = (small.to(device) @ small.to(device)).cpu()
        worst = float((product - right).abs().max() / right.abs().max())
        if not worst < TOLERANCE:
            raise Failed(f"GPU {index} computes wrong: it is off by {worst:.3g} of the greatest value")
        generator = torch.Generator(device).manual_seed(7)
        large = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16, generator=generator)
        first = large @ large
        torch.cuda.synchronize(device)
        began, times = time.perf_counter(), 0
        while time.perf_counter() - began < setting("SECONDS", 10):
            for _ in range(10):
                again = large @ large
            torch.cuda.synchronize(device)
            times += 10
        took = time.perf_counter() - began
        if not torch.equal(first, again):
            raise Failed(f"GPU {index} does not compute the same twice")
        rates.append(2 * SIZE**3 * times / took / 1e12)
        del large, first, again
        torch.cuda.empty_cache()
    slowest, share = min(rates), setting("SLOWEST", 0.8)
    if slowest < share * max(rates):
        raise Failed(
            f"GPU {rates.index(slowest)} reaches {slowest:.0f} TFLOP/s, where another reaches {max(rates):.0f}"
        )
    return f"right, {', '.join(f'{rate:.0f}' for rate in rates)} TFLOP/s"


def gpus_reach_each_other() -> str:
    """The sum over all GPUs, by NCCL."""
    torch = torch_with_gpus()
    count = torch.cuda.device_count()
    if count < 2:
        raise Skipped("there is one GPU")
    return all_reduced(torch, count, "nccl")


def processes_reach_each_other() -> str:
    """The same by gloo, on nodes without GPUs."""
    torch = import_torch()
    if torch.cuda.is_available():
        raise Skipped("the GPUs are tested")
    return all_reduced(torch, 2, "gloo")


def all_reduced(torch, count: int, backend: str) -> str:
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        torch.multiprocessing.spawn(one_of_all, (count, backend, f"file://{folder}/meeting"), nprocs=count)
        return f"{count} by {backend} in {time.perf_counter() - began:.1f} s"


def one_of_all(rank: int, count: int, backend: str, meeting: str) -> None:
    import torch
    import torch.distributed

    torch.distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=count)
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    for mebibytes in (1, 256 if backend == "nccl" else 16):
        part = torch.full((mebibytes * 2**18,), float(rank + 1), device=device)
        torch.distributed.all_reduce(part)
        if not bool((part == count * (count + 1) / 2).all()):
            raise SystemExit(f"rank {rank}: the sum of {mebibytes} MiB is wrong")
    torch.distributed.destroy_process_group()


def disk_is_well() -> str:
    """The disk has room, returns the bytes that were written, and is fast enough."""
    folder = os.environ.get("PREFLIGHT_DISK") or tempfile.gettempdir()
    free = shutil.disk_usage(folder).free / 2**30
    least = setting("DISK_FREE_GIB", 5)
    if free < least:
        raise Failed(f"{free:.1f} GiB are free in {folder}, not {least:.0f}")
    block = os.urandom(2**20)
    blocks = max(1, int(setting("DISK_MIB", 256)))
    written = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, prefix="preflight-") as file:
        began = time.perf_counter()
        for number in range(blocks):
            piece = number.to_bytes(8, "big") + block[8:]
            written.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        writing = blocks / (time.perf_counter() - began)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # read from the disk, not from the page cache
        began = time.perf_counter()
        read = hashlib.sha256()
        file.seek(0)
        while piece := file.read(2**20):
            read.update(piece)
        reading = blocks / (time.perf_counter() - began)
    if read.digest() != written.digest():
        raise Failed(f"the disk of {folder} returns other bytes than were written")
    slowest = setting("DISK_MIB_S", 50)
    if min(writing, reading) < slowest:
        raise Failed(f"{folder}: writes {writing:.0f} and reads {reading:.0f} MiB/s, where {slowest:.0f} are expected")
    return f"writes {writing:.0f} and reads {reading:.0f} MiB/s, {free:.0f} GiB are free in {folder}"


def import_torch():
    try:
        import torch
    except ImportError:
        raise Skipped("PyTorch is not in this image") from None
    return torch


def torch_with_gpus():
    torch = import_torch()
    if not torch.cuda.is_available():
        if setting("GPUS", 0) > 0:
            raise Failed("PyTorch sees no GPU")
        raise Skipped("there are no GPUs")
    return torch


STEPS: dict[str, Callable[[], str]] = {
    "GPUs": gpus_are_there,
    "compute": gpus_compute,
    "links": gpus_reach_each_other,
    "processes": processes_reach_each_other,
    "disk": disk_is_well,
}

_SKIPPED = 3


def one_step(name: str) -> int:
    """Run one step in this process: it prints its result in one line and exits with a code."""
    try:
        print(STEPS[name]())
    except Skipped as why:
        print(why)
        return _SKIPPED
    except Failed as why:
        print(why)
        return 1
    return 0


def main() -> int:
    """Run each step in a separate process, so that one that hangs or crashes is reported like any other."""
    failures = []
    for name in STEPS:
        try:
            done = subprocess.run(
                [sys.executable, str(Path(__file__).resolve()), name],
                capture_output=True,
                text=True,
                timeout=STEP_SECONDS,
                check=False,
            )
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            code, said = done.returncode, lines[-1] if lines else ""
        except subprocess.TimeoutExpired:
            code, said = 1, f"hangs: no answer within {STEP_SECONDS} s"
        if code < 0:
            said = f"ended by signal {-code}; {said}"
        verdict = {0: "ok", _SKIPPED: "skipped"}.get(code, "FAILED")
        print(f"{verdict:8}{name}: {said}", flush=True)
        if verdict == "FAILED":
            failures.append(f"{name}: {said}")
    for failure in failures:
        print(f"FAILED {failure}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(one_step(sys.argv[1]) if len(sys.argv) > 1 else main())
