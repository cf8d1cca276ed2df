"""Preemptions of a run in its status: by which runs, and of which members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class PreemptedBy(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The preemption of a run, or of some members of a sweep, for another run: the preemptor."""

    by: str
    """`namespace/name` of the preemptor."""
    uid: str
    """UID of the preemptor."""
    attempts: int = 0
    """Number of the preemptor's attempts at that time. Once it has more, it has the nodes that it waited for."""
    who: str = ""
    """The preemptor, as messages name it."""
    guaranteed: bool = False
    """Whether the preemptor's team is guaranteed what it asks for; else it has a higher priority."""
    since: str = ""
    ends_at: str = ""
    """When the preempted members are asked to end, if the run is given notice; empty: at once."""
    ranks: str = ""
    """The preempted members of a sweep, as ranges; its other members go on. Empty: the whole run is preempted."""
    attempt: int = 0
    """With `ranks`: the last attempt at that time. Members of later attempts are not preempted."""

    @property
    def waiting(self) -> tuple[str, int]:
        """UID and attempts of the preemptor. Each of its starts counts as another preemptor."""
        return self.uid, self.attempts


class Preempted(PreemptedBy, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The preemption of a run: written before any of its members is asked to end, kept until it starts again."""

    others: tuple[PreemptedBy, ...] = ()
    """Earlier preemptions of other members of a sweep, the latest first."""

    @classmethod
    def of(cls, asks: Sequence[PreemptedBy]) -> Preempted:
        """Combine several preemptions, at least one."""
        first, *others = asks
        return cls(**_fields(first), others=tuple(others))

    @property
    def each(self) -> tuple[PreemptedBy, ...]:
        """All preemptions as a flat sequence."""
        return PreemptedBy(**_fields(self)), *self.others


def _fields(asked: PreemptedBy) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in PreemptedBy.__struct_fields__}
