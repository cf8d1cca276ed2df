"""Plots as SVG: lines on linear or logarithmic axes, and bars. Enough for a handful of figures in docs/."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0b6e99", "#d1495b", "#66a182", "#edae49", "#6c5b7b", "#8d99ae")
_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 70


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its title and its scale."""

    label: str
    log: bool = False

    def scale(self, value: float) -> float:
        """Return the position of a value before it is scaled to the picture; logarithms begin at a thousandth."""
        return math.log10(max(value, 1e-3)) if self.log else value


def lines(title: str, x: Axis, y: Axis, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw one line for each series of points, with its name in a legend."""
    points = [point for each in series.values() for point in each]
    x_low, x_high = _span([x.scale(px) for px, _ in points])
    y_low, y_high = _span([y.scale(py) for _, py in points] + ([] if y.log else [0.0]))
    parts = [_text(_WIDTH / 2, 20, title, size=15)]
    for tick, label in _ticks(x, x_low, x_high):
        at = _LEFT + (tick - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)
        parts += [_rule(at, _TOP, at, _HEIGHT - _BOTTOM), _text(at, _HEIGHT - _BOTTOM + 16, label)]
    for tick, label in _ticks(y, y_low, y_high):
        at = _HEIGHT - _BOTTOM - (tick - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)
        parts += [_rule(_LEFT, at, _WIDTH - _RIGHT, at), _text(_LEFT - 6, at + 4, label, anchor="end")]
    for number, each in enumerate(series.values()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{_LEFT + (x.scale(px) - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT):.1f},"
            f"{_HEIGHT - _BOTTOM - (y.scale(py) - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM):.1f}"
            for px, py in each
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts.append(_text(_WIDTH / 2, _HEIGHT - _BOTTOM + 34, x.label))
    parts.append(_text(14, _HEIGHT / 2, y.label, rotate=True))
    return _document([*parts, *_legend(list(series))])


def bars(title: str, y: Axis, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draw for each group one bar per name, with its value; all groups have the same names."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [y.scale(value) for group in groups.values() for value in group.values()]
    low, high = _span([*values, min(values) if y.log else 0.0])
    low = low - 0.3 if y.log else low
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = step * 0.8 / max(1, len(names))
    parts = [_text(_WIDTH / 2, 20, title, size=15), _text(14, _HEIGHT / 2, y.label, rotate=True)]
    for number, (group, members) in enumerate(groups.items()):
        left = _LEFT + number * step + step * 0.1
        parts.append(_text(left + step * 0.4, _HEIGHT - _BOTTOM + 16, group))
        for place, name in enumerate(names):
            tall = (y.scale(members[name]) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM - 12)
            at, top = left + place * width, _HEIGHT - _BOTTOM - tall
            colour = COLOURS[place % len(COLOURS)]
            parts.append(f'<rect x="{at:.1f}" y="{top:.1f}" width="{width:.1f}" height="{tall:.1f}" fill="{colour}"/>')
            parts.append(_text(at + width / 2, top - 3, _short(members[name]), size=9))
    return _document([*parts, *_legend(names)])


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low, low + 1)


def _ticks(axis: Axis, low: float, high: float) -> list[tuple[float, str]]:
    if axis.log:
        factors = (1, 2, 5) if high - low < 2 else (1,)
        powers = range(math.floor(low), math.floor(high) + 1)
        ticks = [(power + math.log10(factor), factor * 10.0**power) for power in powers for factor in factors]
        return [(at, _short(value)) for at, value in ticks if low - 1e-9 <= at <= high + 1e-9]
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next(factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 6)
    first = math.ceil(low / step)
    return [(number * step, _short(number * step)) for number in range(first, math.floor(high / step) + 1)]


def _short(value: float) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.0e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _legend(names: Sequence[str]) -> list[str]:
    if not any(names):
        return []  # a single series needs no legend: names are below the bars
    parts, at = [], float(_LEFT)
    for number, name in enumerate(names):
        parts.append(f'<rect x="{at:.0f}" y="{_HEIGHT - 18}" width="10" height="10" fill="{COLOURS[number % 6]}"/>')
        parts.append(_text(at + 14, _HEIGHT - 9, name, anchor="start"))
        at += 24 + 6.2 * len(name)
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, *, size: int = 11, anchor: str = "middle", rotate: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:.0f} {y:.0f})"' if rotate else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'


def _document(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *parts, "</svg>", ""])
