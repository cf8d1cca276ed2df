"""Memory peaks of members: read from kubelets regularly and from Pods as they end, and stored in the Run.

Only the leader reads, in one round at a time. If nodes are asked one by one, a round asks a few nodes per second,
however many there are. Readings between two writes of a Run are lost with this process, and read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform import member_memory
from kajitori.cluster.platform.member_memory import MemoryReading
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import culprit_peak, peak_of
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang import Member
from kajitori.core.gang.memory import MemberPeak, is_worth_writing, merged, with_member, with_total
from kajitori.core.policy.file import Policy
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemoryPeak
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.retry import NO_RETRY
from kajitori.kube.resources import PODS, Resource

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
"""Time limit for a kubelet's answer. It is asked again in the next round."""

AT_ONCE = 4
NODES_PER_SECOND = 5.0
"""Rate of requests to kubelets, which go through the API server's proxy."""

UNPACED = 16
"""Number of nodes that are asked without a pause between them."""

REST = 20
"""Pause after an answer of the metrics API, as a multiple of the time that it took, if policy's pause is shorter."""

OFF_SECONDS = 600.0
"""Time until a source of readings that is missing or forbidden is tried again."""

NEW_SECONDS = 120.0
"""Age of a member from which a missing reading of the metrics API is taken from its kubelet instead."""


