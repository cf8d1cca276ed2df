"""Decide which nodes leave the pool and why, which come back, and which are tested, from the present state alone.

A node leaves for a condition that says that it is broken, for runs that failed on it and then worked elsewhere, for
runs that it slowed, for becoming unreachable repeatedly, or for a failed test. At most a share of all nodes is taken
out: a cause that affects more of them is not the nodes' fault. Nothing here ends a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kajitori.core.backoff import backoff_seconds
from kajitori.core.formats.node_lists import natural_key
from kajitori.core.formats.times import format_time
from kajitori.core.naming.names import MANAGED_BY
from kajitori.core.nodes.trail import Entry, TrailEvent, last_removal, new_entry, returned_at, unpassed_tests_in_a_row
from kajitori.core.policy.nodes.health import NodeHealth, Preflight

MEMBERS_FAIL = "MembersFail"
MEMBERS_SLOW = "MembersSlow"
NODE_LOST = "NodeLost"
PREFLIGHT_FAILED = "PreflightFailed"
PREFLIGHT_PASSED = "PreflightPassed"
CONDITION_GONE = "ConditionGone"
BY_HAND = "ByHand"
DRAINED_BY = f"{MANAGED_BY}: "
"""Prefix of the drain mark of a node that is drained for its health; the reason follows."""
_LASTING_REASONS = (MEMBERS_FAIL, MEMBERS_SLOW, NODE_LOST, PREFLIGHT_FAILED)
"""Reasons that do not disappear by themselves, unlike a condition."""

UNREACHABLE_FOR = timedelta(seconds=15)
"""Time after which an unreachable node counts as lost. After an outage of the API server all nodes look unreachable."""

BUSY_RECHECK = timedelta(minutes=1)
"""Interval at which a busy node that should be tested is checked again."""

_LONGEST_RETEST_FACTOR = 2**16
"""Limit of the pause between tests that a node does not pass, in first pauses."""


@dataclass(frozen=True, slots=True)
class BadCondition:
    """A condition that says that its node is broken."""

    type: str
    since: datetime | None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed on a node and then worked elsewhere."""

    run: str
    """`namespace/name`."""
    owner: str
    """Owner of the run; empty if it has none."""
    at: datetime
    says: str
    at_start: bool = False
    """The run could not start there, and started elsewhere."""
    slow: str = ""
    """The run did not fail there, but its members were slower than their peers. Equal texts may have one cause that is
    not the node: `rank 0`, or the name of the run if the cause can only be the node."""


class TrialState(StrEnum):
    """Progress of the test of a node."""

    GOES_ON = "goesOn"
    """It waits for the node, or runs."""
    PASSED = "passed"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    """The program never ran, or ended for a reason other than the node."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The latest run that tests a node."""

    run: str
    state: TrialState
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signs:
    """The observations of one node."""

    node: str
    usable: bool = True
    """Whether it is ready and not cordoned, so that a test can run on it."""
    silent_since: datetime | None = None
    holders: tuple[str, ...] = ()
    """If it is unreachable: the runs with members on it."""
    bad: tuple[BadCondition, ...] = ()
    cleared_at: datetime | None = None
    """When the last of the watched conditions became good, if all are."""
    unhealthy: str | None = None
    """Why it is out of the pool; None if it is in."""
    awaits_test: bool = False
    """Whether it joined with the taint for nodes that are tested first."""
    wanted_by: str = ""
    """User who asked for a test."""
    busy: bool = False
    """Whether runs have members on it. A test waits until they end, unless a user asked for it."""
    testable: bool = False
    """Whether policy has a test for it."""
    trail: tuple[Entry, ...] = ()
    test: Trial | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a node's marks, and the trail entry that explains it."""

    node: str
    entry: Entry
    unhealthy: str | None
    """The reason in the taint; None for no taint."""
    awaits_test: bool
    answered: bool = False
    """Whether the user who asked for a test now has the result."""


@dataclass(frozen=True, slots=True)
class WithheldRemoval:
    """A node that would have left the pool if not too many were out already."""

    node: str
    reason: str
    evidence: tuple[str, ...]


@dataclass(slots=True)
class Verdict:
    """The decisions of one examination of all nodes."""

    changes: list[Change] = field(default_factory=list)
    warnings: list[WithheldRemoval] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    """Nodes to test now."""
    next_at: datetime | None = None
    """Latest time of the next examination, even if nothing changes."""

    def examine_by(self, moment: datetime) -> None:
        """Make the next examination happen by this time."""
        self.next_at = min(moment, self.next_at or moment)


