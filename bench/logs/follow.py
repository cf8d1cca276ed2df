"""How fast a log is followed and read back, how late its bytes appear, and whether any is lost.

    python -m bench.logs.follow            200 MB, five rounds
    python -m bench.logs.follow --small    50 MB, three rounds

`kaji up` runs in a process of its own; a program prints lines of 80 bytes as fast as it can. Each round it is followed
by `kaji logs -f`, by `kubectl logs -f` on the same server, and by `cat` at the other end of a pipe, each in its turn:
from the moment that the program begins until the last byte is there. Then what it printed is read back by `kaji logs`,
by `kubectl logs`, and by `cat` from the files of the log. Last, programs draw a bar ten times a second, without an end
of line, that says what time it is; one member alone, and four that are followed together.
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from tests.harness.kaji_up import installed_kaji_up

from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser

LEAST_READ_BACK = 100.0
"""MB/s."""
MOST_LATE_MS = 200.0
PATIENCE_SECONDS = 300.0
LINE_BYTES = 80
DRAWINGS = 50
MEMBERS = 4

PRINTS = """
import os, sys, time
size, go = int(sys.argv[1]), sys.argv[2]
line = b"%(number)08d " + b"x" * (LINE - 10) + b"\\n"
block = b"".join(line % {b"number": number} for number in range(800))
os.write(1, b"ready\\n")
while not os.path.exists(go):
    time.sleep(0.005)
view = memoryview(block)
while size > 0:
    size -= os.write(1, view[: min(size, len(view))])
