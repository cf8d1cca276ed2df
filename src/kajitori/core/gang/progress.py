"""Small steps that batch runs and services share: how a status changes, what is said, where members go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from kajitori.core.gang.ledger import indices_of, members_without_nodes
from kajitori.core.gang.types import Action, DeleteMembers, Limits, Member, MemberState, NeedsNodes, Run, Sweep
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import (
    NOTABLE_LIMIT,
    Attempt,
    GivesWay,
    GivesWayTo,
    MemberCounts,
    Notable,
    Ran,
    RunStatus,
    Setback,
    template_text,
)
from kajitori.core.words.node_lists import compress_ranks, expand, expand_ranks
from kajitori.core.words.times import format_time, parse_time

AVOID_AFTER_FAILURES = 2
"""A node on which a run's members failed this often is avoided for that run."""

UNSCHEDULED_PATIENCE_SECONDS = 30
"""A Pod is pinned to a node with room for it. If the scheduler says no and does not think again (it judged while its
cache was still filling, or a foreign Pod was quicker), a new attempt comes sooner than its next look, minutes later."""

_REMEMBERED_NODES = 64
_REMEMBERED_STARTS = 8

_ASKS_SHOWN = 3

SETBACK_LENGTH = 300
"""Characters that are kept of why a run was interrupted."""

_RANKS_SHOWN = 40
"""Characters of a list of members; of a longer one their number is told."""


# ------------------------------------------------------------------------------------------------ placement


def place_on(
    status: RunStatus,
    ranks: Sequence[int],
    nodes: str,
    template: dict[str, object],
    port: int,
    replicas: int,
    now: datetime,
    *,
    launcher: str = "none",
    bind_direct: bool = False,
) -> RunStatus:
    """The status of a run whose next attempt gets these nodes (a compact list, in rank order)."""
    number = status.attempts + 1
    attempt = Attempt(
        number=number,
        nodes=nodes,
        ranks="" if len(ranks) == replicas else compress_ranks(ranks),
        template=template_text(template),
        launcher=launcher,
        world_size=replicas,
        bind_direct=bind_direct,
        port=port,
        planned_at=format_time(now),
    )
    return msgspec.structs.replace(
        status,
        phase=Phase.STARTING,
        reason=Reason.CREATING,
        message="",
        attempt=attempt,
        attempts=number,
        not_before="",
        gives_way=None,
        resize=None,
    )


def with_setback(before: RunStatus, status: RunStatus, now: datetime) -> RunStatus:
    """The status with why the run was interrupted or is started again, if that has just happened."""
    happened = status.restarts + status.interruptions > before.restarts + before.interruptions
    if not happened or status.reason is Reason.GROWS:
        return status
    reason, message = status.reason.value, status.message
    if status.sweep is not None and status.notable and status.reason is not Reason.PREEMPTED:
        newest = max(status.notable, key=lambda each: each.since)
        reason, message = newest.reason, f"member {newest.rank}: {newest.message or newest.reason}"
    number = status.attempt.number if status.attempt is not None else 0
    setback = Setback(reason=reason, message=message[:SETBACK_LENGTH], attempt=number, at=format_time(now))
    return msgspec.structs.replace(status, setback=setback)


def keep_waiting(status: RunStatus, reason: Reason, message: str) -> RunStatus:
    """The status of a run that the planner found no place for; a sweep of which members are there goes on meanwhile."""
    if status.sweep is not None and status.phase in _ALIVE:
        return msgspec.structs.replace(status, reason=reason, message=message[:1000])
    if status.gives_way is not None:
        message = f"{describe_preemptions(status.gives_way, past=True)}; {message}"
    reason = waiting_reason(status, reason)
    return msgspec.structs.replace(status, phase=Phase.QUEUED, reason=reason, message=message[:1000], resize=None)


def waiting_reason(status: RunStatus, reason: Reason) -> Reason:
    """The reason that a run has which waits for this one: until it starts again, that it gave way comes first."""
    return reason if status.gives_way is None else Reason.PREEMPTED


def preemptions_of(status: RunStatus) -> tuple[GivesWayTo, ...]:
    """To whom it gives way; of a sweep some members may do so to one run, some to another."""
    return status.gives_way.each if status.gives_way is not None else ()


def describe_preemptions(asked: GivesWay, *, past: bool = False, withdrawn: Collection[tuple[str, int]] = ()) -> str:
    """`gives way to vision/bert (high, of ana)`, `members 3-5 give way to …; member 7 gives way to …`."""
    more = len(asked.others) + 1 - _ASKS_SHOWN
    shown = [
        _describe_preemption(each, past=past)
        + (", which does not wait for it any more" if each.waiting in withdrawn else "")
        for each in asked.each[:_ASKS_SHOWN]
    ]
    if more > 0:
        shown.append(f"others to {more} more {'run' if more == 1 else 'runs'}")
    return "; ".join(shown)


