"""The watcher for idle GPUs. It finds them in the telemetry; the reconciler writes the finding to the Run's status. If
only some GPUs of a run may be idle, it asks their nodes which, one run at a time. The question to the owner follows
from the status, the finding and the time (`core.messages.idle_question`), so that it survives a change of the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Protocol

import msgspec

from kajitori.blobs.questions import Asked, Questions
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.watching.feed import Round
from kajitori.controllers.workqueue import Key
from kajitori.core.messages.idle_question import held_by_attempt, with_question
from kajitori.core.policy.idle import use_of
from kajitori.core.spec.status import RunStatus
from kajitori.core.telemetry.bands import Place
from kajitori.core.telemetry.idle import Finding, Limits, Verdict, Watched, idle_places, judge, watch_all
from kajitori.core.telemetry.report import MAX_ASKED, gpu_columns
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

LOOK_SECONDS = 3600.0
"""Time between two questions to the nodes of one run: nodes have the samples of the last hour."""
ANSWER_SECONDS = 20.0
MOST_RANKS = 64
"""Largest number of a run's ranks about which nodes are asked."""
FRESH_SECONDS = 600.0
"""Age of a finding beyond which it says nothing about now."""


class GpuInspector(Protocol):
    """Finds out which GPUs of a run are idle."""

    async def idle_gpus(self, run: RunObject, least_rank: int, limits: Limits) -> tuple[Place, ...] | None:
        """Return the GPUs of the run that were idle in the last hour; None if no node answered. Asks about MOST_RANKS
        ranks, from `least_rank` on. Raises the errors of the store."""
        ...


class NodeGpuInspector:
    """Asks nodes through the store that all servers share."""

    def __init__(self, questions: Questions, mirror: Mirror, now: Callable[[], datetime]) -> None:
        self._questions = questions
        self._mirror = mirror
        self._now = now

    async def idle_gpus(self, run: RunObject, least_rank: int, limits: Limits) -> tuple[Place, ...] | None:
        rank_of: dict[str, int] = {}
        by_node: dict[str, list[str]] = {}
        for rank, pod in self._running_members(run, least_rank):
            rank_of[pod.metadata.uid] = rank
            by_node.setdefault(pod.spec.node_name, []).append(pod.metadata.uid)
        since = self._now().timestamp() - LOOK_SECONDS
        asked = [
            Asked(node, tuple(uids[first : first + MAX_ASKED]), since)
            for node, uids in by_node.items()
            for first in range(0, len(uids), MAX_ASKED)
        ]
        answers = await self._questions.ask(asked, ANSWER_SECONDS)
        samples = {
            Place(rank_of[member.uid], gpu): columns
            for answer in answers.values()
            for member in answer.members
            if member.uid in rank_of
            for gpu, columns in enumerate(gpu_columns(answer, member))
        }
        return tuple(await asyncio.to_thread(idle_places, samples, limits)) if samples else None

    def _running_members(self, run: RunObject, least_rank: int) -> list[tuple[int, Pod]]:
        """Return rank and Pod of MOST_RANKS running members, from `least_rank` on."""
        found = {}
        for pod in self._mirror.pods_of_run(run):
            if pod.member is not None and pod.member.rank >= least_rank and pod.status.phase == "Running":
                found[pod.member.rank] = pod
        return sorted(found.items(), key=itemgetter(0))[:MOST_RANKS]


