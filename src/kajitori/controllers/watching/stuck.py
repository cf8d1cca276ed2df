"""The watcher for runs that make no progress. It suspects a run because of its telemetry, and calls it stuck once looks
at its processes show that they stand still.

The Run's status stores the suspicion. Everything else is in memory, and a new leader derives it from history again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from kajitori.cluster.mirror.mirror import Key
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.controllers.watching.feed import Round
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.formats.times import format_time, parse_time, time_at
from kajitori.core.policy.idle import use_of
from kajitori.core.policy.model import Policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.suspicions import Stuck
from kajitori.core.telemetry.stuck import Finding, Patience, Rhythm, Verdict, describe
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 600.0
"""Time after which the processes of a suspected run are inspected again."""
UNSEEN_AGAIN_SECONDS = 120.0
"""The same if no process could be read, because nodes were too busy to answer."""
SILENT_SECONDS = 600.0
"""Age of the newest minute of an attempt from which on its nodes count as silent."""
MESSAGE_LIMIT = 800
"""Characters of a suspicion's message that are kept."""
RUNS_IN_LOOP = 200
"""Runs that are judged before other tasks get their turn."""
LOOKS_AT_ONCE = 4
"""Most suspected runs that are asked for stacks at the same time."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of several looks at the processes of a run."""

    is_still: bool | None
    """Whether no process moved between the looks; None if no process could be read."""
    words: tuple[str, ...] = ()
    """Sentences for the status: which ranks stand out, or why no process could be read. They name no function of the
    program, because all users who may read the run read them."""
    odd: tuple[int, ...] = ()
    """Ranks for which the others seem to wait."""
    is_quiet: bool = False
    """Whether the nodes of all ranks saw no progress up to the last look."""


class Evidence(Protocol):
    """Looks at the processes of runs."""

    async def of_suspected(self, run: RunObject, attempt: int, finding: Finding) -> Inspection:
        """Look several times at the processes of all ranks, and keep the last look. Raises the errors of the store."""
        ...


@dataclass(slots=True)
class _Watched:
    """The judgement of one attempt so far."""

    attempt: int
    rhythm: Rhythm = field(default_factory=Rhythm)
    finding: Finding = field(default_factory=lambda: Finding(Verdict.UNKNOWN))
    look: asyncio.Task[None] | None = None
    inspection: Inspection | None = None
    """The result of the last look."""
    looked_at: float = 0.0
    inspected_since: float = 0.0
    """Beginning of the quiet time in which the last look began."""

    @property
    def quiet_since(self) -> float:
        """End of the last minute with progress."""
        return self.rhythm.end - self.rhythm.quiet_seconds

    @property
    def evidence(self) -> Inspection | None:
        """The result of the last look, if it is about this quiet time.

        Bands are minutes late, and the run may have gone on meanwhile. So processes that stood still count only if
        their nodes saw no progress up to the look, or once the bands show none.
        """
        inspection = self.inspection
        if inspection is None or self.inspected_since != self.quiet_since:
            return None
        is_open = inspection.is_still and not inspection.is_quiet and self.rhythm.end < self.looked_at
        return None if is_open else inspection