def _describe_preemption(asked: GivesWayTo, *, past: bool) -> str:
    why = ", whose team is guaranteed what it asks for" if asked.guaranteed else ""
    who, several = preempted_members_text(asked), len(indices_of(asked.ranks)) > 1
    does = "gave" if past else "give" if several else "gives"
    return f"{who}{' ' if who else ''}{does} way to {asked.who}{why}"


def preempted_members_text(asked: GivesWayTo) -> str:
    """`member 3`, `members 3-5`, `70 members`: those that give way of a sweep; nothing where all of the run does."""
    if not asked.ranks:
        return ""
    count = len(indices_of(asked.ranks))
    if count == 1:
        return f"member {asked.ranks}"
    return f"members {asked.ranks}" if len(asked.ranks) <= _RANKS_SHOWN else members_text(count)


def is_preempted_by(asked: GivesWayTo, rank: int, attempt: int) -> bool:
    """Whether this member of a run that gives way does, to this one; of a sweep not every one has to."""
    return not asked.ranks or (attempt <= asked.attempt and rank in indices_of(asked.ranks))


def already_says(status: RunStatus, reason: Reason) -> bool:
    """Whether a run that waits says that it does so for this reason."""
    goes_on = status.sweep is not None and status.phase in _ALIVE
    return (status.phase is Phase.QUEUED or goes_on) and status.reason is reason


def node_by_rank(attempt: Attempt) -> dict[int, str]:
    """Which node each covered rank of an attempt was given."""
    nodes = expand(attempt.nodes)
    ranks = expand_ranks(attempt.ranks) if attempt.ranks else range(len(nodes))
    return dict(zip(ranks, nodes, strict=False))


def needs_nodes(status: RunStatus, ranks: tuple[int, ...], *, expand_previous: bool = True) -> NeedsNodes:
    """What to ask the planner for: these ranks, near where they were, off the nodes they failed on."""
    avoid = frozenset(node for node, failures in status.avoid_nodes.items() if failures >= AVOID_AFTER_FAILURES)
    previous = node_by_rank(status.attempt) if status.attempt and expand_previous else {}
    return NeedsNodes(ranks, previous, avoid)


def end_members(members: Iterable[Member], grace_seconds: int) -> tuple[Action, ...]:
    """One deletion by collection, where any running or waiting member was not asked to end yet."""
    if any(not member.terminating and not member.is_over for member in members):
        return (DeleteMembers(grace_seconds, unfinished_only=True),)
    return ()


def stop_members(members: Iterable[Member], grace_seconds: int) -> tuple[Action, ...]:
    """As `end_members`, for a run that a user stops: members that terminate with a longer grace are deleted again."""
    if any(member.has_longer_than(grace_seconds) and not member.is_over for member in members):
        return (DeleteMembers(grace_seconds, unfinished_only=True),)
    return ()


# ------------------------------------------------------------------------------------------------ status


def count_members(run: Run, status: RunStatus, members: Sequence[Member]) -> RunStatus:
    """The status with the members' counts and the few worth a look."""
    states = [member.state for member in members]
    counts = MemberCounts(
        total=run.replicas,
        pending=states.count(MemberState.PENDING),
        running=states.count(MemberState.RUNNING),
        succeeded=states.count(MemberState.SUCCEEDED),
        failed=states.count(MemberState.FAILED),
    )
    failed = [member for member in members if member.state is MemberState.FAILED]
    notable = notes_of([*failed, *blocked_members(members)][:NOTABLE_LIMIT], status.notable)
    if not notable and not any(state is MemberState.PENDING for state in states) and status.notable:
        notable = [note for note in status.notable if note.exit_code is not None]  # how the last attempt ended
    return msgspec.structs.replace(status, members=counts, notable=notable or status.notable[:NOTABLE_LIMIT])


def blocked_members(members: Iterable[Member]) -> list[Member]:
    """Those that do not run yet, and wait for more than to be made."""
    nothing = (Reason.NONE, Reason.CREATING)
    return [each for each in members if each.state is MemberState.PENDING and each.reason not in nothing]


