"""The queue's order: who is looked at first when nodes are free.

Priority first. Within it, by default, time waited is measured in the run's own expected length: a run of five minutes
that has waited for ten is worse off than one of a day that has waited for an hour. Size weighs for a run, since large
gangs find nodes least easily, and what its user and team had lately weighs against it. Whoever waited longest of all
comes first once that is longer than a bound, so that nobody waits for ever; the bound follows the backlog, so that a
cluster that is asked for more than it has, for good, does not end as first come, first served. It follows it for a week
at most: limits say far more than most runs take, and a backlog that nobody has would keep large gangs waiting for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kajitori.core.policy.formula import Values
from kajitori.core.policy.queue import OrderRules
from kajitori.core.queue.waiting import WaitingRun
from kajitori.core.words.names import is_nobodys


@dataclass(frozen=True, slots=True)
class Place:
    """One place in the queue, with the numbers that put it there."""

    position: int
    """1 is first."""
    of: int
    key: str
    waited_seconds: float
    expected_seconds: float
    size: float
    user_share: float
    team_share: float
    """Of the cluster that the user and the team had lately: 0 to 1."""
    score: float
    """Higher is first; what it is made of depends on the order."""
    overdue: bool
    """Has waited longest, and longer than the bound: first, whatever its score."""
    bound_seconds: float


class Shares(Protocol):
    """Which part of the cluster each account had lately, wherever that is known from."""

    def share(self, account: str, at: float) -> float:
        """The decayed average of what the account had, at that time: 0 to 1."""
        ...


class Ledger:
    """How much each account had lately: its decayed average, in which what lies one half-life back counts half.

    Amounts may be in any unit; parts of the cluster, where it is used as `Shares`. An account that has had all of the
    cluster for ever stands at 1 then. Changes may be told in any order, and taken back by telling their opposite.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._decay = math.log(2) / half_life_seconds
        self._accounts: dict[str, tuple[float, float, float]] = {}
        """By account: the average, when it was so, and the part that the account has had since."""

    def change(self, account: str, by: float, at: float) -> None:
        """From `at` on the account has so much more, or less."""
        average, since, rate = self._accounts.get(account, (0.0, at, 0.0))
        if at > since:
            average, since = self.share(account, at), at
        else:  # it was so for a while already
            average -= by * math.expm1(-self._decay * (since - at))
        rate += by
        self._accounts[account] = (average, since, rate if abs(rate) > 1e-9 else 0.0)

    def share(self, account: str, at: float) -> float:
        """The decayed average of what the account had, at that time."""
        known = self._accounts.get(account)
        if known is None:
            return 0.0
        average, since, rate = known
        return rate + (average - rate) * math.exp(-self._decay * max(0.0, at - since))


class DominantShares:
    """Shares of what the cluster has of the resource that an account had most of.

    Amounts are those of `AMOUNTS`; so are `totals`, what the cluster has of each now.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self.totals: Sequence[float] = (0.0,) * len(AMOUNTS)
        self._ledgers = tuple(Ledger(half_life_seconds) for _ in AMOUNTS)

    def change(self, account: str, amounts: Sequence[float], times: int, at: float) -> None:
        """From `at` on the account has so much more, or less with `times=-1`."""
        for ledger, amount in zip(self._ledgers, amounts, strict=True):
            if amount:
                ledger.change(account, times * amount, at)

    def share(self, account: str, at: float) -> float:
        """The decayed average of what the account had, at that time: 0 to 1."""
        had = tuple(ledger.share(account, at) for ledger in self._ledgers)
        return dominant_part(had, self.totals)


AMOUNTS = ("cpu", "memory", "gpu", "nodes")
"""Millicores, bytes, GPUs, and whole nodes: who shares a node with nobody else has all of it."""


def dominant_part(amounts: Sequence[float], totals: Sequence[float]) -> float:
    """The largest part that these are of what there is: 0 to 1."""
    largest = 0.0
    for amount, total in zip(amounts, totals, strict=True):  # for each that waits, in each cycle
        if amount > 0:
            part = amount / total if total > amount else 1.0
            largest = max(largest, part)
    return largest


@dataclass(frozen=True)
class Ranking:
    """All that wait, in order."""

    queue: Sequence[WaitingRun]
    now: float
    order: list[int]
    """Indices into `queue`, whoever is first first."""
    user_shares: Values
    team_shares: Values
    scores: Values
    overdue: npt.NDArray[np.bool_]
    bound_seconds: float

    def ordered(self) -> list[WaitingRun]:
        """Return the queue in order; overdue runs are marked as such."""
        overdue = set(np.flatnonzero(self.overdue).tolist())
        return [replace(self.queue[i], overdue=True) if i in overdue else self.queue[i] for i in self.order]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {self.queue[index].gang.key: position for position, index in enumerate(self.order)}

    def place(self, key: str) -> Place:
        """The place of one run, with its numbers. Raises KeyError where it does not wait."""
        position = self._positions[key]
        index = self.order[position]
        run = self.queue[index]
        return Place(
            position=position + 1,
            of=len(self.order),
            key=key,
            waited_seconds=max(0.0, self.now - run.queued_at),
            expected_seconds=run.length_seconds,
            size=run.size,
            user_share=float(self.user_shares[index]),
            team_share=float(self.team_shares[index]),
            score=float(self.scores[index]),
            overdue=bool(self.overdue[index]),
            bound_seconds=self.bound_seconds,
        )


def rank(queue: Sequence[WaitingRun], users: Shares, teams: Shares, rules: OrderRules, now: float) -> Ranking:
    """The order of all that wait. Among equals those come first that stand first in `queue`."""
    waited = np.maximum(now - np.array([c.queued_at for c in queue], dtype=np.float64), 0.0)
    expected = np.array([c.length_seconds for c in queue], dtype=np.float64)
    size = np.array([c.size for c in queue], dtype=np.float64)
    priority = np.array([c.gang.priority for c in queue], dtype=np.int64)
    user_shares = _shares([c.user for c in queue], users, now)
    team_shares = _shares([c.team for c in queue], teams, now)
    # Leaving the owner out must not pay: such a run has at least the share of its whole namespace.
    unowned = np.array([is_nobodys(c.user) for c in queue], dtype=bool)
    user_shares = np.where(unowned, np.maximum(user_shares, team_shares), user_shares)

    backlog_seconds = float((expected * size).sum())
    bound = rules.bound_seconds + min(rules.backlog_factor * backlog_seconds, rules.most_backlog_seconds)
    overdue = np.zeros(len(queue), dtype=bool)
    if rules.order == "fifo":
        scores = waited
    else:
        weights = 1.0 / ((1.0 + user_shares / rules.fair_share) * (1.0 + team_shares / rules.fair_share))
        if rules.order == "share":
            scores = weights
        elif rules.formula is not None:
            scores = rules.formula(
                waited=waited, expected=expected, size=size, userShare=user_shares, teamShare=team_shares
            )
        else:
            scores = (waited / np.maximum(expected, 1.0)) ** rules.exponent * size * weights
        for each in np.unique(priority):
            equals = np.flatnonzero(priority == each)
            longest = equals[np.argmax(waited[equals])]
            overdue[longest] = waited[longest] > bound
    order = np.lexsort((-waited, -scores, ~overdue, -priority)).tolist()
    return Ranking(queue, now, order, user_shares, team_shares, scores, overdue, bound)


def _shares(accounts: Sequence[str], shares: Shares, now: float) -> Values:
    """The share of each, looked up once an account."""
    known = {account: shares.share(account, now) for account in set(accounts)}
    return np.array([known[account] for account in accounts], dtype=np.float64)
