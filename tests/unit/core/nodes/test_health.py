"""Nodes that leave the pool, for which reason, and nodes that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.nodes.health import (
    BUSY_RECHECK,
    CONDITION_GONE,
    MEMBERS_FAIL,
    MEMBERS_SLOW,
    NODE_LOST,
    PREFLIGHT_FAILED,
    PREFLIGHT_PASSED,
    UNREACHABLE_FOR,
    BadCondition,
    Failure,
    Signs,
    Trial,
    TrialState,
    Verdict,
    allowed_out,
    examine,
)
from kajitori.core.nodes.trail import KEPT, Entry, TrailEvent, append_entry, new_entry, read_trail, write_trail
from kajitori.core.policy.nodes.health import NodeHealth, Preflight

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=12)
HEALTH = NodeHealth()
PREFLIGHT = Preflight.model_validate({"image": "preflight:1"})
DEADLOCK = BadCondition("KernelDeadlock", NOW - timedelta(minutes=2), "task blocked for more than 120 s")


def look(
    *nodes: Signs,
    failures: Mapping[str, Sequence[Failure]] | None = None,
    health: NodeHealth = HEALTH,
    preflight: Preflight = PREFLIGHT,
    now: datetime = NOW,
) -> Verdict:
    return examine(nodes, failures or {}, health, preflight, now)


def only(verdict: Verdict) -> tuple[TrailEvent, str, str | None]:
    """Return the only change: event, reason, and the taint afterwards."""
    (change,) = verdict.changes
    return change.entry.what, change.entry.reason, change.unhealthy


def failed(run: str, owner: str = "ada", at: datetime = LONG_AGO) -> Failure:
    return Failure(f"team/{run}", owner, at, f"run team/{run}: member 0 failed")


def slowed(run: str, owner: str, cause: str = "") -> Failure:
    return Failure(f"team/{run}", owner, LONG_AGO, f"run team/{run}: slow", slow=cause or f"team/{run}")


def trial(state: TrialState, *evidence: str) -> Trial:
    return Trial("test-n1", state, evidence)


def rules(**fields: Any) -> NodeHealth:
    return NodeHealth.model_validate(fields)


# ---------------------------------------------------------------------------------------------- conditions


def test_a_node_leaves_for_a_condition_that_lasts() -> None:
    verdict = look(Signs("n1", bad=(DEADLOCK,)))
    assert only(verdict) == (TrailEvent.OUT, "KernelDeadlock", "KernelDeadlock")
    assert verdict.changes[0].entry.evidence == ("since 2026-11-21T11:58:00Z: task blocked for more than 120 s",)


def test_a_recent_condition_does_not_remove_a_node() -> None:
    verdict = look(Signs("n1", bad=(replace(DEADLOCK, since=NOW - timedelta(seconds=20)),)))
    assert (verdict.changes, verdict.next_at) == ([], NOW + timedelta(seconds=40))


def test_a_node_returns_when_its_condition_has_been_good_for_long() -> None:
    out = new_entry(LONG_AGO, TrailEvent.OUT, "KernelDeadlock")
    gone = Signs("n1", unhealthy="KernelDeadlock", trail=(out,), cleared_at=NOW - timedelta(minutes=9))
    verdict = look(gone)
    assert (verdict.changes, verdict.next_at) == ([], NOW + timedelta(minutes=1))
    later = look(gone, now=NOW + timedelta(minutes=1))
    assert only(later) == (TrailEvent.BACK, CONDITION_GONE, None)
    assert later.next_at is None
    assert not look(replace(gone, bad=(DEADLOCK,)), now=NOW + timedelta(hours=1)).changes


def test_with_a_test_a_node_returns_only_after_passing_it() -> None:
    out = new_entry(LONG_AGO, TrailEvent.OUT, "KernelDeadlock")
    gone = Signs("n1", unhealthy="KernelDeadlock", trail=(out,), cleared_at=LONG_AGO, testable=True)
    verdict = look(gone)
    assert (verdict.changes, verdict.tests) == ([], ["n1"])
    assert only(look(replace(gone, test=trial(TrialState.PASSED)))) == (TrailEvent.BACK, PREFLIGHT_PASSED, None)


def test_a_node_returned_by_hand_keeps_its_known_condition() -> None:
    back = new_entry(NOW - timedelta(minutes=1), TrailEvent.BACK, by="ada")
    assert not look(Signs("n1", bad=(DEADLOCK,), trail=(back,))).changes
    anew = replace(DEADLOCK, since=NOW - timedelta(seconds=30))
    assert look(Signs("n1", bad=(anew,), trail=(back,)), now=NOW + timedelta(minutes=1)).changes


def test_a_node_tainted_by_hand_is_left_alone() -> None:
    by_hand = Signs("n1", unhealthy="smoke", testable=True)
    verdict = look(by_hand)
    assert (verdict.changes, verdict.tests) == ([], [])
    passed = look(replace(by_hand, test=trial(TrialState.PASSED)))
    assert only(passed) == (TrailEvent.PASSED, "", "smoke")


# ---------------------------------------------------------------------------------------------- members


@pytest.mark.parametrize(
    ("failures", "leaves"),
    [
        ([failed("a"), failed("b", "ben")], True),
        ([failed("a"), failed("a")], False),
        ([failed("a"), failed("b")], False),
        ([failed("a"), failed("b"), failed("c")], True),
        ([failed("a"), failed("b", "ben", NOW - timedelta(hours=30))], False),
        ([failed("a"), failed("b", "")], False),
        ([failed("a", ""), failed("b", "")], False),
        ([failed("a"), failed("b", ""), failed("c", "")], True),
    ],
    ids=[
        "two of two people",
        "one run twice",
        "two of one person",
        "three of one person",
        "one of long ago",
        "one of a person, one of nobody",
        "two of nobody",
        "one of a person, two of nobody",
    ],
)
def test_a_node_leaves_for_runs_that_failed_only_there(failures: list[Failure], leaves: bool) -> None:
    verdict = look(Signs("n1"), Signs("n2"), failures={"n1": failures})
    assert [change.entry.reason for change in verdict.changes] == [MEMBERS_FAIL] * leaves
    if leaves:
        assert verdict.changes[0].entry.evidence[0] == "run team/a: member 0 failed"


@pytest.mark.parametrize(
    ("slow", "slow_runs", "leaves"),
    [
        ([slowed("a", "ada"), slowed("b", "ben")], 2, True),
        ([slowed("a", "ada")], 2, False),
        ([slowed("a", "ada"), slowed("a", "ada", "rank 3")], 2, False),
        ([slowed("a", "ada"), slowed("b", "ada")], 2, False),
        ([slowed("a", "ada"), slowed("b", "ada"), slowed("c", "ada")], 2, True),
        ([slowed("a", "ada", "rank 0"), slowed("b", "ben", "rank 0")], 2, False),
        ([slowed("a", "ada", "rank 0"), slowed("b", "ben", "rank 3")], 2, True),
        ([slowed("a", "ada"), failed("b", "ben")], 2, False),
        ([slowed("a", "ada")], 1, True),
        ([slowed("a", "ada"), slowed("b", "ben")], 0, False),
    ],
)
def test_a_node_leaves_if_it_slows_several_runs(slow: list[Failure], slow_runs: int, leaves: bool) -> None:
    """The same rank may have more work in each run, so it counts once; a lower clock is the node's fault."""
    verdict = look(Signs("n1"), failures={"n1": slow}, health=rules(slowRuns=slow_runs))
    assert [change.entry.reason for change in verdict.changes] == [MEMBERS_SLOW] * leaves