def notes_of(members: Iterable[Member], before: Iterable[Notable] = ()) -> list[Notable]:
    """What is told of these members; since when, where it was told before."""
    since = {(note.rank, note.attempt): note.since for note in before}
    return [
        Notable(
            rank=member.rank,
            node=member.node,
            reason=member.reason.value,
            message=member.message[:300],
            exit_code=member.exit_code,
            attempt=member.attempt,
            since=member.ended_at or since.get((member.rank, member.attempt), ""),
        )
        for member in members
    ]


def as_starting(status: RunStatus, pending: Sequence[Member]) -> RunStatus:
    """The status while members are not running yet: it names what the worst of them waits for."""
    worst = worst_of(pending)
    reason = worst.reason if worst and worst.reason is not Reason.NONE else Reason.CREATING
    message = f"{members_text(len(pending))} not running yet"
    if worst and worst.message:
        message += f"; member {worst.rank}: {worst.message}"
    return msgspec.structs.replace(status, phase=Phase.STARTING, reason=reason, message=message[:1000])


def as_running(status: RunStatus, attempt: Attempt, now: datetime) -> RunStatus:
    """The status once every member runs."""
    status = with_start_times(status, attempt, now)
    return msgspec.structs.replace(status, phase=Phase.RUNNING, reason=Reason.NONE, message="", failed_starts=0)


def with_start_times(status: RunStatus, attempt: Attempt, now: datetime) -> RunStatus:
    """The status with the times of the first start, of the attempt and of the run."""
    if not attempt.started_at:
        attempt = msgspec.structs.replace(attempt, started_at=format_time(now))
    return msgspec.structs.replace(status, attempt=attempt, started_at=status.started_at or format_time(now))


def with_time_ran(run: Run, status: RunStatus, now: datetime) -> RunStatus:
    """The next status of a run; where it says that an attempt is over, with the time that this one ran."""
    before = run.status.phase
    if run.type == "service" or run.sweep is not None:  # members come and go: from the first start to the end
        is_over, since = status.phase.is_final and not before.is_final, status.started_at
        if run.sweep is not None and not since and status.attempt is not None:  # nobody was seen running
            since = status.attempt.planned_at
    else:
        is_over = before in _ALIVE and status.phase not in _ALIVE
        since = status.attempt.started_at if status.attempt is not None else ""
    start = parse_time(since)
    if not is_over or start is None:
        return status
    seconds = max(0, round((now - start).total_seconds() * _size_fraction(run)))
    earlier = status.ran.seconds if status.ran is not None else 0
    return msgspec.structs.replace(status, ran=Ran(seconds=earlier + seconds, until=format_time(now)))


def _size_fraction(run: Run) -> float:
    """How much of its full size an elastic gang has; all else is always whole."""
    attempt = run.status.attempt
    return attempt.world_size / run.replicas if run.fewest is not None and attempt is not None else 1.0


_ALIVE = (Phase.STARTING, Phase.RUNNING)


def finish(
    status: RunStatus, phase: Phase, reason: Reason, message: str, now: datetime, *, exit_code: int | None = None
) -> RunStatus:
    """The status of a run that is over."""
    return msgspec.structs.replace(
        status, phase=phase, reason=reason, message=message[:1000], exit_code=exit_code, finished_at=format_time(now)
    )


def refuse(status: RunStatus, message: str, generation: int, now: datetime) -> RunStatus:
    """The status of a run that policy refuses, wherever it came from: final, with every reason, and no Pod."""
    status = msgspec.structs.replace(status, observed_generation=generation)
    return finish(status, Phase.FAILED, Reason.REFUSED, message, now)


def run_without_spec(type: Literal["batch", "service"], generation: int, status: RunStatus, deleting: bool) -> Run:
    """A run of which only the status can be believed, since its spec is refused now: it may end, nothing else."""
    template = status.attempt.pod_template if status.attempt else {}
    grace = template.get("spec", {}).get("terminationGracePeriodSeconds", Limits().grace_seconds)
    attempted = len(expand(status.attempt.nodes)) if status.attempt else 0
    if status.sweep is not None:
        covered = node_by_rank(status.attempt) if status.attempt else {}
        sweep = Sweep(tuple(sorted(members_without_nodes(status.sweep).union(covered))), at_once=0)
        total, limits = status.members.total, Limits(grace_seconds=grace)
        return Run(type, total, limits, status, deleting=deleting, generation=generation, sweep=sweep)
    members = max(status.members.total, attempted) if type == "service" else attempted
    return Run(type, members, Limits(grace_seconds=grace), status, deleting=deleting, generation=generation)


