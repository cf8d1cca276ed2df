"""False alarms on telemetry that was recorded from real gangs, judged as the controller judges it.

    python -m bench.telemetry.recorded_gangs          judge the gangs in tests/helpers/recorded_gangs.txt
    python -m bench.telemetry.recorded_gangs --pack A.jsonl B.jsonl > tests/helpers/recorded_gangs.txt

`bench.telemetry.stuck --record A.jsonl` and `bench.telemetry.stragglers_real --record B.jsonl` write a line for each
gang: its scenario and its minutes, as the server stored them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.helpers.recorded_gangs import Course, Recorded, follow, packed, recorded, scaled

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.core.telemetry.bands import unpack
from kajitori.core.telemetry.quantities import TRAFFIC, TRAINING_PREFIX
from kajitori.core.telemetry.stragglers import SIGNS

JUDGED = ("cpu.used", "output.age", "gpu.used", *TRAFFIC, *(sign.quantity for sign in SIGNS))
"""Quantities that the judgements read."""


BUSY = 10.0
"""Factor by which a real program uses the processor more than these gangs."""


def record(database: Path, uid: str, scenario: str, file: Path) -> None:
    """Append the minutes of a run to a file, from the history of a running `kaji up`."""
    asked = "SELECT began_at, ranks, document FROM telemetry WHERE run_uid = ? AND seconds = 60 ORDER BY began_at"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        rows = opened.execute(asked, (uid,)).fetchall()
    minutes = [[start, ranks, dict(_figures(document))] for start, ranks, document in rows]
    with file.open("a") as lines:
        lines.write(json.dumps({"scenario": scenario, "minutes": minutes}, separators=(",", ":")) + "\n")


def _figures(document: bytes) -> Iterator[tuple[str, list[Any]]]:
    for name, band in unpack(document).items():
        if name in JUDGED or name.startswith(TRAINING_PREFIX):
            values = (band.least, band.p10, band.median, band.p90, band.most)
            yield name, [band.size, *(float(f"{each:.4g}") for each in values), *band.least_at, *band.most_at]


def main() -> int:
    """Print what was said of each scenario's gangs; return 0 if no healthy gang was accused."""
    parser = option_parser(__doc__)
    parser.add_argument("--pack", nargs="+", type=Path, metavar="FILE", help="print the fixture of these recordings")
    if (files := parser.parse_args().pack) is not None:
        print(packed("".join(file.read_text() for file in files)))
        return 0
    gangs = [(each, follow(scaled(each, BUSY))) for each in recorded()]
    rows = []
    for scenario in dict.fromkeys(each.scenario for each, _ in gangs):
        ours = [(each, course) for each, course in gangs if each.scenario == scenario]
        kind = "guilty" if ours[0][0].is_slow else "stuck" if ours[0][0].is_stuck else ""
        minutes = sum(len(each.intervals) for each, _ in ours)
        slow, quiet = (sum(getattr(course, name) for _, course in ours) for name in ("slow_minutes", "quiet_minutes"))
        rows.append((scenario, kind, str(len(ours)), str(minutes), str(slow), str(quiet)))
    columns = ("scenario", "", "gangs", "minutes", "minutes with a straggler", "minutes suspected to be stuck")
    print_table("recorded gangs of 8 processes", columns, rows)
    return print_limits(limits(gangs))


def limits(gangs: list[tuple[Recorded, Course]]) -> list[Limit]:
    """Return the limits that the recorded gangs must keep."""
    even = [course for each, course in gangs if not each.is_slow]
    moving = [course for each, course in gangs if not each.is_stuck]
    return [
        Limit("gangs without a slow rank that were accused", sum(c.slow_minutes > 0 for c in even), most=0),
        Limit("gangs that do not hang and were suspected", sum(c.quiet_minutes > 0 for c in moving), most=0),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
