"""The queue's order: which run is looked at first when nodes are free.

Priority comes first. Within a priority, by default, waiting time is measured in the run's own expected length: a run of
five minutes that has waited for ten is worse off than a run of a day that has waited for an hour. A larger size moves a
run forward, since large gangs find nodes least easily; recent usage by its user and team moves it back. The run that
has waited longest of all comes first once it has waited longer than a bound, so that no run waits for ever. The bound
grows with the backlog: else a cluster with permanently more demand than capacity would end as first come, first served.
It grows by a week at most, because time limits are far longer than most runs take, and a backlog that exists only on
paper would keep large gangs waiting for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kajitori.core.naming.names import is_ownerless
from kajitori.core.policy.queue.formula import Values
from kajitori.core.policy.queue.order import OrderRules
from kajitori.core.queue.waiting import WaitingRun


@dataclass(frozen=True, slots=True)
class Place:
    """A run's place in the queue, with the numbers that decide it."""

    position: int
    """1 is first."""
    of: int
    """Number of waiting runs."""
    key: str
    """`namespace/name` of the run."""
    waited_seconds: float
    expected_seconds: float
    size: float
    user_share: float
    team_share: float
    """Parts of the cluster that the user and the team used recently: 0 to 1."""
    score: float
    """The run with the highest score comes first. The order that policy chose decides how it is computed."""
    overdue: bool
    """It has waited longest, and longer than the bound: it comes first, whatever its score."""
    bound_seconds: float


class Shares(Protocol):
    """The part of the cluster that each account used recently."""

    def share(self, account: str, at: float) -> float:
        """Return the decayed average of the account's usage, at that time: 0 to 1."""
        ...


class DecayedUsage:
    """The recent usage of each account, as a decayed average: usage one half-life ago counts half.

    Amounts may be in any unit; used as `Shares`, they are parts of the cluster, and an account that has had all of the
    cluster for ever is at 1. Changes may be added in any order, and are undone by adding their opposite.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._decay = math.log(2) / half_life_seconds
        self._accounts: dict[str, tuple[float, float, float]] = {}
        """By account: the average, the time of that average, and the amount that the account has had since."""

    def change(self, account: str, by: float, at: float) -> None:
        """Count this much more (or less, if negative) for the account from `at` on."""
        average, since, rate = self._accounts.get(account, (0.0, at, 0.0))
        if at > since:
            average, since = self.share(account, at), at
        else:  # the change began before the time of the average
            average -= by * math.expm1(-self._decay * (since - at))
        rate += by
        self._accounts[account] = (average, since, rate if abs(rate) > 1e-9 else 0.0)

    def share(self, account: str, at: float) -> float:
        """Return the decayed average of the account's usage, at that time."""
        known = self._accounts.get(account)
        if known is None:
            return 0.0
        average, since, rate = known
        return rate + (average - rate) * math.exp(-self._decay * max(0.0, at - since))


class DominantShares:
    """The part of the cluster that each account had, of the resource that it had most of.

    Amounts are those of `AMOUNTS`; so are `totals`, what the cluster has of each now.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self.totals: Sequence[float] = (0.0,) * len(AMOUNTS)
        self._ledgers = tuple(DecayedUsage(half_life_seconds) for _ in AMOUNTS)

    def change(self, account: str, amounts: Sequence[float], times: int, at: float) -> None:
        """Let the account have these amounts more from `at` on, or less with `times=-1`."""
        for ledger, amount in zip(self._ledgers, amounts, strict=True):
            if amount:
                ledger.change(account, times * amount, at)

    def share(self, account: str, at: float) -> float:
        """Return the decayed average of the account's usage, at that time: 0 to 1."""
        had = tuple(ledger.share(account, at) for ledger in self._ledgers)
        return dominant_part(had, self.totals)


AMOUNTS = ("cpu", "memory", "gpu", "nodes")
"""Millicores, bytes, GPUs, and whole nodes: a run that shares a node with no other run has all of it."""


def dominant_part(amounts: Sequence[float], totals: Sequence[float]) -> float:
    """Return the largest part that these amounts are of the totals: 0 to 1."""
    largest = 0.0
    for amount, total in zip(amounts, totals, strict=True):  # called for each waiting run
        if amount > 0:
            part = amount / total if total > amount else 1.0
            largest = max(largest, part)
    return largest


@dataclass(frozen=True)
class Ranking:
    """All waiting runs, in order."""

    queue: Sequence[WaitingRun]
    now: float
    order: list[int]
    """Indices into `queue`, the first run first."""
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
        """Return the place of one run, with its numbers. Raises KeyError if it does not wait."""
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
    """Return the order of all waiting runs. Among equals the order of `queue` decides."""
    waited = np.maximum(now - np.array([run.queued_at for run in queue], dtype=np.float64), 0.0)
    expected = np.array(
        [run.expected_seconds if run.work_seconds is None else run.work_seconds for run in queue], dtype=np.float64
    )  # `length_seconds`, without a call for each run
    size = np.array([run.size for run in queue], dtype=np.float64)
    priority = np.array([run.gang.priority for run in queue], dtype=np.int64)
    user_shares = _share_of_each([run.user for run in queue], users, now)
    team_shares = _share_of_each([run.team for run in queue], teams, now)
    # A user must gain nothing by leaving out the owner: such a run has at least the share of its whole namespace.
    unowned = np.array([is_ownerless(c.user) for c in queue], dtype=bool)
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
        for level in np.unique(priority):
            equals = np.flatnonzero(priority == level)
            longest = equals[np.argmax(waited[equals])]
            overdue[longest] = waited[longest] > bound
    order = np.lexsort((-waited, -scores, ~overdue, -priority)).tolist()
    return Ranking(queue, now, order, user_shares, team_shares, scores, overdue, bound)


def _share_of_each(accounts: Sequence[str], shares: Shares, now: float) -> Values:
    """Return the share of each account, looked up once per account."""
    known = {account: shares.share(account, now) for account in set(accounts)}
    return np.array([known[account] for account in accounts], dtype=np.float64)
