"""Telemetry of real gangs, with the findings about it.

`bench.telemetry.stuck` and `bench.telemetry.stragglers_real` recorded it.

`recorded_gangs.txt` has one JSON document for each gang, compressed and as text.
"""

from __future__ import annotations

import base64
import json
import textwrap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stragglers import Peers
from kajitori.core.telemetry.stuck import Patience, Rhythm, Verdict

FILE = Path(__file__).with_suffix(".txt")
SLOW = ("slow", "clock", "processor", "figures", "own-pace")
"""Scenarios with a slow rank."""
STUCK = ("lock", "socket", "poll", "spin", "spin-lines", "kernel", "stopped", "network")
LONG = ("evaluation-long", "compilation-long")
"""Scenarios of healthy gangs that are quiet beyond the limit, so that they are suspected until their stacks are
compared."""
PATIENCE = Patience(floor_seconds=120.0, working_floor_seconds=240.0)
"""Limits of the benchmark's policy. The default ones are five and fifteen times as long."""


@dataclass(frozen=True)
class Recorded:
    """One gang."""

    scenario: str
    intervals: tuple[Interval, ...]

    @property
    def is_slow(self) -> bool:
        """Whether one of its ranks is slow."""
        return self.scenario in SLOW

    @property
    def is_stuck(self) -> bool:
        """Whether it hangs, or is quiet for so long that it must be suspected."""
        return self.scenario in STUCK + LONG


@dataclass(frozen=True)
class Course:
    """The findings about one gang."""

    slow_minutes: int
    """Minutes in which a straggler was named."""
    slow_ranks: frozenset[int]
    quiet_minutes: int
    """Minutes in which it was suspected to be stuck."""


def packed(lines: str) -> str:
    """Return JSON lines as the text of the file."""
    return "\n".join(textwrap.wrap(base64.b85encode(zlib.compress(lines.encode(), 9)).decode(), 118))


def recorded() -> Iterator[Recorded]:
    """Yield the recorded gangs."""
    text = zlib.decompress(base64.b85decode(FILE.read_text().replace("\n", ""))).decode()
    for line in text.splitlines():
        gang = json.loads(line)
        yield Recorded(gang["scenario"], tuple(_interval(*minute) for minute in gang["minutes"]))


def _interval(start: int, ranks: int, rows: dict[str, list[float]]) -> Interval:
    return Interval("u", 1, 60, start, ranks, {name: _band(*row) for name, row in rows.items()})


def _band(size: float, least: float, p10: float, median: float, p90: float, most: float, *places: float) -> Band:
    low, low_gpu, high, high_gpu = map(int, places)
    return Band(int(size), least, p10, median, p90, most, Place(low, low_gpu), Place(high, high_gpu))


def scaled(gang: Recorded, factor: float) -> Recorded:
    """Return the gang with the processor time of each rank multiplied by a factor.

    Ranks are compared if they use at least 0.1 cores; on the busy machine of the recording they got less.
    """

    def larger(each: Interval) -> Interval:
        if (used := each.bands.get("cpu.used")) is None:
            return each
        figures = {name: factor * getattr(used, name) for name in ("least", "p10", "median", "p90", "most")}
        return replace(each, bands={**each.bands, "cpu.used": used._replace(**figures)})

    return replace(gang, intervals=tuple(map(larger, gang.intervals)))


def follow(gang: Recorded) -> Course:
    """Judge a gang minute by minute, as the controller's watchers do."""
    peers, rhythm = Peers(dict.fromkeys(range(8), "n1")), Rhythm()
    slow: list[int] = []
    quiet = 0
    for each in gang.intervals:
        end = float(each.start + each.seconds)
        peers.take(each)
        rhythm.take(each)
        found = peers.judge(end)
        slow += [found.spot.rank] if found is not None else []
        quiet += rhythm.judge(end, PATIENCE).verdict is Verdict.SUSPECTED
    return Course(len(slow), frozenset(slow), quiet)