""".replace("LINE", str(LINE_BYTES))

DRAWS = """
import sys, time
time.sleep(2)
for _ in range(int(sys.argv[1])):
    sys.stderr.write("\\r<%.4f>" % time.time())
    sys.stderr.flush()
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Bench:
    """A running platform, and the folder for files."""

    place: Path
    environment: Mapping[str, str]
    names: Iterator[str]

    def kaji(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).with_name("kaji")), *words]

    def kubectl(self, *words: str) -> list[str]:
        return [str(which("kubectl")), f"--kubeconfig={self.place}/data/kubeconfig", *words]

    def submit(self, *words: str) -> str:
        """Start a run; return its name once it runs."""
        name = next(self.names)
        self._do(self.kaji("run", "-d", "-q", "--name", name, *words))
        shown: list[str] = []
        while not shown or shown[0] not in ("Running", "Succeeded"):
            asked = self.kubectl("get", "run", name, "-o", "jsonpath={.status.phase}")
            shown = subprocess.run(asked, env=self.environment, capture_output=True, text=True).stdout.split()
        return name

    def end(self, name: str) -> None:
        self._do(self.kaji("rm", "-f", name))

    def wait(self, name: str) -> None:
        self._do(self.kaji("wait", name))

    def _do(self, command: Sequence[str]) -> None:
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=PATIENCE_SECONDS)

    @contextmanager
    def reader(self, command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """Start a process that copies its input into a file."""
        out = self.place / "out"
        with out.open("wb") as file, subprocess.Popen(command, stdout=file, env=self.environment) as process:
            try:
                yield process, out
            finally:
                process.kill()


def main() -> int:
    """Print the figures; return 0 if the promises were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="50 MB, three rounds")
    small = parser.parse_args().small
    size, rounds = (50_000_000, 3) if small else (200_000_000, 5)
    if which("kubectl") is None:
        sys.exit("kubectl is not installed: it is the peer of this benchmark")
    with tempfile.TemporaryDirectory(prefix="kajitori-logs-") as place, installed_kaji_up(Path(place)) as environment:
        bench = Bench(Path(place), environment, (f"bench-{number}" for number in itertools.count()))
        followed, lost, read_back = measure_speed(bench, size, rounds)
        one, several = measure_lateness(bench, 1), measure_lateness(bench, MEMBERS)
    rows = [(f"{name}, following", median_and_range(speeds, 0)) for name, speeds in followed.items()]
    rows += [(f"{name}, reading back", median_and_range(speeds, 0)) for name, speeds in read_back.items()]
    print_table(f"MB/s, {size / 1e6:.0f} MB in lines of {LINE_BYTES} bytes, {rounds} rounds", ("", "MB/s"), rows)
    lateness = [("one member", one), (f"{MEMBERS} members together", several)]
    late_rows = [(name, f"{statistics.median(late):.0f}", f"{max(late):.0f}") for name, late in lateness]
    print_table("from an unfinished line to its reader", ("", "median, ms", "most, ms"), late_rows)
    return print_limits(
        [
            Limit("bytes lost by kaji logs -f", float(lost), most=0),
            Limit("reading back, median", statistics.median(read_back["kaji"]), least=LEAST_READ_BACK, unit=" MB/s"),
            Limit("an unfinished line, one member", max(one), most=MOST_LATE_MS, unit=" ms"),
            Limit("an unfinished line, several members", max(several), most=MOST_LATE_MS, unit=" ms"),
        ]
    )


def measure_speed(bench: Bench, size: int, rounds: int) -> tuple[dict[str, list[float]], int, dict[str, list[float]]]:
    """Return MB/s of following and of reading back by reader, and the number of bytes that `kaji logs -f` lost."""
    followed: dict[str, list[float]] = {"kaji": [], "kubectl": [], "cat": []}
    read_back: dict[str, list[float]] = {"kaji": [], "kubectl": [], "cat": []}
    lost = 0
    for _ in range(rounds + 1):
        for who in ("kaji", "kubectl"):
            go = bench.place / "go"
            go.unlink(missing_ok=True)
            name = bench.submit("-m", "1g", "x", sys.executable, "-c", PRINTS, str(size), str(go))
            following = bench.kaji("logs", "-f", name) if who == "kaji" else bench.kubectl("logs", "-f", f"{name}-1-0")
            speed, missing = follow(bench, following, size, go)
            followed[who].append(speed)
            lost += missing if who == "kaji" else 0
            bench.wait(name)
            if who == "kaji":
                read_back["kaji"].append(read(bench, bench.kaji("logs", name)))
                read_back["kubectl"].append(read(bench, bench.kubectl("logs", f"{name}-1-0")))
                files = sorted(map(str, (bench.place / "data" / "node" / "logs").glob(f"*_{name}-*/main/0.log*")))
                read_back["cat"].append(read(bench, ["cat", *files]))
            bench.end(name)
        followed["cat"].append(pipe(bench, size))
    # The first round also fills caches.
    return (
        {who: speeds[1:] for who, speeds in followed.items()},
        lost,
        {w: speeds[1:] for w, speeds in read_back.items()},
    )


def follow(bench: Bench, command: Sequence[str], size: int, go: Path) -> tuple[float, int]:
    """Return the MB/s from the program's first byte to the last one that its follower shows, and the number of lost
    bytes."""
    wanted = len(b"ready\n") + size
    with bench.reader(command) as (process, out):
        _until(lambda: out.stat().st_size >= len(b"ready\n"))
        began = time.perf_counter()
        go.touch()
        _until(lambda: out.stat().st_size >= wanted or process.poll() is not None)
        seconds = time.perf_counter() - began
        return size / seconds / 1e6, max(0, wanted - out.stat().st_size)


def read(bench: Bench, command: Sequence[str]) -> float:
    """Return the MB/s of a command, from its start to its end."""
    began = time.perf_counter()
    with bench.reader(command) as (process, out):
        code = process.wait(PATIENCE_SECONDS)
        seconds = time.perf_counter() - began
        if code:
            raise RuntimeError(f"{' '.join(command)} ended with {code}")
        return out.stat().st_size / seconds / 1e6


def pipe(bench: Bench, size: int) -> float:
    """Return the MB/s of the same program piped into `cat`."""
    go, out = bench.place / "go", bench.place / "out"
    go.touch()
    began = time.perf_counter()
    command = [sys.executable, "-c", PRINTS, str(size), str(go)]
    with out.open("wb") as file, subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        subprocess.run(["cat"], stdin=program.stdout, stdout=file, check=True)
    return size / (time.perf_counter() - began) / 1e6


def measure_lateness(bench: Bench, members: int) -> list[float]:
    """Return the milliseconds from the time at which a program draws an unfinished line until `kaji logs -f` shows
    it."""
    size = ["-n", str(members)] if members > 1 else []
    drawing = [sys.executable, "-c", DRAWS, str(DRAWINGS)]
    name = bench.submit(*size, "--cpus", "0.2", "-m", "100m", "x", *drawing)
    late: list[float] = []
    command = bench.kaji("logs", "-f", name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=bench.environment) as process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 1 << 16):
            now = time.time()
            late += [(now - float(drawn)) * 1000 for drawn in re.findall(rb"<(\d+\.\d+)>", chunk)]
    bench.end(name)
    if len(late) < DRAWINGS * members * 0.9:
        raise RuntimeError(f"{len(late)} of {DRAWINGS * members} drawings came")
    return late


def _until(happened: object) -> None:
    assert callable(happened)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError("nothing came in time")
        time.sleep(0.002)


if __name__ == "__main__":
    sys.exit(main())
