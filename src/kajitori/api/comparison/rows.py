"""The rows of a comparison: named texts of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from kajitori.api.views.comparison import ComparedFigure, ComparedRow
from kajitori.api.views.runs import RunView
from kajitori.core.formats.quantities import format_duration, round_memory
from kajitori.core.spec.comparing import asked_for
from kajitori.core.telemetry.quantities import Unit
from kajitori.core.usage.lost_time.run_time import RunTime
from kajitori.core.usage.lost_time.slices import Category

Part = Literal["asked", "outcome", "figures"]


def rows_of(views: Sequence[RunView], times: Sequence[RunTime], figures: Sequence[ComparedFigure]) -> list[ComparedRow]:
    """Return the rows of a comparison. Names keep the order in which the runs have them."""
    return [
        *_rows("asked", [asked_for(view.spec) for view in views]),
        *_rows("outcome", [_outcome(view, time) for view, time in zip(views, times, strict=True)]),
        *_rows("figures", [_last_values(index, figures) for index in range(len(views))]),
    ]


def _rows(part: Part, texts: Sequence[Mapping[str, str]]) -> list[ComparedRow]:
    names = dict.fromkeys(name for each in texts for name in each)
    rows = [(name, [each.get(name, "") for each in texts]) for name in names]
    return [
        ComparedRow(part=part, name=name, values=values, differs=len(set(values)) > 1)
        for name, values in rows
        if any(values)
    ]


def _outcome(view: RunView, time: RunTime) -> dict[str, str]:
    status = view.status
    held = sum(seconds for category, seconds in time.seconds.items() if category is not Category.QUEUED)
    gpu_seconds, member_seconds = sum(time.gpu_seconds.values()), sum(time.member_seconds.values())
    peak = (status.get("memory") or {}).get("peakBytes")
    return {
        "state": str(status.get("phase") or "Queued"),
        "reason": str(status.get("reason") or ""),
        "message": str(status.get("message") or ""),
        "exit code": str(status.get("exitCode", "")),
        "attempts": str(status.get("attempts") or 0),
        "restarts": str(status.get("restarts") or 0),
        "waited": format_duration(time.seconds.get(Category.QUEUED, 0)),
        "held nodes": format_duration(held),
        "productive time": f"{100 * time.ratio:.3g} %" if time.ratio is not None else "",
        "GPU-hours": _hours(gpu_seconds),
        "member-hours": _hours(member_seconds),
        "memory peak": round_memory(peak) if peak else "",
        "nodes": str((status.get("attempt") or {}).get("nodes") or ""),
    }


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.4g}" if seconds else ""


def _last_values(run: int, figures: Sequence[ComparedFigure]) -> dict[str, str]:
    values = {}
    for figure in figures:
        points = next((line.points for line in figure.lines if line.run == run), [])
        if points:
            values[figure.name] = _amount(points[-1].p50, figure.unit)
    return values


def _amount(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    if unit == Unit.PER_SECOND:
        return f"{digits}/s"
    return digits if unit in (Unit.COUNT, Unit.NONE) else f"{digits} {unit}"