class MemoryKeeper:
    """Collects memory peaks of runs that are not in their status yet."""

    def __init__(
        self, client: KubeClient, mirror: Mirror, tell: Callable[[Key], None], now: Callable[[], datetime]
    ) -> None:
        """`tell` is called with a Run's key whenever its peak has grown."""
        self._client = client
        self._mirror = mirror
        self._tell = tell
        self._now = now
        self._peaks: dict[str, MemoryPeak] = {}
        """Peaks by the UID of the Run."""
        self._off_until: dict[str, float] = {}
        self._metrics_seconds = 0.0
        """Time that the metrics API took for its last answer."""

    def noted(self, run: RunObject, status: RunStatus, members: Iterable[tuple[Pod, Member]]) -> RunStatus:
        """Return the status with the run's peak, merged from the status, later readings and the ends of these members.

        While no member has ended, a peak that has hardly grown is left unchanged.
        """
        uid = run.metadata.uid
        peak = merged(status.memory, self._peaks.get(uid))
        ended = False
        for pod, member in members:
            ended = ended or member.is_over
            for evidence in (peak_of(pod), culprit_peak(pod, member)):
                peak = with_member(peak, evidence) if evidence is not None else peak
        if peak is None:
            return status
        self._peaks[uid] = peak
        if peak == status.memory or not (ended or is_worth_writing(status.memory, peak)):
            return status
        return msgspec.structs.replace(status, memory=peak)

    async def ask_forever(self, policy: Callable[[], Policy]) -> None:
        """Read memory as often as policy says, and whenever a Pod ends, until cancelled."""
        unsubscribe = self._mirror.on_change(self._note)
        try:
            await self._ask_forever(policy)
        finally:
            unsubscribe()

    async def _ask_forever(self, policy: Callable[[], Policy]) -> None:
        async with KubeClient(self._client.config, retry=NO_RETRY, timeout_seconds=ASK_SECONDS) as asking:
            while True:
                pause = policy().memory.sample_every_seconds or OFF_SECONDS
                await asyncio.sleep(max(pause, REST * self._metrics_seconds))
                if policy().memory.sample_every_seconds:
                    await self.ask(asking)
                else:
                    self._forget_gone()

    async def ask(self, client: KubeClient) -> None:
        """Read the present memory use of every running member once."""
        self._forget_gone()
        wanted = {(pod.metadata.namespace, pod.metadata.name): pod for pod in self._running_pods()}
        if not wanted:
            return
        found = await self._read_metrics_api(client)
        self._record_readings(found, wanted)
        heard_of = {(figure.namespace, figure.pod) for figure in found}
        left = [pod for key, pod in wanted.items() if key not in heard_of and (not found or self._is_old(pod))]
        nodes = sorted({pod.spec.node_name for pod in left})
        if nodes:
            self._record_readings(await self._read_kubelets(client, nodes), wanted)

    # ------------------------------------------------------------------------------------------ asking

    async def _read_metrics_api(self, client: KubeClient) -> list[MemoryReading]:
        if self._is_source_off("metrics"):
            return []
        began = asyncio.get_running_loop().time()
        try:
            found = await member_memory.read_all_members(client)
            self._metrics_seconds = asyncio.get_running_loop().time() - began
            return found
        except (NotFound, Forbidden) as error:
            self._turn_source_off("metrics", f"the metrics API is not available: {error.message}")
        except (KajitoriError, TimeoutError) as error:
            log.debug("the metrics API did not answer: %s", error)
        return []

    async def _read_kubelets(self, client: KubeClient, nodes: list[str]) -> list[MemoryReading]:
        found: list[MemoryReading] = []
        slots = asyncio.Semaphore(AT_ONCE)

        async def read(node: str) -> None:
            async with slots:
                if self._is_source_off("nodes"):
                    return
                try:
                    found.extend(await member_memory.read_node(client, node))
                except Forbidden as error:
                    self._turn_source_off("nodes", f"kubelets may not be asked: {error.message}")
                except (KajitoriError, TimeoutError) as error:
                    log.debug("the kubelet of %s did not answer: %s", node, error)

        async with asyncio.TaskGroup() as group:
            for number, node in enumerate(nodes):
                if number >= UNPACED:
                    await asyncio.sleep(1 / NODES_PER_SECOND)
                if self._is_source_off("nodes"):
                    break
                group.create_task(read(node))
        return found

    def _is_source_off(self, way: str) -> bool:
        return asyncio.get_running_loop().time() < self._off_until.get(way, 0.0)

    def _turn_source_off(self, way: str, why: str) -> None:
        if way not in self._off_until:
            log.info("memory of members: %s", why)
        self._off_until[way] = asyncio.get_running_loop().time() + OFF_SECONDS

    # ------------------------------------------------------------------------------------------ what was learnt

    def _forget_gone(self) -> None:
        alive = {run.metadata.uid for run in self._mirror.runs.values()}
        self._peaks = {uid: peak for uid, peak in self._peaks.items() if uid in alive}

    def _running_pods(self) -> Iterator[Pod]:
        for run in self._mirror.runs.values():
            if run.status is None or run.status.phase.is_final:
                continue
            for pod in self._mirror.pods_of_run(run):
                if pod.status.phase == "Running" and pod.spec.node_name:
                    yield pod

    def _is_old(self, pod: Pod) -> bool:
        since = parse_time(pod.status.start_time)
        return since is None or (self._now() - since).total_seconds() > NEW_SECONDS

    def _record_readings(self, found: Iterable[MemoryReading], wanted: dict[Key, Pod]) -> None:
        """Record the readings of the wanted Pods, but not of other Pods with their names."""
        totals: dict[str, int] = defaultdict(int)
        counted: dict[str, Pod] = {}
        grown: set[str] = set()
        for figure in found:
            pod = wanted.get((figure.namespace, figure.pod))
            if pod is None or (figure.uid and figure.uid != pod.metadata.uid) or _is_before(figure, pod):
                continue
            used = max(figure.used_bytes, figure.peak_bytes)
            member = peak_of(pod, used_bytes=used, at=figure.at or format_time(self._now()))
            if member is None:
                continue
            uid = self._mirror.run_uid_of(pod)
            counted[uid] = pod
            totals[uid] += figure.used_bytes
            if self._add_peak(uid, member):
                grown.add(uid)
        for uid, total in totals.items():
            before = self._peaks.get(uid)
            after = with_total(before, total)
            if after is not None and after is not before:
                self._peaks[uid] = after
                grown.add(uid)
        for uid in grown:
            self._tell_of(counted[uid])

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        """Record the peak of an ended Pod at once, because the Pod may be deleted a moment later."""
        pod = self._mirror.pods.get((namespace, name)) if resource == PODS else None
        if pod is None or not pod.is_finished or not self._mirror.is_member(pod):
            return
        member = peak_of(pod)
        if member is not None and self._add_peak(self._mirror.run_uid_of(pod), member):
            self._tell_of(pod)

    def _add_peak(self, uid: str, member: MemberPeak) -> bool:
        before = self._peaks.get(uid)
        after = with_member(before, member)
        if after is not None:
            self._peaks[uid] = after
        return after is not before

    def _tell_of(self, pod: Pod) -> None:
        if pod.member is not None:
            self._tell((pod.metadata.namespace, pod.member.run))


def _is_before(figure: MemoryReading, pod: Pod) -> bool:
    """Whether a reading is older than the Pod, so that it is about an earlier Pod of the same name."""
    counted, started = parse_time(figure.at), parse_time(pod.status.start_time)
    return counted is not None and started is not None and counted < started