def with_backoff(status: RunStatus, limits: Limits, now: datetime) -> tuple[RunStatus, int]:
    """After a start that failed: the status that says when the next may come, and the pause in seconds, which grows."""
    failed_starts = status.failed_starts + 1
    doublings = min(failed_starts - 1, 16)
    seconds = min(limits.start_pause_seconds * 2**doublings, limits.start_pause_max_seconds)
    not_before = format_time(now + timedelta(seconds=seconds))
    return msgspec.structs.replace(status, failed_starts=failed_starts, not_before=not_before), seconds


def start_patience_seconds(limits: Limits, worst: Member | None) -> int:
    """How long a start may take, when this is its worst member."""
    if worst is not None and worst.reason in (Reason.UNSCHEDULED, Reason.STORAGE):
        return min(limits.start_deadline_seconds, UNSCHEDULED_PATIENCE_SECONDS)
    return limits.start_deadline_seconds


def with_reason(status: RunStatus, reason: Reason, message: str) -> RunStatus:
    """The status with other words about why it is in its phase."""
    return msgspec.structs.replace(status, reason=reason, message=message)


def blame_node(status: RunStatus, member: Member) -> RunStatus:
    """Remembers on which node a member failed, unless the failure says nothing about the node."""
    if not member.node or member.reason in _NOT_THE_NODE:
        return status
    failures = dict(status.avoid_nodes)
    failures[member.node] = failures.pop(member.node, 0) + 1
    while len(failures) > _REMEMBERED_NODES:
        del failures[next(iter(failures))]
    return msgspec.structs.replace(status, avoid_nodes=failures)


def blame_late(status: RunStatus, attempt: Attempt, late: Iterable[Member]) -> RunStatus:
    """Remembers on which nodes members did not come up: those that were planned, where nobody let them there."""
    planned = node_by_rank(attempt)
    for member in late:
        status = blame_node(status, replace(member, node=member.node or planned.get(member.rank, "")))
    return status


def note_unstarted(status: RunStatus, attempt: Attempt, failed: Sequence[Member], now: datetime) -> RunStatus:
    """Remembers which node alone kept an attempt from starting. failed: all members that did not come up, the worst
    first; where these are on several nodes it is none's fault, nor where another Pod was quicker."""
    planned = node_by_rank(attempt)
    nodes = {member.node or planned.get(member.rank, "") for member in failed}
    if len(nodes) != 1 or "" in nodes:
        return status
    (node,), worst = nodes, failed[0]
    reason = Reason.START_DEADLINE if worst.reason in (Reason.NONE, Reason.CREATING) else worst.reason
    if reason not in _MAY_BE_THE_NODE or any(said in worst.message for said in _NODE_TAKEN_MEANWHILE):
        return status
    (note,) = notes_of([replace(worst, node=node, reason=reason, ended_at=format_time(now))])
    others = [each for each in status.unstarted if each.node != node]
    return msgspec.structs.replace(status, unstarted=[*others, note][-_REMEMBERED_STARTS:])


_MAY_BE_THE_NODE = (
    Reason.START_DEADLINE,
    Reason.IMAGE_PULL,
    Reason.VOLUME,
    Reason.CONTAINER_CONFIG,
    Reason.KUBELET_REFUSED,
    Reason.FIRST_STEP_FAILED,
)

_NODE_TAKEN_MEANWHILE = ("Node didn't have enough resource", "OutOf", "Predicate ")
"""In what a kubelet says that took another Pod meanwhile, or whose node was changed."""

_NOT_THE_NODE = (
    Reason.STORAGE,
    Reason.OUT_OF_MEMORY,
    Reason.PREEMPTED,
    Reason.MEMBER_DELETED,
    Reason.FIRST_STEP_REFUSED,
    Reason.FIRST_STEP_NO_PEERS,
    Reason.FIRST_STEP_NO_CODE,
)

_SLOWNESS = (
    Reason.ADMISSION,
    Reason.QUOTA,
    Reason.KUBELET_REFUSED,
    Reason.CONTAINER_CONFIG,
    Reason.IMAGE_PULL,
    Reason.VOLUME,
    Reason.STORAGE,
    Reason.UNSCHEDULED,
)


def worst_of(waiting: Sequence[Member]) -> Member | None:
    """Of the members that wait, the one whose reason is the least likely to go away by itself."""
    return min(
        waiting, key=lambda m: (_SLOWNESS.index(m.reason) if m.reason in _SLOWNESS else 99, m.rank), default=None
    )


def earliest(*moments: datetime | None) -> datetime | None:
    """The first of these moments; None where there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


def members_text(count: int) -> str:
    """`1 member`, `2 members`."""
    return "1 member" if count == 1 else f"{count} members"
