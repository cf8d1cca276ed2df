"""The hour of one member, and the values of a minute."""

from __future__ import annotations

import math
from array import array

import pytest

from kajitori.core.telemetry.quantities import MEMBER, QUANTITIES
from kajitori.core.telemetry.report import Answer, MemberMinute, Report, encode, read_answer, read_report
from kajitori.core.telemetry.report import Series as WireSeries
from kajitori.core.telemetry.ring import Readings, Ring, summary
from kajitori.errors import InvalidInput


def test_a_full_ring_forgets_the_oldest_rows() -> None:
    ring = Ring(2, rows=3)
    for number in range(5):
        ring.add(float(number), (number, 10.0 * number))
    assert len(ring) == 3
    times, values = ring.since(-1)
    assert (list(times), list(values)) == ([2.0, 3.0, 4.0], [2, 20, 3, 30, 4, 40])
    assert list(ring.since(3.0)[0]) == [4.0]
    assert [list(row) for row in ring.between(2.0, 3.0)] == [[3, 30]]


def test_totals_become_increases_per_second() -> None:
    quantities = (QUANTITIES["cpu.used"], QUANTITIES["gpu.ecc.corrected"], QUANTITIES["memory.used"])
    readings = Readings(quantities)
    first = readings.sample(100.0, {"cpu.used": 50.0, "gpu.ecc.corrected": 2.0, "memory.used": 7.0})
    assert math.isnan(first[0])
    assert first[2] == 7.0
    assert readings.sample(110.0, {"cpu.used": 65.0, "gpu.ecc.corrected": 5.0, "memory.used": 8.0}) == [1.5, 3.0, 8.0]
    restarted = readings.sample(120.0, {"cpu.used": 1.0})
    assert all(math.isnan(value) for value in restarted)


def test_a_minute_is_made_as_the_table_says() -> None:
    named = {"cpu.used": (1.0, 3.0), "memory.peak": (9.0, 5.0), "output.age": (30.0, 2.0)}
    rows = [[named.get(each.name, (math.nan, math.nan))[row] for each in MEMBER] for row in range(2)]
    made = dict(zip((each.name for each in MEMBER), summary(MEMBER, rows), strict=True))
    assert (made["cpu.used"], made["memory.peak"], made["output.age"]) == (2.0, 9.0, 2.0)
    assert math.isnan(made["memory.used"])


def test_reports_and_answers_come_back() -> None:
    minute = MemberMinute("ns", "bert-1-0", "uid", 9, array("f", [1.0]).tobytes(), (), b"", {"loss": 0.5})
    report = Report(("cpu.used",), (), (minute,))
    assert read_report(encode(report)) == report
    answer = Answer((WireSeries("uid", bytes(16), bytes(8)),), ("cpu.used",), ())
    assert read_answer(encode(answer)) == answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        encode(Report(("cpu.used",), (), (MemberMinute("ns", "p", "u", 1, bytes(8)),))),
        encode(Report(("cpu.used",), (), (MemberMinute("ns", "p", "u", 1, bytes(4), (), b"", {"a b": 1.0}),))),
    ],
)
def test_reports_whose_sizes_disagree_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_report(body)
