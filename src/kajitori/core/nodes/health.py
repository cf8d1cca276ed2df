"""Which nodes leave the pool, why, which come back, and which are tested: all from what is known of nodes and runs now.

A node leaves for a condition that says that it is broken, for runs that failed on it and did well elsewhere, for
falling silent again and again, or for a test that it failed. At most a share of all nodes is ever taken out: what makes
more of them look broken is no node's fault. Nothing here ends a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kajitori.core.nodes.trail import Entry, What, came_back_at, entry, left_as, tests_in_a_row
from kajitori.core.placement.snapshot import natural_key
from kajitori.core.policy.nodes import NodeHealth, Preflight
from kajitori.core.words.names import MANAGED_BY
from kajitori.core.words.times import format_time

MEMBERS_FAIL = "MembersFail"
NODE_LOST = "NodeLost"
PREFLIGHT_FAILED = "PreflightFailed"
PREFLIGHT_PASSED = "PreflightPassed"
CONDITION_GONE = "ConditionGone"
BY_HAND = "ByHand"
DRAINED_BY = f"{MANAGED_BY}: "
"""How a node is marked that is drained for its health; the reason follows."""
_OURS = (MEMBERS_FAIL, NODE_LOST, PREFLIGHT_FAILED)
"""Reasons that do not go away by themselves, as a condition does."""

SILENCE = timedelta(seconds=15)
"""A node that does not answer for a moment was not lost: after an outage of the API server all look like that."""

BUSY = timedelta(minutes=1)
"""How often it is looked whether the last run has left a node that is to be tested."""

_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class BadCondition:
    """A condition that says that its node is broken."""

    type: str
    since: datetime | None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed on a node, and did well elsewhere afterwards."""

    run: str
    """`namespace/name`."""
    owner: str
    """Whose it is; empty where nobody owns it."""
    at: datetime
    says: str
    at_start: bool = False
    """It could not start there, and started elsewhere."""


class TrialState(StrEnum):
    """How far the test of a node has come."""

    GOES_ON = "goesOn"
    """It waits for the node, or runs."""
    PASSED = "passed"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    """The program never ran, or not because of the node."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The latest run that tests a node."""

    run: str
    state: TrialState
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of one node."""

    node: str
    usable: bool = True
    """Ready and not cordoned: a test can be run on it."""
    silent_since: datetime | None = None
    holders: tuple[str, ...] = ()
    """Of a silent node: the runs with members on it."""
    bad: tuple[BadCondition, ...] = ()
    cleared_at: datetime | None = None
    """When the last of the conditions that are watched turned good, where all are."""
    unhealthy: str | None = None
    """Why it is out; None: it is not."""
    awaits_test: bool = False
    """It came with the taint of nodes that are to be tested first."""
    wanted_by: str = ""
    """Who asked for a test."""
    busy: bool = False
    """Runs have members on it. They end before it is tested, unless somebody asks for it."""
    testable: bool = False
    """Policy has a test for it."""
    trail: tuple[Entry, ...] = ()
    test: Trial | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """How a node is marked from now on; one entry of its trail."""

    node: str
    entry: Entry
    unhealthy: str | None
    """The reason in the taint; None: there is none."""
    awaits_test: bool
    answered: bool = False
    """Whoever asked for a test has the answer."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A node that would have left, had not too many left already."""

    node: str
    reason: str
    evidence: tuple[str, ...]


