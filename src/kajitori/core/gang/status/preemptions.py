"""The preemptions in a run's status, and their description."""

from __future__ import annotations

from collections.abc import Collection

from kajitori.core.gang.status.member_notes import members_text
from kajitori.core.gang.sweep_ledger import indices_of
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy

_PREEMPTIONS_SHOWN = 3
"""Largest number of preemptions that a message describes."""
_RANKS_SHOWN = 40
"""Longest list of members in a message, in characters; a longer one is replaced by its count."""


def preemptions_of(status: RunStatus) -> tuple[PreemptedBy, ...]:
    """Return the preemptions of a run. Different members of a sweep may be preempted by different runs."""
    return status.preemption.each if status.preemption is not None else ()


def describe_preemptions(preemptions: Preempted, *, withdrawn: Collection[tuple[str, int]] = ()) -> str:
    """Return a text like `preempted by vision/bert (high, of ana)` or `members 3-5 preempted by …; member 7 …`."""
    more = len(preemptions.others) + 1 - _PREEMPTIONS_SHOWN
    shown = [
        _describe_preemption(preemption) + (", which no longer waits" if preemption.waiting in withdrawn else "")
        for preemption in preemptions.each[:_PREEMPTIONS_SHOWN]
    ]
    if more > 0:
        shown.append(f"others by {more} more {'run' if more == 1 else 'runs'}")
    return "; ".join(shown)


def _describe_preemption(preemption: PreemptedBy) -> str:
    members = preempted_members_text(preemption)
    why = ", whose team is guaranteed what it asks for" if preemption.guaranteed else ""
    ends = f"; its program is asked to end at {preemption.ends_at}" if preemption.ends_at else ""
    return f"{members}{' ' if members else ''}preempted by {preemption.who}{why}{ends}"


def preempted_members_text(preemption: PreemptedBy) -> str:
    """Return which members of a sweep are preempted: `member 3`, `members 3-5`, `70 members`; empty for a whole run."""
    if not preemption.ranks:
        return ""
    count = len(indices_of(preemption.ranks))
    if count == 1:
        return f"member {preemption.ranks}"
    return f"members {preemption.ranks}" if len(preemption.ranks) <= _RANKS_SHOWN else members_text(count)


def is_preempted_by(preemption: PreemptedBy, rank: int, attempt: int) -> bool:
    """Return whether this preemption concerns this member. In a sweep it may concern only some members."""
    return not preemption.ranks or (attempt <= preemption.attempt and rank in indices_of(preemption.ranks))