def test_a_node_that_slows_runs_is_tested_once_it_is_free() -> None:
    left = new_entry(NOW - timedelta(seconds=1), TrailEvent.OUT, MEMBERS_SLOW)
    signs = Signs("n1", unhealthy=MEMBERS_SLOW, testable=True, trail=(left,))
    assert look(signs).tests == ["n1"]
    assert look(replace(signs, busy=True)).tests == []
    failed_test = new_entry(NOW, TrailEvent.FAILED, run="test-n1")
    assert look(replace(signs, trail=(left, failed_test))).tests == [], "after a failed test it waits"
    untestable = look(replace(signs, testable=False))
    assert (untestable.tests, untestable.changes) == ([], []), "an operator decides"


def test_failures_before_a_nodes_return_do_not_count() -> None:
    signs = Signs("n1", trail=(new_entry(NOW - timedelta(hours=1), TrailEvent.BACK, by="ada"),))
    assert not look(signs, failures={"n1": [failed("a"), failed("b", "ben")]}).changes
    new = [failed("a", at=NOW), failed("b", "ben", NOW)]
    assert only(look(signs, failures={"n1": new})) == (TrailEvent.OUT, MEMBERS_FAIL, MEMBERS_FAIL)


def test_a_loss_is_recorded_once() -> None:
    signs = Signs("n1", usable=False, silent_since=NOW, holders=("team/bert",))
    verdict = look(signs)
    assert (verdict.changes, verdict.next_at) == ([], NOW + UNREACHABLE_FOR)
    (change,) = look(signs, now=NOW + UNREACHABLE_FOR).changes
    assert (change.entry.what, change.entry.at, change.unhealthy) == (TrailEvent.LOST, "2026-11-21T12:00:00Z", None)
    assert not look(replace(signs, trail=(change.entry,)), now=NOW + UNREACHABLE_FOR).changes
    assert not look(replace(signs, holders=()), now=NOW + UNREACHABLE_FOR).changes, "nobody was there"


