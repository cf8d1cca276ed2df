"""Answers about several runs beside each other."""

from __future__ import annotations

from typing import Literal

import msgspec

from kajitori.api.views.base import Time, View


class ComparedRun(View):
    """One of the compared runs."""

    name: str
    namespace: str
    uid: str
    owner: str
    phase: str
    created_at: Time
    started_at: str
    """Empty if it never started."""
    is_removed: bool
    """Whether only history has it; it is then addressed by its UID."""
    command_line: str
    """The `kaji run` command that asks for the same."""
    interval_seconds: int
    """Distance of the points of its curves."""


class ComparedRow(View):
    """One value of all runs."""

    part: Literal["asked", "outcome", "figures"]
    """asked: what the spec says. outcome: what became of the run. figures: the last median of all ranks of a figure
    that the program wrote."""
    name: str
    """For `asked` the path of the spec's field, such as `resources.gpu`, or an option of the program: `--lr`."""
    values: list[str]
    """One text for each run, in their order; empty if it has none."""
    differs: bool


class ComparedPoint(View):
    """The median over all ranks in one interval."""

    at: Time
    attempt: int
    p50: float


class ComparedLine(View):
    """One figure of one run over time, oldest point first."""

    run: int
    """Index of the run."""
    points: list[ComparedPoint]


class ComparedFigure(View):
    """One figure of all runs that have it."""

    name: str
    unit: str
    description: str
    lines: list[ComparedLine]


class MissingRun(View):
    """A run that cannot be compared."""

    run: str
    """As it was asked for."""
    message: str
    hint: str = ""


class Comparison(View):
    """Runs beside each other, in the order in which they were asked for."""

    runs: list[ComparedRun]
    missing: list[MissingRun]
    """Runs that do not exist, or that the caller may not read."""
    rows: list[ComparedRow]
    figures: list[ComparedFigure] = msgspec.field(default_factory=list)
