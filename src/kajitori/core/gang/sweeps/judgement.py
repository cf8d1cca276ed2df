"""Observations of a sweep's members, merged into its ledger; each observation is counted once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from kajitori.core.formats.times import parse_time
from kajitori.core.gang.status.blamed_nodes import blame_node, note_unstarted
from kajitori.core.gang.status.member_notes import notes_of
from kajitori.core.gang.status.progress import earliest, node_by_rank, start_patience_seconds, with_backoff, with_reason
from kajitori.core.gang.sweep_ledger import Ledger, seconds_of
from kajitori.core.gang.types import Member, MemberState, Run, Sweep
from kajitori.core.spec.reading.conflicts import MAX_RESTARTS_OF_EACH
from kajitori.core.spec.reasons import (
    COUNTS_AS_RESTART,
    MAY_BE_ITS_MEMORY,
    NEVER_RESTARTED,
    START_FAILURES,
    Phase,
    Reason,
)
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import NOTABLE_LIMIT

_FATAL_FOR_ALL = (Reason.RUNS_AS_ROOT, Reason.IMAGE_UNFIT)
"""Failures caused by the image and the policy, which all members share."""


class SweepEnd(NamedTuple):
    """How a sweep ends."""

    phase: Phase
    reason: Reason
    message: str
    exit_code: int | None


class Judgement:
    """The status and the ledger of a sweep, brought up to date by `judge`."""

    def __init__(self, run: Run, sweep: Sweep, status: RunStatus, ledger: Ledger, now: datetime) -> None:
        self.status = status
        self.ledger = ledger
        self.next_deadline: datetime | None = None
        self.fatal: SweepEnd | None = None
        """The end of the sweep, if a member failed in a way that all members share."""
        self._run = run
        self._indices = frozenset(sweep.indices)
        self._now = now
        self._failed_starts: list[Member] = []
        self._late: list[Member] = []
        self._attempt = status.attempt.number if status.attempt is not None else 0
        self._restarts = self._interruptions = 0
        self._has_started = False
        """Whether a member of the present attempt has started, which ends the backoff."""
        self._has_ended = False
        self._nodes: set[str] = set()
        """Nodes that members of the sweep have or had lately."""

    def judge(self, newest: dict[int, Member]) -> None:
        """Merge the newest Pod of each member."""
        self._nodes = {member.node for member in newest.values() if member.node}
        if self.status.attempt is not None:
            self._nodes |= set(node_by_rank(self.status.attempt).values())
        for rank in sorted(newest):
            member = newest[rank]
            is_known = self.ledger.has_ended(rank) or rank in self.ledger.again
            if rank in self._indices and not is_known and not member.terminating:
                self._judge_member(member)
        if not self._run.stopped:  # a stopped run's Pods were deleted by us
            self._note_deleted(newest)
        self._apply_backoff()
        if self._restarts or self._interruptions:
            restarts = self.status.restarts + self._restarts
            self._change_status(restarts=restarts, interruptions=self.status.interruptions + self._interruptions)

    def _judge_member(self, member: Member) -> None:
        if member.state is MemberState.SUCCEEDED:
            self.ledger.succeed(member.rank, seconds_of(member, self._now))
            self._forget_failures_on(member.node)
            self._note_end(member)
        elif member.state is MemberState.FAILED:
            self._judge_failed(member)
        elif member.node and not member.node_ready:
            self._requeue_interrupted(replace(member, reason=Reason.NODE_LOST))
        elif member.node_draining:
            self._requeue_interrupted(replace(member, reason=Reason.DRAINED))
        elif member.state is MemberState.RUNNING:
            self._has_started |= member.attempt == self._attempt
            self.ledger.note_running(parse_time(member.started_at), self._now)
        elif member.reason in NEVER_RESTARTED:  # waiting does not remove this fault
            self._judge_failed(member)
        else:
            self._judge_pending(member)

    def _judge_failed(self, member: Member) -> None:
        reason, limits = member.reason, self._run.limits
        if reason in _FATAL_FOR_ALL:
            message = f"member {member.rank}: {member.message or reason.value}"
            self.fatal = SweepEnd(Phase.FAILED, reason, message, member.exit_code)
            return
        may_be_out_of_memory = not limits.memory_limited and reason in MAY_BE_ITS_MEMORY
        used = self.ledger.restarts.get(member.rank, 0)
        spent = reason in COUNTS_AS_RESTART and used >= min(limits.restarts, MAX_RESTARTS_OF_EACH)
        if reason in NEVER_RESTARTED or may_be_out_of_memory or spent:
            self._blame_for_program(member)
            self.ledger.fail(member.rank)
            self._add_note(member, used)
            self._note_end(member)
        elif reason in COUNTS_AS_RESTART:
            self._blame_for_program(member)
            self._restarts += 1
            self.ledger.restart(member.rank)
            self._note_end(member)
        elif reason in START_FAILURES:
            self._failed_starts.append(member)
        else:
            self._requeue_interrupted(member)

    def _blame_for_program(self, member: Member) -> None:
        """Count a failure of the program against its node, unless no other node could show whether it was the node."""
        if len(self._nodes) > 1:
            self.status = blame_node(self.status, member)

    def _forget_failures_on(self, node: str) -> None:
        """Forget the failures on a node on which a member succeeded: their cause was the program, not the node."""
        if node in self.status.avoid_nodes:
            rest = {one: count for one, count in self.status.avoid_nodes.items() if one != node}
            self._change_status(avoid_nodes=rest)

    def _requeue_interrupted(self, member: Member) -> None:
        """Requeue a member that ended through no fault of its own; it does not count as a restart."""
        self.status = blame_node(self.status, member)
        self._interruptions += 1
        self.ledger.again.add(member.rank)
        self.ledger.add_member_seconds([member], self._now)

    def _change_status(self, **fields: Any) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)

    def _note_end(self, member: Member) -> None:
        self.ledger.add_member_seconds([member], self._now)
        self._has_started |= member.attempt == self._attempt
        self._has_ended = True

    def _judge_pending(self, member: Member) -> None:
        created = parse_time(member.created_at)
        if created is None:
            return
        deadline = created + timedelta(seconds=start_patience_seconds(self._run.limits, member))
        if self._now >= deadline:
            self._late.append(member)
        else:
            self.next_deadline = earliest(self.next_deadline, deadline)

    def _note_deleted(self, newest: dict[int, Member]) -> None:
        """Requeue members of the attempt without a Pod or an observed end: another program deleted their Pods."""
        attempt = self.status.attempt
        if attempt is None or not attempt.created:
            return
        for rank in node_by_rank(attempt):
            is_known = self.ledger.has_ended(rank) or rank in self.ledger.again
            if rank in self._indices and not is_known and rank not in newest:
                self._interruptions += 1
                self.ledger.again.add(rank)

    def _apply_backoff(self) -> None:
        """Delay the next start after failed starts, longer with each failure in a row."""
        failed = [*self._failed_starts, *self._late]
        self.ledger.again.update(member.rank for member in failed)
        for member in self._failed_starts:
            self.status = blame_node(self.status, member)
        for member in self._late:
            self.status = blame_node(self.status, member)
        if not failed:
            if self._has_started:
                self._change_status(failed_starts=0)
            if self._has_ended and self.status.reason is Reason.QUOTA:  # the quota has room for one more
                self._change_status(not_before="")
            return
        self._interruptions += len(failed)
        not_before = parse_time(self.status.not_before)
        if not_before is not None and self._now < not_before:
            return  # other members of the same start failed before and began the backoff
        self.status, seconds = with_backoff(self.status, self._run.limits, self._now)
        if self.status.attempt is not None:
            self.status = note_unstarted(self.status, self.status.attempt, failed, self._now)
        first = failed[0]
        reason = first.reason if first.reason in START_FAILURES else Reason.START_DEADLINE
        what = first.message or reason.value
        self.status = with_reason(self.status, reason, f"member {first.rank}: {what}; tried again in {seconds} s")

    def _add_note(self, member: Member, restarts: int) -> None:
        """Add a note on a member that failed for good; the first NOTABLE_LIMIT are kept."""
        failed = [note for note in self.status.notable if note.rank in self.ledger.failed]
        if len(failed) >= NOTABLE_LIMIT:
            return
        times = f" (started again {restarts} times)" if restarts > 1 else " (started again once)" if restarts else ""
        (note,) = notes_of([member])
        note = msgspec.structs.replace(note, message=note.message[:280] + times)
        self._change_status(notable=[*failed, note])