def test_many_nodes_unreachable_at_once_are_not_blamed() -> None:
    rack = [Signs(f"n{i}", silent_since=LONG_AGO, holders=("team/bert",)) for i in range(3)]
    assert not look(*rack, *(Signs(f"m{i}") for i in range(17))).changes


def test_a_node_leaves_after_repeated_losses() -> None:
    trail = tuple(
        new_entry(NOW - timedelta(hours=hours), TrailEvent.LOST, evidence=["team/bert"]) for hours in (9, 5, 1)
    )
    assert only(look(Signs("n1", trail=trail))) == (TrailEvent.OUT, NODE_LOST, NODE_LOST)
    assert not look(Signs("n1", trail=trail[:2])).changes
    back = new_entry(NOW - timedelta(hours=2), TrailEvent.BACK, by="ada")
    assert not look(Signs("n1", trail=(*trail[:2], back, trail[2]))).changes


# ---------------------------------------------------------------------------------------------- tests


def test_a_new_node_is_tested_before_it_takes_work() -> None:
    new = Signs("n1", awaits_test=True, testable=True)
    assert look(new).tests == ["n1"]
    assert not look(replace(new, usable=False)).tests
    assert not look(replace(new, test=trial(TrialState.GOES_ON))).tests
    (passed,) = look(replace(new, test=trial(TrialState.PASSED))).changes
    assert (passed.entry.what, passed.awaits_test, passed.unhealthy) == (TrailEvent.PASSED, False, None)
    (out,) = look(replace(new, test=trial(TrialState.FAILED, "exit code 1", "7 GPUs of 8"))).changes
    assert (out.entry.what, out.awaits_test, out.unhealthy) == (TrailEvent.OUT, False, PREFLIGHT_FAILED)
    assert (out.entry.evidence, out.entry.run) == (("exit code 1", "7 GPUs of 8"), "test-n1")


def test_a_test_result_is_recorded_once() -> None:
    out = new_entry(NOW, TrailEvent.OUT, PREFLIGHT_FAILED, run="test-n1")
    signs = Signs("n1", unhealthy=PREFLIGHT_FAILED, testable=True, trail=(out,), test=trial(TrialState.FAILED))
    verdict = look(signs)
    assert (verdict.changes, verdict.tests, verdict.next_at) == ([], [], NOW + timedelta(hours=1))


def test_a_test_that_cannot_run_is_retried_with_backoff() -> None:
    new = Signs("n1", awaits_test=True, testable=True)
    (change,) = look(replace(new, test=trial(TrialState.IMPOSSIBLE, "no such image"))).changes
    assert (change.entry.what, change.awaits_test, change.unhealthy) == (TrailEvent.UNTESTED, True, None)
    trail: tuple[Entry, ...] = ()
    pauses = []
    for number in range(8):
        trail = append_entry(
            trail, new_entry(NOW, TrailEvent.UNTESTED, evidence=["no such image"], run=f"test-{number}")
        )
        verdict = look(replace(new, trail=trail))
        assert not verdict.tests
        assert verdict.next_at is not None
        pauses.append(int((verdict.next_at - NOW).total_seconds()))
        assert look(replace(new, trail=trail), now=verdict.next_at).tests == ["n1"]
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert len(trail) == 1


def test_a_failed_node_is_retested_and_returns() -> None:
    trail = (new_entry(NOW, TrailEvent.OUT, PREFLIGHT_FAILED, run="test-1"),)
    out = Signs("n1", unhealthy=PREFLIGHT_FAILED, testable=True, trail=trail)
    assert look(out).next_at == NOW + timedelta(hours=1)
    assert look(out, now=NOW + timedelta(hours=1)).tests == ["n1"]
    again = replace(out, trail=append_entry(trail, new_entry(NOW, TrailEvent.FAILED, run="test-2")))
    assert look(again).next_at == NOW + timedelta(hours=2)
    assert not look(replace(out, testable=False), now=NOW + timedelta(days=9)).changes, "by hand only"


