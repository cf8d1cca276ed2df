"""Who is asked to give way to whom, over the whole queue, and who gets what was freed for him.

A run that waits may have what gangs of low priority hold, if its own is higher; and a team that holds less than it is
guaranteed gets back what others hold beyond their own. Whoever was asked leaves within his grace, so that what he holds
counts as coming free: nobody is asked twice for one need. What comes free is kept for whoever it was freed for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kajitori.core.placement.planner import GangRequest, Placement, Shortage, nodes_for, occupy, place
from kajitori.core.placement.snapshot import Mask, Snapshot
from kajitori.core.policy.preemption import Guarantee, Preemption
from kajitori.core.queue.guarantees import Guaranteed
from kajitori.core.queue.preemption import Running, choose_victims, without

LOOKED_AT = 100
"""Waiting gangs, from the front of the queue, that others may be asked for in one cycle; those behind come later."""

ASKED_FOR_AT_ONCE = 10
"""So many of them have others asked in one cycle; the next is soon, and each costs a look at all that run."""


@dataclass(frozen=True, slots=True)
class Wanting:
    """A gang that found no room."""

    gang: GangRequest
    namespace: str
    starts_in_seconds: float = math.inf
    """When it is expected to start if nobody is asked."""


@dataclass(frozen=True, slots=True)
class Request:
    """Gangs that are to give way, all of them, to one that waits."""

    key: str
    """Of the gang that waits."""
    victims: tuple[Running, ...]
    guaranteed: bool
    """Its team is guaranteed what it asks for; else it is of higher priority than all of these."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What one look over the queue found."""

    requests: tuple[Request, ...] = ()
    look_again_in_seconds: float = math.inf
    """Then a gang that might help will have run for the time that everybody is left."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nodes that were freed for somebody, and who has them."""

    placements: tuple[Placement, ...]
    """Of those who start now."""
    kept: tuple[Placement, ...]
    """For those who wait until all of their nodes are free."""
    shortages: tuple[Shortage, ...]
    """What these lack until then."""
    state: Snapshot
    """What is left for everybody else: all of these are used."""

    @property
    def keys(self) -> frozenset[str]:
        """Of all of them."""
        return frozenset(each.key for each in (*self.placements, *self.kept))


def settle(state: Snapshot, freed_for: Iterable[GangRequest], leaving: Sequence[Running]) -> Settled:
    """Gives gangs that others give way to what comes free, before anybody else is looked at.

    leaving: gangs on their way out. Who finds no room even without these is one who waits like all others.
    """
    now, then = state.copy(), without(state, leaving)
    placements, kept, shortages = [], [], []
    for gang in freed_for:
        gang = next(_sizes(gang)) if gang.grows else gang
        found = place(now, gang)
        if isinstance(found, Placement):
            placements.append(found)
        else:
            lacks, found = found, place(then, gang)
            if not isinstance(found, Placement):
                continue
            kept.append(found)
            shortages.append(lacks)
        occupy(now, gang.member, found.nodes)
        occupy(then, gang.member, found.nodes)
    return Settled(tuple(placements), tuple(kept), tuple(shortages), now)


def ask(
    state: Snapshot,
    queue: Sequence[Wanting],
    running: Sequence[Running],
    rules: Preemption,
    guarantees: Sequence[Guarantee],
) -> Requests:
    """Who is to give way to whom. `queue` has those that found no room, in its order.

    state: all that is used, and all that is kept for somebody.
    """
    if not rules.enabled or not queue:
        return Requests()
    running = [replace(gang, leaving=True) if gang.ends_in_seconds <= gang.grace_seconds else gang for gang in running]
    round_ = _Round(state, running, rules, Guaranteed(guarantees, state.table, running))
    requests: list[Request] = []
    for wanting in queue[:LOOKED_AT]:
        request = round_.ask_for(wanting)
        if request is not None:
            requests.append(request)
        if len(requests) == ASKED_FOR_AT_ONCE:
            return Requests(tuple(requests), 0.0)
    return Requests(tuple(requests), round_.look_again_in_seconds)


class _Round:
    """The gangs that may still be asked, and what is free once all have left that leave."""

    def __init__(self, state: Snapshot, running: Sequence[Running], rules: Preemption, guaranteed: Guaranteed) -> None:
        self._then = without(state, [gang for gang in running if gang.leaving])
        self._running = [gang for gang in running if not gang.leaving]
        self._least_seconds = rules.minimum_run_seconds
        self._guaranteed = guaranteed
        self._waited_for: Mask = ~state.table.usable & state.table.usable
        """Nodes that a gang waits for which nobody can make room for: whoever comes after it takes none of them."""
        self.look_again_in_seconds = math.inf

    def ask_for(self, wanting: Wanting) -> Request | None:
        """Who gives way to this gang; None where nobody does, or nobody has to."""
        gang, table = wanting.gang, self._then.table
        covered = self._guaranteed.covers(wanting.namespace, gang)
        eligible = nodes_for(table, gang) & table.usable_by(gang.member.tolerations)
        if not covered and bool((self._waited_for & eligible).any()):
            return None
        victims: tuple[Running, ...] = ()
        room = place(self._then, gang)
        if not isinstance(room, Placement):
            victims = self._victims_for(wanting, covered)
            if not victims:
                self._waited_for |= eligible
                return None
            gone = {(victim.key, victim.rank) for victim in victims}
            self._running = [each for each in self._running if (each.key, each.rank) not in gone]
            self._then = without(self._then, victims)
            room = place(self._then, gang)
            assert isinstance(room, Placement), "those chosen are enough"
        occupy(self._then, gang.member, room.nodes)
        self._guaranteed.take(wanting.namespace, gang)
        if not victims:
            return None
        by_right = not all(victim.low and victim.priority < gang.priority for victim in victims)
        return Request(gang.key, victims, by_right)

    def _victims_for(self, wanting: Wanting, covered: bool) -> tuple[Running, ...]:
        """Of low priority if these are enough; else, for what a team is guaranteed, of higher ones too."""
        may = [gang for gang in self._running if self._may_ask(wanting, gang, covered)]
        old_enough = [gang for gang in may if gang.ran_seconds >= self._least_seconds]  # below 0: not yet
        for gang in _sizes(wanting.gang):
            for highest in sorted({each.priority for each in old_enough}):
                among = [each for each in old_enough if each.priority <= highest]
                victims = choose_victims(self._then, gang, among)
                if victims:
                    helps_in = max(victim.grace_seconds for victim in victims)
                    return victims if helps_in < wanting.starts_in_seconds else ()
        young = [left for gang in may if gang.ran_seconds >= 0 and (left := self._least_seconds - gang.ran_seconds) > 0]
        self.look_again_in_seconds = min([self.look_again_in_seconds, *young])
        return ()

    def _may_ask(self, wanting: Wanting, gang: Running, covered: bool) -> bool:
        theirs = gang.namespace != wanting.namespace
        if theirs and not self._guaranteed.is_borrowed(gang):
            return False
        return (gang.low and gang.priority < wanting.gang.priority) or (covered and theirs)


def _sizes(gang: GangRequest) -> Iterator[GangRequest]:
    """The gang; one that may start with fewer members, with ever fewer of them, or with the fewest if it can grow."""
    members = gang.least if gang.grows else len(gang.ranks)
    while members > gang.least:
        yield replace(gang.fitting(members), fewest=None)
        members = max(gang.least, members // 2)
    yield replace(gang.fitting(members), fewest=None)