@dataclass(frozen=True, slots=True)
class _Removal:
    """A node that should leave the pool, if not too many are out."""

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
    """Return the verdict about each node. `failures` are by node and of any age; only failures after the node's last
    return to the pool count.
    """
    verdict = Verdict()
    removals: list[_Removal] = []
    limit = allowed_out(len(nodes), health)
    silent = sum(signs.silent_since is not None for signs in nodes)
    for signs in nodes:
        if (test := _finished_test(signs)) is not None:
            _take_result(signs, test, verdict, removals, now)
        elif signs.unhealthy is None:
            removal = _reason_to_leave(signs, failures.get(signs.node, ()), health, verdict, now)
            if removal is not None:
                removals.append(removal)
            elif silent <= limit:
                _note_loss(signs, health, verdict, now)
        elif _condition_is_gone(signs, health, verdict, now) and not signs.testable:
            back = new_entry(now, TrailEvent.BACK, CONDITION_GONE)
            verdict.changes.append(Change(signs.node, back, None, signs.awaits_test))
    _remove_most_urgent(removals, limit - sum(signs.unhealthy is not None for signs in nodes), verdict, now)
    _choose_tests(nodes, health, preflight, verdict, now)
    return verdict


def allowed_out(nodes: int, health: NodeHealth) -> int:
    """Return how many of `nodes` may be out of the pool at once."""
    if not nodes or not health.at_most_percent:
        return 0
    return max(1, nodes * health.at_most_percent // 100)


# ---------------------------------------------------------------------------------------------- leaving


def _reason_to_leave(
    signs: Signs, failures: Sequence[Failure], health: NodeHealth, verdict: Verdict, now: datetime
) -> _Removal | None:
    """Return the removal of a node that should leave the pool now; None if it should stay."""
    losses = [entry for entry in signs.trail if entry.what is TrailEvent.LOST]
    if not (signs.bad or failures or losses):
        return None
    back = returned_at(signs.trail)
    for bad in sorted(signs.bad, key=lambda condition: condition.type):
        since = bad.since or now - timedelta(seconds=health.after_seconds)
        if back is not None and since <= back:
            continue  # the node was put back in spite of this condition
        due = since + timedelta(seconds=health.after_seconds)
        if now >= due:
            evidence = f"since {format_time(since)}" + (f": {bad.says}" if bad.says else "")
            return _Removal(signs, bad.type, (evidence,), 0)
        verdict.examine_by(due)
    begin = now - timedelta(seconds=health.window_seconds)
    if back is not None and back > begin:
        begin = back
    recent = sorted((failure for failure in failures if failure.at > begin), key=lambda failure: failure.at)
    failed, slow = [each for each in recent if not each.slow], [each for each in recent if each.slow]
    if _are_enough(failed, health.failed_runs):
        return _Removal(signs, MEMBERS_FAIL, tuple(each.says for each in failed), 2)
    if _are_enough(slow, health.slow_runs) and len({each.slow for each in slow}) >= health.slow_runs:
        return _Removal(signs, MEMBERS_SLOW, tuple(each.says for each in slow), 3)
    losses = [entry for entry in losses if entry.time is not None and entry.time > begin]
    if health.lost_times and len(losses) >= health.lost_times:
        lost = tuple(f"stopped answering at {entry.at} under {', '.join(entry.evidence)}" for entry in losses)
        return _Removal(signs, NODE_LOST, lost, 1)
    return None


def _are_enough(failures: Sequence[Failure], runs_needed: int) -> bool:
    """Return whether these failures are enough to blame the node: at least `runs_needed` runs must have failed; 0:
    never.

    Several runs must have failed, of several users if possible: the runs of one user may share a fault. Runs without an
    owner do not count as another user.
    """
    runs, owners = {failure.run for failure in failures}, {failure.owner for failure in failures if failure.owner}
    one_owner = len(owners) < 2 and runs_needed > 1
    return bool(runs_needed) and len(runs) >= runs_needed + one_owner


def _note_loss(signs: Signs, health: NodeHealth, verdict: Verdict, now: datetime) -> None:
    """Record, once, that a node became unreachable while members were on it."""
    since = signs.silent_since
    if since is None or not signs.holders or not health.lost_times:
        return
    since_text = format_time(since)
    if any(entry.what is TrailEvent.LOST and entry.at == since_text for entry in signs.trail):
        return
    if now < since + UNREACHABLE_FOR:
        verdict.examine_by(since + UNREACHABLE_FOR)
        return
    lost = new_entry(since, TrailEvent.LOST, evidence=signs.holders)
    verdict.changes.append(Change(signs.node, lost, signs.unhealthy, signs.awaits_test))


def _remove_most_urgent(removals: Iterable[_Removal], room: int, verdict: Verdict, now: datetime) -> None:
    """Take the `room` most urgent nodes out of the pool; for the others only warn."""
    for removal in sorted(removals, key=lambda removal: (removal.urgency, natural_key(removal.signs.node))):
        signs, is_test = removal.signs, bool(removal.run)
        by, evidence, run = signs.wanted_by, removal.evidence, removal.run
        if room > 0:
            room -= 1
            out = new_entry(now, TrailEvent.OUT, removal.reason, by=by, evidence=evidence, run=run)
            verdict.changes.append(Change(signs.node, out, removal.reason, awaits_test=False, answered=is_test))
            continue
        verdict.warnings.append(WithheldRemoval(signs.node, removal.reason, removal.evidence))
        if is_test:
            failed = new_entry(now, TrailEvent.FAILED, by=by, evidence=evidence, run=run)
            verdict.changes.append(Change(signs.node, failed, None, awaits_test=signs.awaits_test, answered=True))


# ---------------------------------------------------------------------------------------------- tests


def _finished_test(signs: Signs) -> Trial | None:
    """Return the ended test without a result in the trail; None if there is none."""
    test = signs.test
    if test is None or test.state is TrialState.GOES_ON or any(entry.run == test.run for entry in signs.trail):
        return None
    return test


def _take_result(signs: Signs, test: Trial, verdict: Verdict, removals: list[_Removal], now: datetime) -> None:
    by = signs.wanted_by
    if test.state is TrialState.FAILED and signs.unhealthy is None:
        removals.append(_Removal(signs, PREFLIGHT_FAILED, test.evidence, 1, test.run))
        return
    unhealthy, awaits_test = signs.unhealthy, signs.awaits_test
    if test.state is TrialState.FAILED:
        result = new_entry(now, TrailEvent.FAILED, by=by, evidence=test.evidence, run=test.run)
    elif test.state is TrialState.IMPOSSIBLE:
        result = new_entry(now, TrailEvent.UNTESTED, by=by, evidence=test.evidence, run=test.run)
    elif unhealthy is not None and last_removal(signs.trail) is not None and not signs.bad:
        result = new_entry(now, TrailEvent.BACK, PREFLIGHT_PASSED, by=by, run=test.run)
        unhealthy, awaits_test = None, False
    else:
        result, awaits_test = new_entry(now, TrailEvent.PASSED, by=by, run=test.run), False
    verdict.changes.append(Change(signs.node, result, unhealthy, awaits_test, answered=True))


def _condition_is_gone(signs: Signs, health: NodeHealth, verdict: Verdict, now: datetime) -> bool:
    """Return whether the condition for which the node left has been good for long enough."""
    left = last_removal(signs.trail)
    if left is None or left.reason in _LASTING_REASONS or signs.bad or left.time is None:
        return False
    due = max(left.time, signs.cleared_at or left.time) + timedelta(seconds=health.back_after_seconds)
    if now < due:
        verdict.examine_by(due)
    return now >= due


def _choose_tests(
    nodes: Iterable[Signs], health: NodeHealth, preflight: Preflight, verdict: Verdict, now: datetime
) -> None:
    """Choose the nodes to test now: those that a user asked for, then new nodes, then those that may have recovered."""
    room, changed = preflight.at_once, {change.node for change in verdict.changes}
    wanted: list[tuple[int, Signs]] = []
    for signs in nodes:
        if signs.test is not None and signs.test.state is TrialState.GOES_ON:
            room -= 1
        elif signs.node in changed:
            continue
        elif signs.wanted_by and not signs.testable:
            untested = ("policy has no test for this node",)
            result = new_entry(now, TrailEvent.UNTESTED, by=signs.wanted_by, evidence=untested)
            verdict.changes.append(Change(signs.node, result, signs.unhealthy, signs.awaits_test, answered=True))
        elif signs.testable and signs.usable and (urgency := _test_due(signs, health, preflight, verdict, now)):
            wanted.append((urgency, signs))
    wanted.sort(key=lambda item: (item[0], item[1].node))
    verdict.tests = [signs.node for _, signs in wanted[: max(0, room)]]


def _test_due(signs: Signs, health: NodeHealth, preflight: Preflight, verdict: Verdict, now: datetime) -> int:
    """Return how urgently a node is to be tested now, 1 first; 0 means not now."""
    if signs.wanted_by:
        return 1
    if signs.unhealthy is None and not signs.awaits_test:
        return 0
    if signs.busy:
        verdict.examine_by(now + BUSY_RECHECK)
        return 0
    left = last_removal(signs.trail)
    if signs.unhealthy is not None and left is None:
        return 0  # an operator took it out by hand
    tests = list(unpassed_tests_in_a_row(signs.trail))
    since, pause = left.time if left is not None else None, 0.0
    if tests:
        could_not = tests[0].what is TrailEvent.UNTESTED
        since = tests[0].time
        often = sum(test.times for test in tests if (test.what is TrailEvent.UNTESTED) is could_not)
        first = preflight.pause_seconds if could_not else preflight.retest_after_seconds
        longest = max(first, preflight.longest_pause_seconds) if could_not else first * _LONGEST_RETEST_FACTOR
        pause = backoff_seconds(often, first, longest)
    elif left is not None and left.reason == MEMBERS_SLOW:
        pause = 0  # the test shows whether the node is slow; there is nothing to wait for
    elif left is not None and left.reason in _LASTING_REASONS:
        pause = preflight.retest_after_seconds
    elif left is not None and not _condition_is_gone(signs, health, verdict, now):
        return 0
    due = (since or now) + timedelta(seconds=pause)
    if now < due:
        verdict.examine_by(due)
        return 0
    if signs.unhealthy is not None and signs.bad:
        return 0  # its condition still says that it is broken
    return 2 if signs.awaits_test else 3
