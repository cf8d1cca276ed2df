"""Plots: axes can be read, and a legend has no entry without a name."""

from __future__ import annotations

import re

from bench.parts.svg import Axis, bars, lines


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_short_logarithmic_axis_has_ticks_between_its_powers() -> None:
    """A long axis has ticks only at its powers, including the last."""
    short = texts(lines("t", Axis("x"), Axis("y", log=True), {"a": [(0, 18), (1, 530)]}))
    assert [text for text in short if text in ("10", "20", "50", "100", "200", "500", "1,000")] == [
        "20",
        "50",
        "100",
        "200",
        "500",
    ]
    long = texts(lines("t", Axis("x"), Axis("y", log=True), {"a": [(0, 1), (1, 1000)]}))
    assert [text for text in long if text in ("1", "2", "5", "10", "100", "500", "1,000")][-4:] == [
        "1",
        "10",
        "100",
        "1,000",
    ]


def test_bars_of_one_kind_have_no_legend() -> None:
    plain = bars("t", Axis("y"), {"a": {"": 1.0}, "b": {"": 2.0}})
    assert plain.count("<rect") == 3  # the background and two bars
    assert bars("t", Axis("y"), {"a": {"x": 1.0, "y": 2.0}}).count("<rect") == 5
