"""Stacks of a run's ranks, taken by the leading controller: several times from a run that may be stuck, and once from
the survivors of a failed gang before they are ended.

The controller asks as one server asks another, through the store that all of them share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from kajitori.blobs.questions import Asked, Questions
from kajitori.blobs.stacks import KeptStacks
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of, nodes_and_addresses
from kajitori.controllers.watching.stuck import Looked
from kajitori.core.gang import MemberState
from kajitori.core.telemetry.evidence import Evidence, Occasion, read
from kajitori.core.telemetry.report import MAX_ASKED
from kajitori.core.telemetry.stacks import MemberStacks
from kajitori.core.telemetry.stuck import Finding, stood_still, told
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
"""Longest wait for the nodes of a run that may be stuck."""
PAUSES_SECONDS = (1.0, 3.0, 6.0)
"""Times between the looks at the same processes. The last looks are late because a healthy program may spend seconds in
one call, for example in a batch of an evaluation."""
BEFORE_END_SECONDS = 5.0
"""Longest wait for stacks before the survivors of a failed gang are ended."""


class StackTaker:
    """Takes stacks and keeps them."""

    def __init__(self, questions: Questions, kept: KeptStacks, mirror: Mirror, now: Callable[[], datetime]) -> None:
        self._questions = questions
        self._kept = kept
        self._mirror = mirror
        self._now = now
        self._taken: dict[str, int] = {}
        """By the run's UID: the last attempt whose end has evidence, or was tried to get some."""

    async def of_suspected(self, run: RunObject, attempt: int, finding: Finding) -> Looked:
        """Look several times at the processes of all ranks, until one has moved, and keep what was seen last. Raises
        the errors of the store."""
        pods = self._running(run, attempt)
        first = shown = await self._ask(pods, ANSWER_SECONDS)
        if not first:
            return Looked(None, ("Where its processes are is not known: no agent of its nodes answered.",))
        is_still: bool | None = None
        for pause in PAUSES_SECONDS:
            await asyncio.sleep(pause)
            again = await self._ask(pods, ANSWER_SECONDS)
            if not again:
                break
            shown = again
            is_still = stood_still(
                {rank: each.processes for rank, each in first.items()},
                {rank: each.processes for rank, each in again.items()},
            )
            if not is_still:
                break
        nodes, addresses = nodes_and_addresses(pods)
        reading = read(shown, nodes, addresses)
        meta = run.metadata
        words = told(finding, is_still=is_still)
        evidence = Evidence(Occasion.STUCK, self._now().timestamp(), words, shown, nodes, addresses)
        await self._kept.keep(meta.namespace, meta.uid, attempt, evidence)
        hint = f"For details: kaji why --attempt {attempt} {meta.name}"
        return Looked(is_still, (reading.summary(nodes), hint), reading.odd)

    async def before_end(self, run: RunObject, attempt: int, why: str, seconds: float) -> None:
        """Keep what the members that still run do now, once for an attempt, within this time."""
        meta = run.metadata
        if self._taken.get(meta.uid, 0) >= attempt or seconds <= 0:
            return
        self._taken[meta.uid] = attempt
        pods = self._running(run, attempt)
        if not pods:
            return
        try:
            found = await self._ask(pods, min(seconds, BEFORE_END_SECONDS))
            if found:
                at = self._now().timestamp()
                evidence = Evidence(Occasion.END, at, why, found, *nodes_and_addresses(pods))
                await self._kept.keep(meta.namespace, meta.uid, attempt, evidence)
        except KajitoriError as error:
            log.info("stacks of run %s/%s were not kept before its end: %s", meta.namespace, meta.name, error)

    def forget(self, run_uid: str) -> None:
        """Forget a deleted run."""
        self._taken.pop(run_uid, None)

    def _running(self, run: RunObject, attempt: int) -> dict[int, Pod]:
        """Return the Pods of the attempt's members that run on nodes that answer, by rank."""
        found = {}
        for pod in self._mirror.pods_of_run(run):
            member = member_of(pod, self._mirror.nodes)
            runs = member is not None and member.state is MemberState.RUNNING and member.node_ready
            if member is not None and runs and member.attempt == attempt and pod.spec.node_name:
                found[member.rank] = pod
        return found

    async def _ask(self, pods: Mapping[int, Pod], seconds: float) -> dict[int, MemberStacks]:
        by_node: dict[str, list[str]] = {}
        rank_of = {pod.metadata.uid: rank for rank, pod in pods.items()}
        for pod in pods.values():
            by_node.setdefault(pod.spec.node_name, []).append(pod.metadata.uid)
        asked = [
            Asked(node, tuple(uids[first : first + MAX_ASKED]), stacks=True)
            for node, uids in by_node.items()
            for first in range(0, len(uids), MAX_ASKED)
        ]
        answers = await self._questions.ask(asked, seconds)
        return {rank_of[each.uid]: each for answer in answers.values() for each in answer.stacks if each.uid in rank_of}
