"""The lost time of a run in sentences for reports."""

from __future__ import annotations

from kajitori.core.formats.quantities import format_duration
from kajitori.core.usage.lost_time.checkpoints import Checkpoints
from kajitori.core.usage.lost_time.run_time import RunTime
from kajitori.core.usage.lost_time.slices import Category

_SAY_SO = 'let rank 0 append {"checkpoint_seconds": 12.5} to $KAJI_METRICS after each checkpoint'
"""Advice to the user if the times or the cost of checkpoints are not known."""


def describe(time: RunTime, checkpoints: Checkpoints, *, can_save: bool) -> list[str]:
    """Return sentences about how much of a run's time was productive, and about its checkpoints.

    `can_save`: whether the run has a checkpoint, or a type that loses nothing.
    """
    sentences = []
    if time.ratio is not None:
        productive = time.seconds.get(Category.PRODUCTIVE, 0)
        sentences.append(
            f"{time.ratio:.1%} of its time was productive: {format_duration(productive)} of "
            f"{format_duration(time.whole)} since it was submitted."
        )
    if checkpoints.best_seconds is not None:
        return sentences + _best_interval(checkpoints, checkpoints.best_seconds)
    missing = _why_no_best_interval(time, checkpoints, can_save=can_save)
    return [*sentences, missing] if missing else sentences


def _best_interval(checkpoints: Checkpoints, best_seconds: float) -> list[str]:
    """Compare the interval that would have cost least with the one that the run had."""
    failures = f"{checkpoints.failures} failure{'s' if checkpoints.failures != 1 else ''}"
    sentences = [
        f"With {failures}, one every {_round_duration(checkpoints.between_failures)}, and checkpoints that took "
        f"{_round_duration(checkpoints.cost_seconds)} each, a checkpoint every {_round_duration(best_seconds)} would "
        f"have cost least: {checkpoints.waste(best_seconds):.1%} of the time (Young and Daly)."
    ]
    if checkpoints.every_seconds is not None:
        sentences.append(
            f"It wrote one every {_round_duration(checkpoints.every_seconds)}, which costs "
            f"{checkpoints.waste(checkpoints.every_seconds):.1%}."
        )
    return sentences


def _why_no_best_interval(time: RunTime, checkpoints: Checkpoints, *, can_save: bool) -> str:
    """Say what is not known about checkpoints; empty if nothing was lost, or nothing is to be said."""
    if not can_save:
        lost = time.seconds.get(Category.LOST, 0)
        return (
            f"It has no checkpoint, so each failure lost all of its attempt: {format_duration(lost)}." if lost else ""
        )
    if time.seconds.get(Category.UNCLEAR):
        return f"When it wrote its checkpoints is not known, or only in part: {_SAY_SO}."
    if checkpoints.cost_seconds is None:
        return f"What a checkpoint costs is not known: {_SAY_SO}." if checkpoints.failures else ""
    if not checkpoints.failures:
        return "It had no failure, so nothing can be said about a better interval between checkpoints."
    return ""


def _round_duration(seconds: float | None) -> str:
    """Return a duration in at most two units."""
    whole = round(seconds or 0.0)
    for unit in (86_400, 3600):
        if whole >= unit:
            step = 3600 if unit == 86_400 else 60
            whole = round(whole / step) * step
            break
    return format_duration(whole) if whole or not seconds else f"{seconds:.1f}s"