@dataclass(slots=True)
class Verdict:
    """What one look at all nodes found."""

    changes: list[Change] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    """Nodes whose test begins now."""
    next_at: datetime | None = None
    """When to look again at the latest, though nothing changed."""

    def look_at(self, moment: datetime) -> None:
        """Look again then, or earlier."""
        self.next_at = min(moment, self.next_at or moment)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A node that is to leave, if not too many have."""

    signs: Signs
    reason: str
    evidence: tuple[str, ...]
    urgency: int
    run: str = ""


def examine(
    nodes: Sequence[Signs],
    failures: Mapping[str, Sequence[Failure]],
    health: NodeHealth,
    preflight: Preflight,
    now: datetime,
) -> Verdict:
    """What becomes of each node. `failures` are by node, of whatever age; only what came after a node's last return to
    the pool counts."""
    verdict = Verdict()
    leaving: list[_Leaving] = []
    limit = allowed_out(len(nodes), health)
    silent = sum(signs.silent_since is not None for signs in nodes)
    for signs in nodes:
        if (ended := _ended_test(signs)) is not None:
            _take_result(signs, ended, verdict, leaving, now)
        elif signs.unhealthy is None:
            found = _why_leave(signs, failures.get(signs.node, ()), health, verdict, now)
            if found is not None:
                leaving.append(found)
            elif silent <= limit:
                _note_loss(signs, health, verdict, now)
        elif _is_gone(signs, health, verdict, now) and not signs.testable:
            said = entry(now, What.BACK, CONDITION_GONE)
            verdict.changes.append(Change(signs.node, said, None, signs.awaits_test))
    _let_leave(leaving, limit - sum(signs.unhealthy is not None for signs in nodes), verdict, now)
    _choose_tests(nodes, health, preflight, verdict, now)
    return verdict


def allowed_out(nodes: int, health: NodeHealth) -> int:
    """How many of so many nodes may be out of the pool when one more is taken out."""
    if not nodes or not health.at_most_percent:
        return 0
    return max(1, nodes * health.at_most_percent // 100)


# ---------------------------------------------------------------------------------------------- leaving


def _why_leave(
    signs: Signs, failures: Sequence[Failure], health: NodeHealth, verdict: Verdict, now: datetime
) -> _Leaving | None:
    """Why a node of the pool is to leave it now, if it is."""
    losses = [each for each in signs.trail if each.what is What.LOST]
    if not (signs.bad or failures or losses):
        return None
    back = came_back_at(signs.trail)
    for bad in sorted(signs.bad, key=lambda each: each.type):
        since = bad.since or now - timedelta(seconds=health.after_seconds)
        if back is not None and since <= back:
            continue  # whoever let it come back knew
        due = since + timedelta(seconds=health.after_seconds)
        if now >= due:
            said = f"since {format_time(since)}" + (f": {bad.says}" if bad.says else "")
            return _Leaving(signs, bad.type, (said,), 0)
        verdict.look_at(due)
    begin = now - timedelta(seconds=health.window_seconds)
    if back is not None and back > begin:
        begin = back
    recent = sorted((each for each in failures if each.at > begin), key=lambda each: each.at)
    if _are_enough(recent, health):
        return _Leaving(signs, MEMBERS_FAIL, tuple(each.says for each in recent), 2)
    losses = [each for each in losses if each.time is not None and each.time > begin]
    if health.lost_times and len(losses) >= health.lost_times:
        evidence = tuple(f"fell silent at {each.at} under {', '.join(each.evidence)}" for each in losses)
        return _Leaving(signs, NODE_LOST, evidence, 1)
    return None


def _are_enough(failures: Sequence[Failure], health: NodeHealth) -> bool:
    """Several runs, of several people where possible: one person's may all have the same fault. Runs that nobody owns
    add nobody: they may be anybody's."""
    runs, people = {each.run for each in failures}, {each.owner for each in failures if each.owner}
    alone = len(people) < 2 and health.failed_runs > 1
    return bool(health.failed_runs) and len(runs) >= health.failed_runs + alone


def _note_loss(signs: Signs, health: NodeHealth, verdict: Verdict, now: datetime) -> None:
    """Writes down, once, that a node fell silent under its members."""
    since = signs.silent_since
    if since is None or not signs.holders or not health.lost_times:
        return
    told = format_time(since)
    if any(each.what is What.LOST and each.at == told for each in signs.trail):
        return
    if now < since + SILENCE:
        verdict.look_at(since + SILENCE)
        return
    said = entry(since, What.LOST, evidence=signs.holders)
    verdict.changes.append(Change(signs.node, said, signs.unhealthy, signs.awaits_test))


def _let_leave(leaving: Iterable[_Leaving], room: int, verdict: Verdict, now: datetime) -> None:
    """The most urgent leave, as far as there is room; of the others it is only said that they should."""
    for each in sorted(leaving, key=lambda each: (each.urgency, natural_key(each.signs.node))):
        signs, is_test = each.signs, bool(each.run)
        if room > 0:
            room -= 1
            said = entry(now, What.OUT, each.reason, by=signs.wanted_by, evidence=each.evidence, run=each.run)
            verdict.changes.append(Change(signs.node, said, each.reason, False, answered=is_test))
            continue
        verdict.warnings.append(Warned(signs.node, each.reason, each.evidence))
        if is_test:
            said = entry(now, What.FAILED, by=signs.wanted_by, evidence=each.evidence, run=each.run)
            verdict.changes.append(Change(signs.node, said, None, signs.awaits_test, answered=True))


