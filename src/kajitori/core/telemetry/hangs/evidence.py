"""Stacks of a run's ranks at one time, stored to explain a hang or a failure later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.telemetry.hangs import connections, native
from kajitori.core.telemetry.hangs.flight import compare
from kajitori.core.telemetry.hangs.stacks import Group, MemberStacks, group, sentences

MAX_LATE = 8
"""Most process groups about which the flight recorder is quoted, and most ranks that are told to get no answer."""


class Occasion(StrEnum):
    """Why stacks were taken."""

    STUCK = "stuck"
    """The attempt was suspected to be stuck."""
    END = "end"
    """A member had failed, and the others were about to be ended."""


class Evidence(msgspec.Struct, frozen=True):
    """The stacks of an attempt's ranks."""

    occasion: str
    at: float
    """Seconds since 1970."""
    told: str
    """Why they were taken, as a sentence."""
    ranks: dict[int, MemberStacks]
    nodes: dict[int, str]
    """Node of every rank that was asked for its stacks; the ranks that are not in `ranks` did not answer."""
    addresses: dict[int, str] = {}
    """Addresses of their Pods."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The stacks of several ranks, compared."""

    groups: tuple[Group, ...]
    """The odd groups first."""
    places: tuple[str, ...]
    """A sentence without its full stop for each group."""
    late: tuple[str, ...]
    """Sentences without their full stops, from PyTorch's flight recorder."""
    late_ranks: tuple[int, ...]
    """Ranks that have not entered a collective operation in which others wait."""
    silent: tuple[str, ...] = ()
    """A sentence, without its full stop, for each rank that gets no answers to its messages."""
    cut_off_ranks: tuple[int, ...] = ()
    """Ranks that seem to have lost their network."""
    native: tuple[str, ...] = ()
    """A sentence without its full stop for each rank with calls in native code."""

    @property
    def odd(self) -> tuple[int, ...]:
        """Ranks for which the others seem to wait."""
        found = {rank for each in self.groups if each.odd for rank in each.ranks}
        return tuple(sorted(found or self.cut_off_ranks or self.late_ranks))

    def words(self) -> list[str]:
        """Return sentences for people who may see the program's code."""
        capitalised = [f"{each[:1].upper()}{each[1:]}." for each in (*self.silent, *self.places, *self.native)]
        return capitalised + [f"PyTorch's flight recorder: {each}." for each in self.late]

    def summary(self, nodes: Mapping[int, str]) -> str:
        """Return which ranks stand out, as a sentence that shows no code."""
        match self.odd:
            case ():
                return "No rank stands out."
            case (rank,):
                return f"The others seem to wait for rank {rank} on {nodes[rank]}."
            case several:
                return f"The others seem to wait for {len(several):,} ranks ({compress_ranks(several)})."


def read(ranks: Mapping[int, MemberStacks], nodes: Mapping[int, str], addresses: Mapping[int, str]) -> Reading:
    """Group ranks by the places of their processes. `addresses` are those of their Pods."""
    groups = group({rank: each.processes for rank, each in ranks.items()})
    late = compare({rank: each.flights for rank, each in ranks.items()}, nodes)
    silent = connections.unanswered(ranks, addresses)
    return Reading(
        tuple(groups),
        tuple(sentences(groups, nodes)),
        tuple(each.text for each in late[:MAX_LATE]),
        tuple(sorted({rank for each in late for rank in each.members})),
        tuple(connections.describe(silent, nodes)[:MAX_LATE]),
        connections.cut_off(silent, ranks),
        tuple(native.describe(ranks, groups, nodes)),
    )
