"""The time that `kaji ps` takes while thousands of hostile connections are open, and the resources that these cost the
server.

    python -m bench.network.hostile            5,000 connections
    python -m bench.network.hostile --small    500

`kaji up` runs in a process of its own, and so do the hostile callers (tests/helpers/callers/hostile.py): a quarter of
them says nothing, a quarter sends a header that never ends, a quarter a part of a body with a bogus token, and a
quarter bogus tokens. A quarter comes from the address that `kaji ps` comes from. A connection that was closed is opened
again after ten seconds. `kaji ps` is run again and again, before and meanwhile.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
from tests.harness.kaji_up import installed_kaji_up

from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser

CALLS = 15
SETTLE_SECONDS = 15.0
"""Seconds from the first hostile connection until `kaji ps` is run: by then deadlines have passed, and the first
connections were opened again."""


def main() -> int:
    """Print the figures; return 0 if all promises were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="500 connections instead of 5,000")
    connections = 500 if parser.parse_args().small else 5000
    with (
        tempfile.TemporaryDirectory(prefix="kajitori-hostile-") as place,
        installed_kaji_up(Path(place)) as environment,
    ):
        said = json.loads((Path(place) / "data" / "kaji.json").read_text())
        server, where = psutil.Process(said["pid"]), urlsplit(said["url"])
        before, memory_before = ps_seconds(environment), memory_mib(server)
        command = [
            sys.executable,
            "-m",
            "tests.helpers.callers.hostile",
            str(where.hostname),
            str(where.port),
            str(connections),
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as hostile:
            try:
                time.sleep(SETTLE_SECONDS)
                meanwhile, memory = ps_seconds(environment), memory_mib(server)
                figures = metrics(said["url"])
                assert hostile.poll() is None
            finally:
                hostile.kill()
    strangers = figures["kajitori_api_unauthenticated_connections"]
    rows = [
        ("kaji ps, s", median_and_range(before), median_and_range(meanwhile)),
        ("memory of kaji up, MiB", f"{memory_before:.0f}", f"{memory:.0f}"),
        ("unauthenticated connections open there", "0", f"{strangers:.0f}"),
        ("connections closed by it", "0", f"{closed(figures):.0f}"),
    ]
    print_table(f"{connections:,} hostile connections", ("", "without", "with"), rows)
    slower = statistics.median(meanwhile) / statistics.median(before)
    return print_limits(
        [
            Limit("kaji ps, times as long", slower, most=3),
            Limit("memory added", memory - memory_before, most=100, unit=" MiB"),
            Limit("unauthenticated connections", strangers, most=1024),
        ]
    )


def ps_seconds(environment: Mapping[str, str]) -> list[float]:
    """Run `kaji ps` repeatedly and return how long each took. Raises CalledProcessError if one fails."""
    kaji, times = str(Path(sys.executable).with_name("kaji")), []
    for _ in range(CALLS):
        began = time.monotonic()
        subprocess.run([kaji, "ps"], env=environment, check=True, capture_output=True)
        times.append(time.monotonic() - began)
    return times


def memory_mib(process: psutil.Process) -> float:
    """Return the resident memory of a process."""
    return float(process.memory_info().rss / 2**20)


SCRAPES = 20


def metrics(url: str) -> dict[str, float]:
    """Return the metrics of the server by name. Like Prometheus, try again after a failure: this connection shows no
    token either, so the server may close it to make room. Raises the last error after `SCRAPES` attempts."""
    for left in reversed(range(SCRAPES)):
        try:
            with urlopen(f"{url}/metrics", timeout=30) as answer:
                lines = answer.read().decode().splitlines()
            break
        except OSError:
            if not left:
                raise
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def closed(figures: Mapping[str, float]) -> float:
    """Connections that the server closed because too many were open."""
    return sum(value for name, value in figures.items() if name.startswith("kajitori_api_closed_connections_total"))


if __name__ == "__main__":
    sys.exit(main())