# ---------------------------------------------------------------------------------------------- tests


def _ended_test(signs: Signs) -> Trial | None:
    """The test that has ended and whose result is not written down yet."""
    test = signs.test
    if test is None or test.state is TrialState.GOES_ON or any(each.run == test.run for each in signs.trail):
        return None
    return test


def _take_result(signs: Signs, test: Trial, verdict: Verdict, leaving: list[_Leaving], now: datetime) -> None:
    by = signs.wanted_by
    if test.state is TrialState.FAILED and signs.unhealthy is None:
        leaving.append(_Leaving(signs, PREFLIGHT_FAILED, test.evidence, 1, test.run))
        return
    unhealthy, awaits_test = signs.unhealthy, signs.awaits_test
    if test.state is TrialState.FAILED:
        said = entry(now, What.FAILED, by=by, evidence=test.evidence, run=test.run)
    elif test.state is TrialState.IMPOSSIBLE:
        said = entry(now, What.UNTESTED, by=by, evidence=test.evidence, run=test.run)
    elif unhealthy is not None and left_as(signs.trail) is not None and not signs.bad:
        said = entry(now, What.BACK, PREFLIGHT_PASSED, by=by, run=test.run)
        unhealthy, awaits_test = None, False
    else:
        said, awaits_test = entry(now, What.PASSED, by=by, run=test.run), False
    verdict.changes.append(Change(signs.node, said, unhealthy, awaits_test, answered=True))


def _is_gone(signs: Signs, health: NodeHealth, verdict: Verdict, now: datetime) -> bool:
    """Whether the condition that a node left for has been gone for long enough."""
    left = left_as(signs.trail)
    if left is None or left.reason in _OURS or signs.bad or left.time is None:
        return False
    due = max(left.time, signs.cleared_at or left.time) + timedelta(seconds=health.back_after_seconds)
    if now < due:
        verdict.look_at(due)
    return now >= due


def _choose_tests(
    nodes: Iterable[Signs], health: NodeHealth, preflight: Preflight, verdict: Verdict, now: datetime
) -> None:
    """Whom to test now: those that somebody asked for, then new nodes, then those that may be well again."""
    room, changed = preflight.at_once, {change.node for change in verdict.changes}
    wanted: list[tuple[int, Signs]] = []
    for signs in nodes:
        if signs.test is not None and signs.test.state is TrialState.GOES_ON:
            room -= 1
        elif signs.node in changed:
            continue
        elif signs.wanted_by and not signs.testable:
            said = entry(now, What.UNTESTED, by=signs.wanted_by, evidence=("policy has no test for this node",))
            verdict.changes.append(Change(signs.node, said, signs.unhealthy, signs.awaits_test, answered=True))
        elif signs.testable and signs.usable and (urgency := _test_due(signs, health, preflight, verdict, now)):
            wanted.append((urgency, signs))
    wanted.sort(key=lambda each: (each[0], each[1].node))
    verdict.tests = [signs.node for _, signs in wanted[: max(0, room)]]


def _test_due(signs: Signs, health: NodeHealth, preflight: Preflight, verdict: Verdict, now: datetime) -> int:
    """How urgently a node is to be tested now; 0: not now."""
    if signs.wanted_by:
        return 1
    if signs.unhealthy is None and not signs.awaits_test:
        return 0
    if signs.busy:
        verdict.look_at(now + BUSY)
        return 0
    left = left_as(signs.trail)
    if signs.unhealthy is not None and left is None:
        return 0  # somebody else's doing, by hand
    tests = list(tests_in_a_row(signs.trail))
    since, pause = left.time if left is not None else None, 0
    if tests:
        could_not = tests[0].what is What.UNTESTED
        since = tests[0].time
        often = sum(each.times for each in tests if (each.what is What.UNTESTED) is could_not)
        first = preflight.pause_seconds if could_not else preflight.retest_after_seconds
        pause = first * 2 ** min(often - 1, _DOUBLINGS)
        if could_not:
            pause = min(pause, max(first, preflight.longest_pause_seconds))
    elif left is not None and left.reason in _OURS:
        pause = preflight.retest_after_seconds
    elif left is not None and not _is_gone(signs, health, verdict, now):
        return 0
    due = (since or now) + timedelta(seconds=pause)
    if now < due:
        verdict.look_at(due)
        return 0
    if signs.unhealthy is not None and signs.bad:
        return 0  # it says itself that it is still broken
    return 2 if signs.awaits_test else 3