class IdleWatcher:
    """Follows the GPUs of running runs. It keeps a few numbers of each."""

    def __init__(
        self,
        view: ClusterView,
        now: Callable[[], datetime],
        wake: Callable[[Key], object],
        inspector: GpuInspector | None = None,
    ) -> None:
        """`wake` has a run reconciled. Without `inspector` it is not known which GPUs are idle while others work."""
        self._view = view
        self._now = now
        self._wake = wake
        self._looker = inspector
        self._watched: dict[str, Watched] = {}
        self._until = 0
        self._looked: dict[str, tuple[float, int, tuple[Place, ...] | None]] = {}
        """Time, attempt and outcome of the last question to the nodes of a run."""
        self._doubtful: dict[str, int] = {}
        """The attempt of each run that may have some idle GPUs, by the run's UID."""
        self._look: asyncio.Task[None] | None = None

    async def watch(self, seen: Round) -> None:
        """Take the new intervals, and wake the reconciler for runs with a status that is about to change."""
        self._until = seen.until
        self._watched = {uid: watched for uid, watched in self._watched.items() if uid in seen.runs}
        self._looked = {uid: looked for uid, looked in self._looked.items() if uid in seen.runs}
        rules = self._view.policy.idle_gpus
        if not rules.enabled:
            self._watched.clear()
        limits = rules.limits
        for uid, run in seen.runs.items():
            status = run.current_status
            if uid not in seen.fresh and status.idle is None:
                continue
            held = held_by_attempt(status) if rules.enabled and uid in seen.fresh else {}
            watched = watch_all(self._watched.get(uid), seen.fresh[uid], held, limits) if held else None
            if watched is not None:
                self._watched[uid] = watched
            self._note_doubt(run)
            if self.noted(run, status) is not status:
                self._wake((run.metadata.namespace, run.metadata.name))
        self._look_at_one(seen)

    def save_state(self) -> bytes:
        """Return the stretches of each run. Nodes are asked again."""
        return msgspec.msgpack.encode(self._watched)

    def restore_state(self, state: bytes) -> None:
        """Restore the stretches that another leader's watcher saved."""
        self._watched = msgspec.msgpack.decode(state, type=dict[str, Watched]) if state else {}

    def noted(self, run: RunObject, status: RunStatus) -> RunStatus:
        """Return the status with the finding about the run's GPUs, and with the question to its owner."""
        spec = self._view.specs.of(run)
        rules = self._view.policy.idle_gpus
        return with_question(status, self._present_finding(run), rules, spec.keep_idle_until, self._now())

    async def close(self) -> None:
        """Cancel what is under way. The next leader asks again."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)

    def _present_finding(self, run: RunObject) -> Finding | None:
        """Return the present finding about the run's GPUs; None if nothing is known."""
        uid = run.metadata.uid
        watched, now = self._watched.get(uid), self._now().timestamp()
        if watched is None or now - self._until > FRESH_SECONDS:
            return None
        spec = self._view.specs.of(run)
        use = use_of(spec.type, has_ports=spec.has_ports)
        found = judge(watched, self._view.policy.idle_gpus.patience_of(use), self._until)
        if found.verdict is Verdict.PERHAPS and uid in self._looked:
            at, attempt, places = self._looked[uid]
            if attempt == found.attempt and now - at < 2 * LOOK_SECONDS:
                found = replace(found, places=places)
        return None if found.verdict is Verdict.UNKNOWN else found

    def _note_doubt(self, run: RunObject) -> None:
        found = self._present_finding(run)
        if found is not None and found.verdict is Verdict.PERHAPS:
            self._doubtful[run.metadata.uid] = found.attempt
        else:
            self._doubtful.pop(run.metadata.uid, None)

    def _look_at_one(self, seen: Round) -> None:
        """Begin to ask the nodes of one run that may have some idle GPUs: the run that waits for the longest time."""
        if self._looker is None or (self._look is not None and not self._look.done()):
            return
        self._doubtful = {uid: attempt for uid, attempt in self._doubtful.items() if uid in self._watched}
        waiting = [(self._looked[uid][0] if uid in self._looked else 0.0, uid) for uid in self._doubtful]
        due = min(waiting, default=None)
        if due is not None and self._now().timestamp() - due[0] >= LOOK_SECONDS:
            uid = due[1]
            self._look = asyncio.create_task(self._look_at(self._looker, seen.runs[uid], self._doubtful[uid]))

    async def _look_at(self, inspector: GpuInspector, run: RunObject, attempt: int) -> None:
        meta, places = run.metadata, None
        try:
            least = self._watched[meta.uid].least_rank
            places = await inspector.idle_gpus(run, least, self._view.policy.idle_gpus.limits)
        except KajitoriError as error:
            log.info("GPUs of run %s/%s were not asked for: %s", meta.namespace, meta.name, error)
        except Exception:
            log.exception("GPUs of run %s/%s were not asked for", meta.namespace, meta.name)
        self._looked[meta.uid] = self._now().timestamp(), attempt, places
        self._wake((meta.namespace, meta.name))