def test_a_node_that_fails_again_stays_out() -> None:
    """The trail gets the latest result, and keeps the reason for which it left; also if a user asked for the test."""
    trail = (new_entry(LONG_AGO, TrailEvent.OUT, PREFLIGHT_FAILED, run="test-1"),)
    out = Signs("n1", unhealthy=PREFLIGHT_FAILED, testable=True, trail=trail, wanted_by="ada")
    (again,) = look(replace(out, test=trial(TrialState.FAILED, "exit code 1"))).changes
    assert (again.entry.what, again.unhealthy, again.answered) == (TrailEvent.FAILED, PREFLIGHT_FAILED, True)
    assert (again.entry.evidence, again.entry.by, again.entry.run) == (("exit code 1",), "ada", "test-n1")


def test_a_healthy_node_is_not_tested_without_a_request() -> None:
    verdict = look(
        Signs("n1", testable=True), Signs("n2", testable=True, trail=(new_entry(LONG_AGO, TrailEvent.PASSED),))
    )
    assert (verdict.tests, verdict.changes, verdict.next_at) == ([], [], None)


def test_a_node_with_a_bad_condition_is_not_tested() -> None:
    """Whatever it left for: the condition already says that it is broken. A user can still ask for a test."""
    trail = (new_entry(LONG_AGO, TrailEvent.OUT, PREFLIGHT_FAILED, run="test-1"),)
    out = Signs("n1", unhealthy=PREFLIGHT_FAILED, testable=True, trail=trail)
    assert look(out).tests == ["n1"]
    assert look(replace(out, bad=(DEADLOCK,))).tests == []
    assert look(replace(out, bad=(DEADLOCK,), wanted_by="ada")).tests == ["n1"]
    passed = look(replace(out, bad=(DEADLOCK,), test=trial(TrialState.PASSED)))
    assert only(passed) == (TrailEvent.PASSED, "", PREFLIGHT_FAILED)


def test_a_test_waits_until_runs_on_the_node_have_ended() -> None:
    """It needs the whole node and has a high priority."""
    new = Signs("n1", awaits_test=True, testable=True, busy=True)
    verdict = look(new)
    assert (verdict.tests, verdict.next_at) == ([], NOW + BUSY_RECHECK)
    assert look(replace(new, wanted_by="ada")).tests == ["n1"]


def test_a_requested_test_gets_an_answer() -> None:
    asked = Signs("n1", wanted_by="ada", testable=True)
    assert look(asked).tests == ["n1"]
    (passed,) = look(replace(asked, test=trial(TrialState.PASSED))).changes
    assert (passed.entry.by, passed.answered) == ("ada", True)
    (no_test,) = look(replace(asked, testable=False)).changes
    assert (no_test.entry.what, no_test.answered) == (TrailEvent.UNTESTED, True)


def test_requested_tests_come_first_up_to_the_limit() -> None:
    few = Preflight.model_validate({"image": "preflight:1", "atOnce": 3})
    new = [Signs(f"n{i}", awaits_test=True, testable=True) for i in range(1, 12)]
    running = Signs("m1", awaits_test=True, testable=True, test=trial(TrialState.GOES_ON))
    asked = Signs("z1", testable=True, wanted_by="ada")
    assert look(running, *new, asked, preflight=few).tests == ["z1", "n1"]
    leaves = replace(running, bad=(DEADLOCK,))
    assert look(leaves, *new, asked, preflight=few).tests == ["z1", "n1"], "its test still goes on"


# ---------------------------------------------------------------------------------------------- the limit


def test_a_bad_image_does_not_empty_the_cluster() -> None:
    """Beyond the share there is only a warning; a node outside the pool does not get into it either."""
    nodes = [Signs(f"n{i}", testable=True, test=Trial(f"test-{i}", TrialState.FAILED)) for i in range(40)]
    verdict = look(*nodes)
    assert [change.unhealthy for change in verdict.changes].count(PREFLIGHT_FAILED) == 4
    assert len(verdict.warnings) == 36
    assert all(change.answered for change in verdict.changes)
    new = look(*(replace(node, awaits_test=True) for node in nodes))
    assert sum(change.awaits_test for change in new.changes) == 36


@pytest.mark.parametrize(
    ("nodes", "percent", "allowed"), [(0, 10, 0), (1, 10, 1), (8, 10, 1), (200, 10, 20), (9, 0, 0)]
)
def test_at_least_one_node_may_leave(nodes: int, percent: int, allowed: int) -> None:
    assert allowed_out(nodes, rules(atMostPercent=percent)) == allowed


