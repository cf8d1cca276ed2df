"""Answers about the calls of a run: functions that its workers do."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import View


class CallsAdded(View):
    """The calls of a run."""

    added: int
    """Number of calls that were added so far."""
    closed: bool
    """Whether no more calls come."""
    cancelled: int = 0
    """Number of calls that this request cancelled."""
    over: bool = False
    """Whether every call has ended and none will be added."""


class CallOutcome(View, omit_defaults=True):
    """The outcome of a call."""

    call: int
    kind: str
    """value, error, item (a generator goes on), end (a generator ended), lost (three workers died with it), or
    cancelled."""
    part: int = 0
    """Number of a generator's item, from 0."""
    value: str = ""
    """The pickled value in base64."""


class CallOutcomes(View):
    """Outcomes of calls in the order in which they came."""

    items: list[CallOutcome]
    next: int
    """Send it as `after` for later outcomes."""
    added: int
    ended: int
    """Number of calls that have ended."""
    closed: bool


class TakenCall(View):
    """A call that a worker is to do."""

    call: int
    arguments: str
    """The pickled arguments in base64."""


class CallWork(View):
    """Work for a worker."""

    calls: list[TakenCall]
    """Empty if there is nothing to do at the moment."""
    over: bool
    """Whether every call has ended and none will be added: the worker ends."""
    ended: list[int] = msgspec.field(default_factory=list)
    """Those of its calls in `doing` that have ended already, since they were cancelled: the worker stops doing them."""
