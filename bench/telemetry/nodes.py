"""What the figures of nodes over time cost history: bytes of a node, writing a minute, thinning, and reading a week.

    python -m bench.telemetry.nodes [--nodes 7500] [--minutes 20]

All GPUs are busy with different figures, which takes the most room.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from kajitori.core.telemetry.levels import NODE_LEVELS
from kajitori.core.telemetry.node_figures import NodeFigures, pack
from kajitori.history.node_figures import NodeRow
from kajitori.history.store import History

NOW = 2_000_000_400
GPUS = 8
MAX_NODE_BYTES = 250_000


def busy_node(number: int, minute: int) -> bytes:
    """Return the stored figures of a node in one minute."""
    chance = random.Random(number * 100_003 + minute)
    row = [chance.uniform(1, 180), chance.uniform(1e9, 1.9e12)]
    for _ in range(GPUS):
        used, memory = chance.uniform(60, 100), chance.uniform(60, 79) * 2**30
        row += [used, memory, 80 * 2.0**30, chance.uniform(300, 700), chance.uniform(45, 80)]
    return pack(NodeFigures(GPUS, row, {f"team-{number % 40}/llama-{number // 8}": (1 << GPUS) - 1}))


async def measure(nodes: int, minutes: int, folder: Path) -> bool:
    """Print what was measured; return whether a node takes few enough bytes."""
    file = folder / "history.db"
    history = History(f"sqlite://{file}")
    await history.open()
    end = NOW // 600 * 10
    began = time.process_time()
    made = [[busy_node(node, minute) for node in range(nodes)] for minute in range(end - minutes, end)]
    packed = time.process_time() - began
    began = time.process_time()
    for minute, documents in enumerate(made, end - minutes):
        rows = [NodeRow(f"gpu-{node:05d}", minute, document) for node, document in enumerate(documents)]
        for first in range(0, nodes, 2000):
            await history.record_node_figures(rows[first : first + 2000])
    written = (time.process_time() - began) / minutes
    row_bytes = file.stat().st_size / nodes / minutes
    minute_rows = NODE_LEVELS[0].kept_seconds / NODE_LEVELS[0].seconds
    rows_of_week = minute_rows + (NODE_LEVELS[1].kept_seconds - NODE_LEVELS[0].kept_seconds) / NODE_LEVELS[1].seconds
    began = time.process_time()
    while await history.downsample_telemetry(end * 60 + NODE_LEVELS[0].kept_seconds):
        pass
    merged = (time.process_time() - began) / (minutes / 10)
    weeks = [NodeRow("one", end - minute, busy_node(1, end - minute)) for minute in range(round(rows_of_week))]
    await history.record_node_figures(weeks)
    began = time.process_time()
    found = await history.node_figures("one", end * 60 - NODE_LEVELS[1].kept_seconds, end * 60 + 60)
    read = time.process_time() - began
    await history.close()
    node_bytes = row_bytes * rows_of_week
    print(f"{nodes:,} nodes with {GPUS} busy GPUs, {minutes} minutes")
    print(f"  an interval of a node on disk      {row_bytes:.0f} bytes, of which {len(made[0][0])} are figures")
    print(f"  a week of a node on disk           {node_bytes / 1e3:.0f} kB (at most {MAX_NODE_BYTES / 1e3:.0f})")
    print(f"  all nodes                          {node_bytes * nodes / 1e9:.2f} GB")
    print(f"  packing a minute of all nodes      {packed / minutes:.2f} s of processor time, with making it up")
    print(f"  writing a minute of all nodes      {written:.2f} s")
    print(f"  merging ten minutes of all nodes   {merged:.2f} s")
    print(f"  reading one node                   {read * 1e3:.0f} ms, {len(found)} intervals")
    return node_bytes <= MAX_NODE_BYTES


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=7500)
    parser.add_argument("--minutes", type=int, default=20)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if asyncio.run(measure(wanted.nodes, wanted.minutes // 10 * 10, Path(folder))) else 1


if __name__ == "__main__":
    raise SystemExit(main())
