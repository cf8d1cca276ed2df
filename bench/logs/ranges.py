"""How fast a part of a very long log is read: its end, a time, a line, and a search.

    python -m bench.logs.ranges            5 GB
    python -m bench.logs.ranges --small    500 MB

A log of lines of 100 bytes lies in a folder of the store, as a controller would keep it. Each part is read ten times by
the functions that serve the Web API, in this process; the median of latency and processor time is shown. The peer is
`tail`, for the end, and `grep -c`, for the search, on the same file.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.api.logs.lines import Position
from kajitori.api.logs.ranges import windows
from kajitori.api.logs.ranges.attempt_logs import StoredLog
from kajitori.api.logs.ranges.search import SearchQuery, search
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs

ROUNDS = 10
LINE_BYTES = 100
LINES_A_SECOND = 1000
MOST_TAIL_SECONDS = 0.2
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)


def main() -> int:
    """Print the figures; return 0 if the promises were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="500 MB")
    size = 500_000_000 if parser.parse_args().small else 5_000_000_000
    with tempfile.TemporaryDirectory(prefix="kajitori-ranges-") as folder:
        return asyncio.run(measure(Path(folder), size))


async def measure(folder: Path, size: int) -> int:
    """Write the log, read its parts and print the figures."""
    kept = KeptLogs(await open_blobs(folder.as_uri()))
    name = MemberLogName("team", "uid", 1, 0)
    lines = write(folder / name.key, size)
    log = StoredLog(kept, await kept.head(name), 0, 1)
    middle = Position(stamp(lines // 2), 1)
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "the last 500 lines": lambda: windows.last_window(log, 500),
        "500 lines before one in the middle": lambda: windows.window_before(log, middle, 500),
        "500 lines from a time on": lambda: windows.window_since(log, middle.time, 500),
        "500 lines from line 1,000,000 on": lambda: windows.window_at_line(log, 1_000_000, 500),
    }
    rows, seconds = [], {}
    for what, ask in asked.items():
        figures = [await timed(ask) for _ in range(ROUNDS)]
        seconds[what] = statistics.median(figure[0] for figure in figures)
        processor = statistics.median(figure[1] for figure in figures)
        first = f"{1000 * figures[0][0]:.0f}"
        rows.append((what, first, f"{1000 * seconds[what]:.1f}", f"{1000 * processor:.1f}"))
    rows.append(("`tail -n 500`", f"{1000 * timed_peer('tail', '-n', '500', folder / name.key):.0f}", "", ""))
    print_table(f"a log of {size / 1e9:.1f} GB, {lines:,} lines", ("", "first, ms", "median, ms", "CPU, ms"), rows)
    took, searched = await timed_search(log)
    peer = timed_peer("grep", "-c", "needle", folder / name.key)
    speeds = [("a search", f"{searched / took / 1e6:.0f}"), ("`grep -c`", f"{size / peer / 1e6:.0f}")]
    print_table("MB/s", ("", "MB/s"), speeds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    limits = [Limit(what, value, most=MOST_TAIL_SECONDS, unit=" s") for what, value in seconds.items()]
    return print_limits([*limits, Limit("memory at most", peak, most=300, unit=" MiB")])


def write(path: Path, size: int) -> int:
    """Write a log of about this size. Return the number of its lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = 0
    with path.open("wb") as file:
        while file.tell() < size:
            time = stamp(lines) + b" "
            rest = b"x" * (LINE_BYTES - len(time) - 13)
            file.write(b"".join(b"%s%011d %s\n" % (time, lines + more, rest) for more in range(LINES_A_SECOND)))
            lines += LINES_A_SECOND
    return lines


def stamp(line: int) -> bytes:
    """Return the time of a line: a thousand lines a second, with the same time."""
    moment = BEGAN + timedelta(seconds=line // LINES_A_SECOND)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000000000Z".encode()


async def timed(ask: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return seconds and processor seconds that an answer took."""
    began, used = time.monotonic(), time.process_time()
    await ask()
    return time.monotonic() - began, time.process_time() - used


def timed_peer(*command: str | Path) -> float:
    """Return the seconds that a program took."""
    began = time.monotonic()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


async def timed_search(log: StoredLog) -> tuple[float, int]:
    """Return seconds and bytes of one request's search for a text that is not there."""
    began, searched = time.monotonic(), 0
    async for part in search(log, SearchQuery(b"needle")):
        searched = part.searched_bytes
    return time.monotonic() - began, searched


if __name__ == "__main__":
    raise SystemExit(main())
