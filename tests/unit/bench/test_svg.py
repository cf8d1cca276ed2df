"""Plots: an axis can be read off, and nothing stands in a legend that has no name."""

from __future__ import annotations

import re

from bench.svg import Axis, bars, lines


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_short_logarithmic_axis_has_ticks_between_its_powers() -> None:
    """A long one has its powers only, and the last of them is there."""
    short = words(lines("t", Axis("x"), Axis("y", log=True), {"a": [(0, 18), (1, 530)]}))
    assert [each for each in short if each in ("10", "20", "50", "100", "200", "500", "1,000")] == [
        "20",
        "50",
        "100",
        "200",
        "500",
    ]
    long = words(lines("t", Axis("x"), Axis("y", log=True), {"a": [(0, 1), (1, 1000)]}))
    assert [each for each in long if each in ("1", "2", "5", "10", "100", "500", "1,000")][-4:] == [
        "1",
        "10",
        "100",
        "1,000",
    ]


def test_bars_of_one_kind_have_no_legend() -> None:
    plain = bars("t", Axis("y"), {"a": {"": 1.0}, "b": {"": 2.0}})
    assert plain.count("<rect") == 3  # the paper and two bars
    assert bars("t", Axis("y"), {"a": {"x": 1.0, "y": 2.0}}).count("<rect") == 5