class StuckWatcher:
    """Judges running gangs, and adds suspicions to their statuses."""

    def __init__(
        self,
        specs: StoredSpecs,
        policy: Callable[[], Policy],
        tell: Callable[[Key], None],
        evidence: Evidence | None,
        now: Callable[[], datetime],
    ) -> None:
        """`tell` is called with the key of a Run when its status has to change. Without `evidence` no run is found to
        be stuck; it stays suspected."""
        self._specs = specs
        self._policy = policy
        self._tell = tell
        self._evidence = evidence
        self._now = now
        self._known: dict[str, _Watched] = {}
        """By the UID of the Run."""
        self._slots = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._heard = 0.0
        """End of the newest interval of any run, in seconds since 1970."""

    async def watch(self, seen: Round) -> None:
        """Judge the runs with new intervals."""
        for uid in self._known.keys() - seen.runs.keys():
            self._forget(uid)
        for number, (uid, intervals) in enumerate(seen.fresh.items()):
            if number % RUNS_IN_LOOP == 0:
                await asyncio.sleep(0)
            self._heard = max([self._heard, *(each.start + each.seconds for each in intervals)])
            run = seen.runs[uid]
            patience, attempt = self._patience_of(run), run.status.attempt if run.status is not None else None
            if patience is None or attempt is None:
                self._forget(uid)
                continue
            known = self._known.get(uid)
            if known is None or known.attempt != attempt.number:
                self._forget(uid)
                known = self._known[uid] = _Watched(attempt.number)
            of_attempt = [each for each in intervals if each.attempt == attempt.number]
            known.rhythm.take_all(of_attempt, run.current_status.members.left)
            known.finding = known.rhythm.judge(seen.until, patience)
            self._start_look_if_due(run, known)

    def save_state(self) -> bytes:
        """Return the rhythm of each run. Looks are not part of it: what they showed is in the statuses."""
        return msgspec.msgpack.encode({uid: (known.attempt, known.rhythm) for uid, known in self._known.items()})

    def restore_state(self, state: bytes) -> None:
        """Restore the rhythms that another leader's watcher saved."""
        found = msgspec.msgpack.decode(state, type=dict[str, tuple[int, Rhythm]]) if state else {}
        for uid in list(self._known):
            self._forget(uid)
        self._known = {uid: _Watched(attempt, rhythm) for uid, (attempt, rhythm) in found.items()}
        self._heard = max((rhythm.end for _, rhythm in found.values()), default=0.0)

    def noted(self, run: RunObject, status: RunStatus) -> RunStatus:
        """Return the status with the suspicion that follows from telemetry, or without one that is over."""
        known, attempt, before = self._known.get(run.metadata.uid), status.attempt, status.stuck
        if known is None or attempt is None or known.attempt != attempt.number or status.phase is not Phase.RUNNING:
            return status
        if before is not None and known.rhythm.progresses:
            return msgspec.structs.replace(status, stuck=None)
        if before is None and known.finding.verdict is not Verdict.SUSPECTED:
            return status
        return msgspec.structs.replace(status, stuck=self._updated_suspicion(known, before))

    def measures(self, run_uid: str, attempt: Attempt) -> bool:
        """Whether the nodes of this attempt probably answer questions, because they have reported lately. If a young
        attempt has not reported yet, reports of other attempts and runs count."""
        now, known = self._now().timestamp(), self._known.get(run_uid)
        if known is not None and known.attempt == attempt.number and known.rhythm.end:
            return now - known.rhythm.end < SILENT_SECONDS
        started = parse_time(attempt.started_at or attempt.planned_at)
        is_young = started is not None and now - started.timestamp() < SILENT_SECONDS
        return is_young and now - self._heard < SILENT_SECONDS

    async def close(self) -> None:
        """Cancel what is under way. The next leader looks again."""
        looks = [known.look for known in self._known.values() if known.look is not None]
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _updated_suspicion(self, known: _Watched, before: Stuck | None) -> Stuck:
        stuck, inspection = before, known.evidence
        if stuck is None:
            since = format_time(time_at(known.quiet_since))
            stuck = Stuck(since=since, attempt=known.attempt, message=describe(known.finding, is_still=None))
        looked_at = format_time(time_at(known.looked_at))
        if inspection is None or stuck.looked_at == looked_at:
            return stuck
        sentences = (describe(known.finding, is_still=inspection.is_still), *inspection.words)
        return msgspec.structs.replace(
            stuck,
            verdict=Verdict.STUCK.value if inspection.is_still else Verdict.SUSPECTED.value,
            message=" ".join(sentences)[:MESSAGE_LIMIT],
            ranks=compress_ranks(inspection.odd) if inspection.odd else "",
            looked_at=looked_at,
        )

    def _start_look_if_due(self, run: RunObject, known: _Watched) -> None:
        key = run.metadata.namespace, run.metadata.name
        before = run.status.stuck if run.status is not None else None
        if known.finding.verdict is not Verdict.SUSPECTED:
            if before is not None and known.rhythm.progresses:
                self._tell(key)
            return
        if before is None or (known.evidence is not None and parse_time(before.looked_at) != time_at(known.looked_at)):
            self._tell(key)
        if known.look is not None and not known.look.done():
            return
        now = self._now().timestamp()
        looked_at = parse_time(before.looked_at) if before is not None else None
        last = max(known.looked_at, looked_at.timestamp() if looked_at is not None else 0.0)
        is_stuck = before is not None and before.verdict == Verdict.STUCK
        is_unseen = known.inspection is not None and known.inspection.is_still is None
        if not is_stuck and now - last >= (UNSEEN_AGAIN_SECONDS if is_unseen else LOOK_AGAIN_SECONDS):
            known.look = asyncio.create_task(self._look_at(run, known))

    async def _look_at(self, run: RunObject, known: _Watched) -> None:
        try:
            async with self._slots:
                began_in = known.quiet_since
                inspection = await self._inspect(run, known)
        except Exception:
            log.exception("the processes of run %s/%s were not looked at", run.metadata.namespace, run.metadata.name)
            return
        known.inspection, known.inspected_since, known.looked_at = inspection, began_in, int(self._now().timestamp())
        self._tell((run.metadata.namespace, run.metadata.name))

    async def _inspect(self, run: RunObject, known: _Watched) -> Inspection:
        if self._evidence is None:
            return Inspection(None, ("Where its processes are is not known: the controller has no store (--blobs).",))
        try:
            return await self._evidence.of_suspected(run, known.attempt, known.finding)
        except KajitoriError as error:
            return Inspection(None, (f"Where its processes are is not known: {error.message}.",))

    def _patience_of(self, run: RunObject) -> Patience | None:
        spec = self._specs.of(run)
        use = use_of(spec.type, has_ports=spec.has_ports)
        return None if spec.is_sweep else self._policy().stuck.patience(use, spec.stuck_after_seconds)

    def _forget(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is not None and known.look is not None:
            known.look.cancel()
