"""Evidence that the leading controller takes from nodes: stacks of a run that may be stuck, several times and with the
latest samples; and stacks of the survivors of a failed gang before they are ended. Questions to nodes go through the
store that controllers and servers share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kajitori.blobs.questions import Asked, Questions
from kajitori.blobs.stacks import KeptStacks
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of, nodes_and_addresses
from kajitori.controllers.watching.stuck import Inspection
from kajitori.core.gang import MemberState
from kajitori.core.telemetry import spinning
from kajitori.core.telemetry.hangs import native
from kajitori.core.telemetry.hangs.evidence import Evidence, Occasion, read
from kajitori.core.telemetry.hangs.stacks import Detail, MemberStacks, ProcessStacks, newest
from kajitori.core.telemetry.report import MAX_ASKED
from kajitori.core.telemetry.stuck import Finding, describe, stayed_quiet, stood_still
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""Longest wait for the nodes of a run that may be stuck. An agent answers one question after another, and takes five
seconds for each on a busy node."""
PAUSES_SECONDS = (1.0, 3.0, 6.0)
"""Times between the looks at the same processes. The last looks are late because a healthy program may spend seconds in
one call, for example in a batch of an evaluation."""
BEFORE_END_SECONDS = 5.0
"""Longest wait for stacks before the survivors of a failed gang are ended."""
LEAST_NATIVE_SECONDS = 1.0
"""Time that must be left for calls in native code: a process needs half a second or more."""


SPIN_PAUSES_SECONDS = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
"""Times between the looks at ranks that may repeat themselves."""
SPINS = "It executes the same lines again and again: neither its calls nor their values have changed for two minutes."


