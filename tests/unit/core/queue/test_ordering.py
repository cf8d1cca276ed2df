"""The queue's order: which run comes first, and that every run's wait is bounded."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.policy.queue.formula import Formula
from kajitori.core.policy.queue.order import DAY_SECONDS, OrderRules
from kajitori.core.queue.ordering import DecayedUsage, Ranking, rank
from kajitori.core.queue.waiting import WaitingRun

HOUR = 3600.0
NOW = 100 * DAY_SECONDS


def waits(key: str, waited: float, *, priority: int = 0, **more: float | str) -> WaitingRun:
    gang = GangRequest(key, MemberRequest(1000, 1), (0,), priority=priority)
    plain = WaitingRun(gang, HOUR, user="ann", team="vision", queued_at=NOW - waited, size=0.1)
    return replace(plain, **more)  # type: ignore[arg-type]


def ranked(*queue: WaitingRun, rules: OrderRules | None = None, users: DecayedUsage | None = None) -> Ranking:
    rules = rules or OrderRules()
    nobody = DecayedUsage(rules.half_life_seconds)
    return rank(queue, users or nobody, nobody, rules, NOW)


def keys(ranking: Ranking) -> list[str]:
    return [ranking.queue[index].key for index in ranking.order]


def test_priority_comes_before_everything() -> None:
    late = waits("late", 90 * DAY_SECONDS)
    assert keys(ranked(late, waits("urgent", 0, priority=100), waits("low", 50, priority=-1))) == [
        "urgent",
        "late",
        "low",
    ]


def test_waiting_is_measured_in_the_runs_own_length() -> None:
    """A run of five minutes that has waited for one hour comes before a run of a day that has waited for three."""
    assert (
        keys(ranked(waits("day", 3 * HOUR, expected_seconds=DAY_SECONDS), waits("short", HOUR, expected_seconds=300)))[
            0
        ]
        == "short"
    )


def test_the_larger_of_two_equal_runs_comes_first() -> None:
    assert keys(ranked(waits("small", HOUR), waits("large", HOUR, size=0.9))) == ["large", "small"]


def test_a_large_recent_share_comes_after_a_small_one() -> None:
    """Old usage decays: after ten half-lives it counts less than a minute of waiting."""
    users = DecayedUsage(7 * DAY_SECONDS)
    users.change("ann", 0.5, NOW - 3 * DAY_SECONDS)
    users.change("ann", -0.5, NOW)
    queue = (waits("ann's", HOUR), waits("bob's", HOUR, user="bob"))
    assert keys(ranked(*queue, users=users)) == ["bob's", "ann's"]
    later = [replace(waiting, queued_at=waiting.queued_at + 70 * DAY_SECONDS) for waiting in queue]
    later[0] = replace(later[0], queued_at=later[0].queued_at - 60)
    answer = rank(later, users, DecayedUsage(1), OrderRules(), NOW + 70 * DAY_SECONDS)
    assert keys(answer) == ["ann's", "bob's"]


def test_omitting_the_owner_gains_nothing() -> None:
    """A run without an owner has the share of its whole namespace, so at least that of its submitter."""
    users, teams = DecayedUsage(7 * DAY_SECONDS), DecayedUsage(7 * DAY_SECONDS)
    for ledger, account in ((users, "ann"), (teams, "vision")):
        ledger.change(account, 0.5, NOW - 3 * DAY_SECONDS)
    queue = (waits("ann's", HOUR), waits("nobody's", HOUR, user="vision/"), waits("bob's", HOUR, user="bob"))
    ranking = rank(queue, users, teams, OrderRules(), NOW)
    assert keys(ranking) == ["bob's", "ann's", "nobody's"]
    assert ranking.user_shares[0] == ranking.user_shares[1] > ranking.user_shares[2] == 0


def test_the_run_that_waited_longest_past_the_bound_is_first() -> None:
    """Only this one: the others keep their places, so that overload does not turn the order into first come, first
    served."""
    longest = waits("longest", 30 * DAY_SECONDS, expected_seconds=20 * DAY_SECONDS, size=0.01)
    longer = waits("longer", 29 * DAY_SECONDS, expected_seconds=20 * DAY_SECONDS, size=0.01)
    short = waits("short", 20 * DAY_SECONDS, expected_seconds=60)
    ranking = ranked(short, longer, longest)
    assert keys(ranking) == ["longest", "short", "longer"]
    assert [ranking.place(key).overdue for key in ("longest", "short", "longer")] == [True, False, False]


def test_the_bound_follows_the_backlog() -> None:
    """If ten days of work are queued, a wait of three days is within the bound."""
    old = waits("old", 3 * DAY_SECONDS, expected_seconds=9 * DAY_SECONDS, size=0.01)
    assert ranked(old).place("old").overdue
    many = [waits(f"w{i}", HOUR, expected_seconds=DAY_SECONDS, size=1.0) for i in range(10)]
    place = ranked(old, *many).place("old")
    assert not place.overdue
    assert place.bound_seconds == pytest.approx(2 * DAY_SECONDS + 0.5 * (10 * DAY_SECONDS + 0.09 * DAY_SECONDS))


def test_the_bound_follows_the_backlog_for_a_week_at_most() -> None:
    """A hundred gangs of the whole cluster with a time limit of a day look like a backlog of a hundred days, even if
    each takes a minute. The bound does not become fifty days."""
    many = [waits(f"w{i}", 10 * DAY_SECONDS - i, expected_seconds=DAY_SECONDS, size=1.0) for i in range(100)]
    steady = [waits(f"s{i}", 2 * HOUR, expected_seconds=60) for i in range(100)]
    place = ranked(*many, *steady).place("w0")
    assert place.overdue
    assert place.position == 1
    assert place.bound_seconds == pytest.approx(9 * DAY_SECONDS)


def test_first_come_first_served() -> None:
    queue = (waits("new", 1, size=0.9), waits("old", 2, expected_seconds=1e6), waits("high", 0, priority=1))
    assert keys(ranked(*queue, rules=OrderRules(order="fifo"))) == ["high", "old", "new"]


def test_share_first_then_age() -> None:
    users = DecayedUsage(7 * DAY_SECONDS)
    users.change("ann", 0.5, NOW - DAY_SECONDS)
    queue = (waits("ann's", 9 * HOUR), waits("new", 1, user="bob"), waits("old", 2, user="bob"))
    assert keys(ranked(*queue, rules=OrderRules(order="share"), users=users)) == ["old", "new", "ann's"]


def test_a_formula_replaces_the_score() -> None:
    """The bound still applies: the run that has waited longest past it is first."""
    rules = OrderRules(order="formula", formula=Formula("-expected"))
    queue = (waits("long", 9 * HOUR, expected_seconds=9), waits("short", 1, expected_seconds=3))
    assert keys(ranked(*queue, rules=rules)) == ["short", "long"]
    assert ranked(*queue, rules=rules).place("long").score == -9
    old = waits("old", 9 * DAY_SECONDS, expected_seconds=99)
    assert keys(ranked(*queue, old, rules=rules)) == ["old", "short", "long"]


def test_a_place_carries_its_numbers() -> None:
    users = DecayedUsage(7 * DAY_SECONDS)
    users.change("ann", 0.25, 0.0)
    place = ranked(waits("one", 2 * HOUR, expected_seconds=HOUR, size=0.5), users=users).place("one")
    assert (place.position, place.of, place.waited_seconds, place.expected_seconds) == (1, 1, 2 * HOUR, HOUR)
    assert place.user_share == pytest.approx(0.25, rel=1e-4)
    assert place.score == pytest.approx(2**3 * 0.5 / (1 + place.user_share / 0.1))


def test_equal_runs_keep_their_given_order() -> None:
    assert keys(ranked(waits("a", 1), waits("b", 1), waits("c", 1))) == ["a", "b", "c"]


def test_a_share_of_everything_is_one_and_halves_in_a_week() -> None:
    ledger = DecayedUsage(7 * DAY_SECONDS)
    ledger.change("ann", 1.0, 0.0)
    assert ledger.share("ann", 7 * DAY_SECONDS) == pytest.approx(0.5)
    assert ledger.share("ann", 700 * DAY_SECONDS) == pytest.approx(1.0)
    ledger.change("ann", -1.0, 700 * DAY_SECONDS)
    assert ledger.share("ann", 707 * DAY_SECONDS) == pytest.approx(0.5)


uses_of_a_cluster = st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 1)), max_size=12)


@given(uses_of_a_cluster, uses_of_a_cluster, st.floats(100, 200), st.randoms())
def test_the_ledger_is_the_integral(
    uses: list[tuple[float, float, float]], taken_back: list[tuple[float, float, float]], now: float, lot: Random
) -> None:
    """For overlapping uses in any order, a share is the sum of all uses, each decayed from its own end. A use that was
    added and taken back leaves nothing."""
    ledger = DecayedUsage(7.0)
    changes = [(start, part) for start, _, part in uses] + [(s + length, -part) for s, length, part in uses]
    for start, length, part in taken_back:
        changes += [(start, part), (start + length, -part), (start, -part), (start + length, part)]
    lot.shuffle(changes)
    for at, by in changes:
        ledger.change("ann", by, at)
    decay = math.log(2) / 7.0
    whole = sum(
        part * (math.exp(-decay * (now - start - length)) - math.exp(-decay * (now - start)))
        for start, length, part in uses
    )
    assert ledger.share("ann", now) == pytest.approx(whole, abs=1e-6)


candidates = st.builds(
    waits,
    st.uuids().map(str),
    st.floats(0, 1e7),
    expected_seconds=st.floats(1, 1e7),
    size=st.floats(1e-6, 1),
    priority=st.sampled_from([-100, 0, 100]),
    user=st.sampled_from(["ann", "bob"]),
)


@given(st.lists(candidates, min_size=1, max_size=20), st.sampled_from(["length", "fifo", "share"]))
def test_every_run_has_one_place_and_priority_is_never_passed(queue: list[WaitingRun], order: str) -> None:
    ranking = ranked(*queue, rules=OrderRules(order=order))  # type: ignore[arg-type]
    assert sorted(ranking.order) == list(range(len(queue)))
    priorities = [queue[index].gang.priority for index in ranking.order]
    assert priorities == sorted(priorities, reverse=True)
    assert [ranking.place(queue[index].key).position for index in ranking.order] == list(range(1, len(queue) + 1))
    for priority in set(priorities):
        overdue = [c for i, c in enumerate(queue) if ranking.overdue[i] and c.gang.priority == priority]
        assert len(overdue) <= 1
