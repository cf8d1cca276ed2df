"""Lost time of runs: slices of segments, sums of runs and days, and the best interval of checkpoints."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kajitori.core.usage.daily import DAY, TimedPart, TimeLevel, daily_times
from kajitori.core.usage.lost_time.checkpoints import best_interval, checkpoints_of
from kajitori.core.usage.lost_time.run_time import time_of_run
from kajitori.core.usage.lost_time.sentences import describe
from kajitori.core.usage.lost_time.slices import (
    NO_CHECKPOINT,
    NOT_DECLARED,
    NOTHING_TO_LOSE,
    Category,
    Held,
    Kind,
    Mark,
    Slice,
    divide,
    is_interruption,
)

CAUSES = ("", "NodeLost", "ProgramFailed", "Preempted", "StoppedByUser")
MAX = 4000


@st.composite
def parts(draw: st.DrawFn) -> Held:
    since, until = draw(st.integers(0, MAX)), draw(st.integers(0, MAX))
    return Held(
        attempt=draw(st.integers(1, 3)),
        members=draw(st.integers(1, 4)),
        gpus=draw(st.integers(0, 8)),
        since=since,
        until=until,
        started=draw(st.none() | st.integers(0, MAX)),
        ended=draw(st.none() | st.integers(0, MAX)),
        cause=draw(st.sampled_from(CAUSES)),
        after=draw(st.sampled_from(CAUSES)),
        node=draw(st.sampled_from(["", "gpu-1"])),
        saves_every=draw(st.sampled_from([NOTHING_TO_LOSE, NO_CHECKPOINT, NOT_DECLARED, 600])),
        is_known=draw(st.booleans()),
    )


marks = st.builds(
    lambda attempt, kind, since, length: Mark(attempt, kind.value, since, since + length),
    st.integers(1, 3),
    st.sampled_from(Kind),
    st.integers(0, MAX),
    st.integers(0, MAX),
)


@given(parts(), st.lists(marks, max_size=6))
def test_slices_cover_the_time_of_a_part_and_do_not_overlap(held: Held, known: list[Mark]) -> None:
    slices = divide(held, known)
    assert sum(each.seconds for each in slices) * held.members == held.member_seconds
    assert all(each.since < each.until for each in slices)
    assert all(before.until == after.since for before, after in pairwise(slices))
    if slices:
        assert (slices[0].since, slices[-1].until) == (held.since, held.until)


@given(st.lists(parts(), max_size=6), st.lists(marks, max_size=6), st.integers(0, MAX))
def test_categories_of_a_run_add_up_to_its_time_and_its_usage(held: list[Held], known: list[Mark], rested: int) -> None:
    """The whole time of the run is in one category each, and the GPU-seconds are those of the usage ledger."""
    found = time_of_run([(part, divide(part, known)) for part in held], 0, MAX, rested=rested)
    assert sum(found.seconds.values()) == found.whole == MAX - found.rested
    assert min(found.seconds.values()) >= 0
    assert sum(found.gpu_seconds.values()) == sum(part.member_seconds * part.gpus for part in held)
    assert sum(found.member_seconds.values()) == sum(part.member_seconds for part in held)
    assert sum(cause.gpu_seconds for cause in found.causes.values()) <= sum(found.gpu_seconds.values())


@given(st.lists(parts(), max_size=6), st.lists(marks, max_size=6), st.integers(0, 10 * DAY))
def test_sums_of_days_are_those_of_the_segments(held: list[Held], known: list[Mark], later: int) -> None:
    """Also for segments over midnight, in each level that has all of them."""
    moved = [
        Held(**{name: getattr(part, name) for name in Held.__struct_fields__} | times)
        for part in held
        for times in [{"since": part.since + later, "until": part.until + later}]
    ]
    divided = [(TimedPart(namespace="vision", owner="ana", held=part, counts=1), divide(part, known)) for part in moved]
    sums = daily_times(divided)
    for level in (TimeLevel.TEAM, TimeLevel.OWNER):
        own = [amount for key, amount in sums.items() if key.level == level.value]
        assert sum(amount.member_seconds for amount in own) == sum(part.member_seconds for part in moved)
        assert sum(amount.gpu_seconds for amount in own) == sum(part.member_seconds * part.gpus for part in moved)
        assert sum(amount.times for amount in own) == sum(is_interruption(part.cause) for part in moved)


def held(**changes: object) -> Held:
    """Return a gang of two members with eight GPUs each, given nodes at 0, running from 100, broken at 1000."""
    fields: dict[str, object] = {"attempt": 1, "members": 2, "gpus": 8, "since": 0, "until": 1010}
    fields |= {"started": 100, "ended": 1000, "cause": "NodeLost", "node": "gpu-7", "saves_every": NO_CHECKPOINT}
    return Held(**fields | changes)  # type: ignore[arg-type]


def told(slices: list[Slice]) -> list[tuple[str, int]]:
    return [(each.category.value, each.seconds) for each in slices]


START, END = ("starting", 100), ("restarting", 10)


@pytest.mark.parametrize(
    ("part", "known", "slices"),
    [
        (held(), [], [START, ("lost", 900), END]),
        (held(saves_every=NOT_DECLARED), [], [START, ("unclear", 900), END]),
        (held(saves_every=400), [], [START, ("productive", 800), ("lost", 100), END]),
        (held(saves_every=NOTHING_TO_LOSE), [], [START, ("productive", 900), END]),
        (held(cause="StoppedByUser"), [], [START, ("productive", 900), END]),
        (held(cause="", ended=None), [], [START, ("productive", 910)]),
        (held(started=None), [], [("starting", 1010)]),
        (
            held(saves_every=NOT_DECLARED),
            [Mark(1, "saved", 500, 520), Mark(1, "saved", 700, 720)],
            [
                *(START, ("productive", 400), ("saving", 20), ("productive", 180), ("saving", 20)),
                *(("lost", 280), END),
            ],
        ),
        (held(), [Mark(1, "saved", 1001, 1005)], [START, ("productive", 900), END]),
        (held(saves_every=NOT_DECLARED), [Mark(2, "saved", 1500, 1520)], [START, ("lost", 900), END]),
        (
            held(),
            [Mark(2, "saved", 2000, 2020), Mark(2, "saved", 2220, 2240)],
            [START, ("unclear", 900), END],
        ),
        (held(), [Mark(1, "hung", 600, 2000)], [START, ("lost", 500), ("hung", 400), END]),
        (
            held(cause="", ended=None),
            [Mark(1, "idle", 50, 300), Mark(1, "hung", 200, 250)],
            [START, ("idle", 100), ("hung", 50), ("idle", 50), ("productive", 710)],
        ),
        (held(is_known=False), [], [("unclear", 1010)]),
    ],
    ids=[
        *("without a checkpoint all is lost", "nothing known of checkpoints", "declared interval", "service"),
        *("its user stopped it", "it goes on", "it never ran", "saved twice"),
        *(
            "saved while it was ended",
            "this attempt saved nothing",
            "it should have saved",
            "hung to its end",
            "hung while idle",
            "old record",
        ),
    ],
)
def test_a_part_is_divided_by_what_is_known_of_its_attempt(
    part: Held, known: list[Mark], slices: list[tuple[str, int]]
) -> None:
    assert told(divide(part, known)) == slices


def test_what_a_cause_cost_includes_the_start_of_the_next_attempt() -> None:
    """A lost node costs the work since the checkpoint, the end of the others and the start of the next attempt."""
    again = held(attempt=2, since=1040, until=3000, started=1100, ended=None, cause="", after="NodeLost")
    known = [Mark(1, "saved", 880, 900)]
    found = time_of_run([(part, divide(part, known)) for part in (held(), again)], -50, 3000)
    assert found.seconds == {
        Category.QUEUED: 50 + 30,
        Category.STARTING: 100 + 60,
        Category.PRODUCTIVE: 780 + 1900,
        Category.SAVING: 20,
        Category.LOST: 100,
        Category.RESTARTING: 10,
    }
    assert found.ratio == pytest.approx(2680 / 3050)
    assert found.while_held == pytest.approx(2680 / (1010 + 1960))
    (lost,) = found.causes.items()
    assert (lost[0], lost[1].times, lost[1].gpu_seconds) == ("NodeLost", 1, (100 + 10 + 60) * 16)


def test_the_end_of_a_gang_counts_once_however_many_segments_it_has() -> None:
    both = [held(), held(until=1005)]
    assert time_of_run([(part, divide(part, [])) for part in both], 0, 1010).causes["NodeLost"].times == 1


def test_a_run_that_was_never_given_nodes_was_queued() -> None:
    found = time_of_run([], 10, 40)
    assert (found.seconds, found.ratio, found.while_held) == ({Category.QUEUED: 30}, 0.0, None)
    assert time_of_run([], 10, 10).ratio is None


def test_only_the_time_that_is_asked_about_counts() -> None:
    """The last part of a run may reach beyond it, because two machines have two clocks."""
    part = held(until=1005)
    found = time_of_run([(part, divide(part, []))], 100, 600)
    assert sum(found.seconds.values()) == 500


def test_a_run_without_productive_time_has_a_ratio_of_zero() -> None:
    part = held(started=None)
    found = time_of_run([(part, divide(part, []))], 0, 1000)
    assert Category.PRODUCTIVE not in found.member_seconds
    assert found.while_held == 0.0


def test_parts_that_were_summed_up_are_no_failures() -> None:
    """It is not known when they began and ended."""
    summed = held(attempt=2, since=2000, until=3000, started=2000, ended=3000, loose_seconds=500)
    assert checkpoints_of([held(), summed], []).failures == 1


def test_checkpoints_are_measured_from_marks_and_ends() -> None:
    """Preemptions are announced, so they are no failures of Young's and Daly's formula."""
    known = [Mark(1, "saved", at, at + 20) for at in (300, 620, 940)]
    preempted = held(attempt=2, since=2000, until=3000, started=2000, ended=3000, cause="Preempted")
    found = checkpoints_of([held(), held(until=1005), preempted], known)
    assert (found.count, found.last, found.every_seconds, found.cost_seconds) == (3, 960, 300, 20)
    assert (found.failures, found.between_failures) == (1, 1900)
    assert found.best_seconds == pytest.approx(best_interval(20, 1900))
    assert found.waste(found.best_seconds) < found.waste(5)  # type: ignore[operator]


def test_what_nobody_measured_stays_unknown() -> None:
    """Without checkpoints, or without failures, no interval can be named."""
    assert checkpoints_of([held()], []).best_seconds is None
    found = checkpoints_of([held(cause="", ended=None)], [Mark(1, "saved", 300, 320)])
    assert (found.count, found.cost_seconds, found.best_seconds, found.waste(300)) == (1, 20, None, None)


def words(*parts: Held, known: tuple[Mark, ...] = (), can_save: bool = True) -> str:
    """Return what is told of a run from 0 to 1010, without the sentence about its ratio."""
    found = time_of_run([(part, divide(part, known)) for part in parts], 0, 1010)
    return " ".join(describe(found, checkpoints_of(parts, known), can_save=can_save)[1:])


def test_a_report_says_what_is_missing_for_a_better_interval() -> None:
    known = (Mark(1, "saved", 300, 320), Mark(1, "saved", 620, 640))
    assert "a checkpoint every 2m57s would have cost least" in words(held(), known=known)
    assert "It wrote one every 5m, which costs" in words(held(), known=known)
    assert "lost all of its attempt: 15m" in words(held(), can_save=False)
    assert "not known, or only in part: let rank 0 append" in words(held(saves_every=NOT_DECLARED))
    assert "What a checkpoint costs is not known" in words(held(saves_every=300))
    assert "It had no failure" in words(held(cause="", ended=None), known=known)


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e7))
def test_dalys_interval_costs_no_more_than_its_neighbours(cost: float, between: float) -> None:
    """By Daly's own model of the total time, with restarts left out, as they do not depend on the interval."""
    assume(cost < between / 2)
    best = best_interval(cost, between)

    def total(interval: float) -> float:
        return math.expm1((interval + cost) / between) / interval

    assert best > 0
    assert total(best) <= min(total(best * 1.2), total(best / 1.2)) * 1.0001


def test_only_lost_work_has_a_cause_and_a_node() -> None:
    lost, unclear = divide(held(), []), divide(held(saves_every=NOT_DECLARED), [])
    assert [(each.category.value, each.cause, each.node) for each in (lost[1], unclear[1])] == [
        ("lost", "NodeLost", "gpu-7"),
        ("unclear", "", ""),
    ]


def test_each_category_is_explained() -> None:
    assert all(category.meaning for category in Category)


def test_a_restart_that_a_user_asks_for_is_no_interruption() -> None:
    assert not is_interruption("RestartedByUser")
    assert is_interruption("ProgramFailed")