class StackTaker:
    """Takes stacks and keeps them."""

    def __init__(self, questions: Questions, kept: KeptStacks, mirror: Mirror, now: Callable[[], datetime]) -> None:
        self._questions = questions
        self._kept = kept
        self._mirror = mirror
        self._now = now
        self.survivors_answer = True
        """Whether nodes answered the last question about survivors of a failed gang; true before the first one."""
        self._taken: dict[str, int] = {}
        """By the run's UID: the last attempt of which stacks were taken, or tried, at its end."""

    async def of_suspected(self, run: RunObject, attempt: int, finding: Finding) -> Inspection:
        """Look several times at the processes of all ranks, until one has moved, and keep what was seen last. Raises
        the errors of the store."""
        pods = self._running_pods(run, attempt)
        looks = [await self._ask_nodes(pods, ANSWER_SECONDS)]
        is_still: bool | None = None
        for pause in PAUSES_SECONDS if looks[0] else ():
            await asyncio.sleep(pause)
            looks.append(await self._ask_nodes(pods, ANSWER_SECONDS))
            is_still = stood_still([_processes_by_rank(look) for look in looks], pods)
            if is_still is False:
                break
        spins = is_still is False and await self._is_spinning(pods, looks)
        is_still = spins or is_still
        shown = newest(looks)
        if not shown:
            return Inspection(None, ("Where its processes are is not known: no agent of its nodes answered.",))
        nodes, addresses = nodes_and_addresses(pods)
        reading = read(shown, nodes, addresses)
        meta = run.metadata
        words = " ".join([describe(finding, is_still=is_still), *([SPINS] if spins else [])])
        evidence = Evidence(Occasion.STUCK, self._now().timestamp(), words, shown, nodes, addresses)
        await self._store_stacks(run, attempt, evidence, ANSWER_SECONDS)
        hint = f"For details: kaji why --attempt {attempt} {meta.name}"
        is_quiet = bool(is_still) and await self._stayed_quiet(pods, finding.until)
        return Inspection(is_still, (reading.summary(nodes), *([SPINS] if spins else []), hint), reading.odd, is_quiet)

    async def _stayed_quiet(self, pods: Mapping[int, Pod], since: float) -> bool:
        """Whether the nodes of all ranks saw no progress since this time."""
        answers = await self._questions.ask(_questions_to_nodes(pods, since=since, fresh=True), ANSWER_SECONDS)
        quiet = {
            member.uid
            for answer in answers.values()
            for member in answer.members
            if stayed_quiet(answer, member, since)
        }
        return all(pod.metadata.uid in quiet for pod in pods.values())

    async def _is_spinning(self, pods: Mapping[int, Pod], looks: Sequence[Mapping[int, MemberStacks]]) -> bool:
        """Whether all ranks that move repeat themselves for two minutes, and all others wait at the same lines."""
        moving = spinning.moving([_processes_by_rank(look) for look in looks], pods)
        if not moving:
            return False
        suspects = {rank: pods[rank] for rank in moving}
        again: list[dict[int, MemberStacks]] = []
        for pause in SPIN_PAUSES_SECONDS:
            await asyncio.sleep(pause)
            again.append(await self._ask_nodes(suspects, ANSWER_SECONDS, Detail.VALUES))
            if not spinning.repeats(again, moving):
                return False
        others = {rank: pod for rank, pod in pods.items() if rank not in suspects}
        before = {rank: each for rank, each in looks[-1].items() if rank in others}
        waited = [_processes_by_rank(before), _processes_by_rank(await self._ask_nodes(others, ANSWER_SECONDS))]
        return stood_still(waited, others) is True

    async def before_end(self, run: RunObject, attempt: int, why: str, seconds: float) -> None:
        """Store the stacks of the members that still run, once for an attempt, within this time."""
        meta = run.metadata
        if self._taken.get(meta.uid, 0) >= attempt or seconds <= 0:
            return
        self._taken[meta.uid] = attempt
        pods = self._running_pods(run, attempt)
        if not pods:
            return
        clock = asyncio.get_running_loop().time
        until = clock() + min(seconds, BEFORE_END_SECONDS)
        self.survivors_answer = False
        try:
            found = await self._ask_nodes(pods, until - clock())
            self.survivors_answer = bool(found)
            if found:
                at = self._now().timestamp()
                evidence = Evidence(Occasion.END, at, why, found, *nodes_and_addresses(pods))
                await self._store_stacks(run, attempt, evidence, until - clock())
        except KajitoriError as error:
            log.info("stacks of run %s/%s were not kept before its end: %s", meta.namespace, meta.name, error)

    async def _store_stacks(self, run: RunObject, attempt: int, evidence: Evidence, seconds: float) -> None:
        """Keep stacks; then ask a few ranks for their calls in native code within this time, and keep these too."""
        meta = run.metadata
        await self._kept.keep(meta.namespace, meta.uid, attempt, evidence)
        reading, pods = read(evidence.ranks, evidence.nodes, evidence.addresses), self._running_pods(run, attempt)
        chosen = {rank: pods[rank] for rank in native.representatives(reading.groups) if rank in pods}
        if not chosen or seconds < LEAST_NATIVE_SECONDS:
            return
        try:
            ranks = native.added(evidence.ranks, await self._ask_nodes(chosen, seconds, Detail.NATIVE))
            if ranks != evidence.ranks:
                more = msgspec.structs.replace(evidence, ranks=ranks)
                await self._kept.keep(meta.namespace, meta.uid, attempt, more)
        except KajitoriError as error:
            log.info("native calls of run %s/%s were not kept: %s", meta.namespace, meta.name, error)

    def forget(self, run_uid: str) -> None:
        """Forget a deleted run."""
        self._taken.pop(run_uid, None)

    def _running_pods(self, run: RunObject, attempt: int) -> dict[int, Pod]:
        """Return the Pods of the attempt's members that run on nodes that answer, by rank."""
        found = {}
        for pod in self._mirror.pods_of_run(run):
            member = member_of(pod, self._mirror.nodes)
            runs = member is not None and member.state is MemberState.RUNNING and member.node_ready
            if member is not None and runs and member.attempt == attempt and pod.spec.node_name:
                found[member.rank] = pod
        return found

    async def _ask_nodes(
        self, pods: Mapping[int, Pod], seconds: float, detail: Detail = Detail.PLAIN
    ) -> dict[int, MemberStacks]:
        rank_of = {pod.metadata.uid: rank for rank, pod in pods.items()}
        answers = await self._questions.ask(_questions_to_nodes(pods, stacks=True, detail=detail), seconds)
        return {rank_of[each.uid]: each for answer in answers.values() for each in answer.stacks if each.uid in rank_of}


def _questions_to_nodes(pods: Mapping[int, Pod], **what: Any) -> list[Asked]:
    """Return the questions to the nodes of these Pods; `what` is asked for."""
    by_node: dict[str, list[str]] = {}
    for pod in pods.values():
        by_node.setdefault(pod.spec.node_name, []).append(pod.metadata.uid)
    return [
        Asked(node, tuple(uids[first : first + MAX_ASKED]), **what)
        for node, uids in by_node.items()
        for first in range(0, len(uids), MAX_ASKED)
    ]


def _processes_by_rank(look: Mapping[int, MemberStacks]) -> dict[int, tuple[ProcessStacks, ...]]:
    return {rank: each.processes for rank, each in look.items()}
