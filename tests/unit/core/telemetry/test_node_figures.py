"""Figures of nodes: how they are merged, and in how few bytes they are stored."""

from __future__ import annotations

import math
from array import array

import pytest

from kajitori.core.telemetry.node_figures import NodeFigures, NodeInterval, figures_of, merged, pack, shown, unpack
from kajitori.core.telemetry.quantities import NODE, NODE_GPU
from kajitori.core.telemetry.report import NodeMinute, Report, encode, read_report
from kajitori.errors import InvalidInput

NAN = math.nan
GIB = float(1 << 30)


def gpu(used: float = NAN, celsius: float = NAN) -> list[float]:
    return [used, 60.5 * GIB, 80 * GIB, 512.4, celsius]


def test_a_node_with_eight_busy_gpus_takes_about_a_hundred_bytes() -> None:
    row = [93.217, 1.9e12]
    for number in range(8):
        row += [90.0 + number, (60 + number) * GIB + 12345, 80 * GIB, 512.4 + number, 60.0 + number]
    figures = NodeFigures(8, row, {"team/llama": 255})
    assert len(pack(figures)) <= 110
    found = unpack(pack(figures))
    assert (found.gpus, found.holders) == (8, {"team/llama": 255})
    assert list(found.row) == pytest.approx(row, rel=1e-3)


def test_idle_gpus_and_what_was_not_measured_take_next_to_nothing() -> None:
    idle = NodeFigures(8, [0.02, 8 * GIB, *([0.0, 0.0, 80 * GIB, 70.0, 31.0] * 8)])
    assert len(pack(idle)) <= 30
    unknown = unpack(pack(NodeFigures(2, [NAN, GIB, *gpu(5.0), *([NAN] * len(NODE_GPU))])))
    assert math.isnan(unknown.row[0]) and unknown.row[1] == GIB
    assert unknown.row[2] == 5.0 and all(map(math.isnan, unknown.row[7:]))
    assert list(unpack(pack(NodeFigures(0, [1.5, GIB]))).row) == [1.5, GIB]


def test_longer_intervals_have_means_the_highest_temperature_and_all_holders() -> None:
    """A GPU that came later is unknown before; a minute that is missing counts nothing."""
    parts = [
        NodeFigures(1, [1.0, GIB, *gpu(10.0, 50.0)], {"a/x": 1}),
        NodeFigures(2, [3.0, NAN, *gpu(30.0, 80.0), *gpu(90.0, 40.0)], {"a/x": 2, "b/y": 0}),
    ]
    found = merged(parts)
    assert (found.gpus, found.holders) == (2, {"a/x": 3, "b/y": 0})
    assert list(found.row[:4]) == pytest.approx([2.0, GIB, 20.0, 60.5 * GIB])
    assert (found.row[6], found.row[7]) == (80.0, 90.0)


def test_an_interval_of_ten_minutes_counts_ten_times_as_much_as_a_minute() -> None:
    long = [NodeInterval(600, start, NodeFigures(0, [0.0, GIB])) for start in (0, 600)]
    minutes = [NodeInterval(60, 1200 + 60 * number, NodeFigures(0, [3.0, GIB])) for number in range(10)]
    (found,) = shown([*minutes, *long], 1)
    assert (found.start, found.seconds) == (0, 1800)
    assert found.figures.row[0] == pytest.approx(1.0)
    assert [each.start for each in shown([*long, *minutes], 3)] == [0, 600, 1200]
    assert shown([], 10) == []


def test_quantities_that_only_the_agent_knows_are_left_out() -> None:
    minute = NodeMinute(5, ("new", "cpu.used"), ("gpu.power",), 1, array("f", [1.0, 2.0]).tobytes(), b"\0\0\0\0")
    found = figures_of(minute, {})
    assert len(found.row) == len(NODE) + len(NODE_GPU)
    assert found.row[0] == 2.0 and math.isnan(found.row[1]) and found.row[5] == 0.0


@pytest.mark.parametrize(
    "minute",
    [
        NodeMinute(5, ("cpu.used",), (), 0, b""),
        NodeMinute(5, (), ("gpu.used",), 2, b"", b"\0" * 4),
        NodeMinute(5, (), (), 1, b"", b"", {"u": 2}),
    ],
)
def test_a_report_whose_sizes_do_not_agree_is_refused(minute: NodeMinute) -> None:
    with pytest.raises(InvalidInput):
        read_report(encode(Report(node=(minute,))))