_SIGNS = st.builds(
    Signs,
    node=st.just(""),
    usable=st.booleans(),
    silent_since=st.sampled_from([None, LONG_AGO]),
    holders=st.sampled_from([(), ("team/bert",)]),
    bad=st.sampled_from([(), (DEADLOCK,)]),
    cleared_at=st.sampled_from([None, LONG_AGO]),
    unhealthy=st.sampled_from([None, None, None, "KernelDeadlock", PREFLIGHT_FAILED]),
    awaits_test=st.booleans(),
    wanted_by=st.sampled_from(["", "ada"]),
    testable=st.booleans(),
    trail=st.sampled_from(
        [
            (),
            (new_entry(LONG_AGO, TrailEvent.OUT, "KernelDeadlock"),),
            (new_entry(LONG_AGO, TrailEvent.OUT, PREFLIGHT_FAILED, run="test-0"),),
            (new_entry(LONG_AGO, TrailEvent.BACK, by="ada"),),
            tuple(new_entry(NOW - timedelta(hours=hours), TrailEvent.LOST) for hours in (9, 5, 1)),
        ]
    ),
    test=st.sampled_from([None, *(trial(state) for state in TrialState)]),
)


@given(st.lists(_SIGNS, max_size=16), st.integers(0, 100), st.integers(0, 3), st.integers(1, 5))
def test_never_more_nodes_leave_than_the_share(drawn: list[Signs], percent: int, failing: int, at_once: int) -> None:
    """However many nodes look broken, no more are out afterwards than allowed, or than were out before."""
    nodes = [replace(signs, node=f"n{number}") for number, signs in enumerate(drawn)]
    failures = {signs.node: [failed("a"), failed("b", "ben")] for signs in nodes[:failing]}
    health = rules(atMostPercent=percent)
    preflight = Preflight.model_validate({"image": "preflight:1", "atOnce": at_once})
    verdict = examine(nodes, failures, health, preflight, NOW)
    after = {signs.node: signs.unhealthy for signs in nodes}
    assert len({change.node for change in verdict.changes}) == len(verdict.changes), "one change of a node at a time"
    for change in verdict.changes:
        after[change.node] = change.unhealthy
    out_before = sum(signs.unhealthy is not None for signs in nodes)
    out = sum(unhealthy is not None for unhealthy in after.values())
    assert out <= max(out_before, allowed_out(len(nodes), health))
    going_on = sum(signs.test is not None and signs.test.state is TrialState.GOES_ON for signs in nodes)
    assert len(verdict.tests) <= max(0, at_once - going_on)
    assert all(signs.usable and signs.testable for signs in nodes if signs.node in verdict.tests)
    assert verdict.next_at is None or verdict.next_at > NOW


@given(st.lists(_SIGNS, min_size=1, max_size=8))
def test_a_second_examination_changes_nothing(drawn: list[Signs]) -> None:
    """With its changes applied and at the same time."""
    nodes = [replace(signs, node=f"n{number}") for number, signs in enumerate(drawn)]
    for _ in range(len(nodes) + 3):
        verdict = look(*nodes)
        if not verdict.changes:
            break
        changes = {change.node: change for change in verdict.changes}
        nodes = [
            replace(
                signs,
                unhealthy=change.unhealthy,
                awaits_test=change.awaits_test,
                wanted_by="" if change.answered else signs.wanted_by,
                trail=append_entry(signs.trail, change.entry),
            )
            if (change := changes.get(signs.node))
            else signs
            for signs in nodes
        ]
    assert not look(*nodes).changes


# ---------------------------------------------------------------------------------------------- the trail


def test_a_trail_is_short_and_can_be_read_again() -> None:
    trail: tuple[Entry, ...] = ()
    for number in range(40):
        said = new_entry(NOW + timedelta(minutes=number), TrailEvent.LOST, evidence=["x" * 1000] * 50)
        trail = append_entry(trail, said)
    assert len(trail) == KEPT
    assert len(write_trail(trail)) < 24_000
    assert read_trail(write_trail(trail)) == trail


@pytest.mark.parametrize("damaged", ["", "no JSON", "{}", '[{"at": "yesterday", "what": "out"}]', '[{"what": "gone"}]'])
def test_a_damaged_trail_is_read_as_empty(damaged: str) -> None:
    assert read_trail(damaged) == ()
