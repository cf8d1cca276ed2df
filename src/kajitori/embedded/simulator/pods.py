"""The Pods of all simulated nodes: performs each Pod's next step when it is due."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec

from kajitori import errors
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.objects import Pod
from kajitori.embedded.simulator.addresses import NodeAddresses
from kajitori.embedded.simulator.admission import NodeUse
from kajitori.embedded.simulator.behaviour import Step, next_step
from kajitori.embedded.simulator.settings import SimSettings
from kajitori.embedded.simulator.timers import Timers
from kajitori.embedded.tasks import Background
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventContent, EventRecorder
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import PODS

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
CONCURRENT_PODS = 64
"""Number of Pods that are worked on at the same time; the client's own limiter may allow fewer requests."""


class SimulatedPods:
    """Handles a Pod whenever it has changed or a time is due. `numbers` are the nodes' numbers by name."""

    def __init__(
        self, client: KubeClient, settings: SimSettings, numbers: Mapping[str, int], clock: Callable[[], datetime]
    ) -> None:
        self.client = client
        self.settings = settings
        self.pods: dict[Key, Pod] = {}
        self.labels: dict[str, Mapping[str, str]] = {}
        """Labels of the nodes, for the kubelet's check of node affinity."""
        self._numbers = numbers
        self._clock = clock
        self._silent: set[str] = set()
        self._of_node: defaultdict[str, set[Key]] = defaultdict(set)
        self._addresses = {name: NodeAddresses(settings.pod_network, number) for name, number in numbers.items()}
        self._admission = NodeUse(settings)
        self._due: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._deleted: set[str] = set()
        """UIDs of Pods that the API server has deleted, until the watch shows it. An earlier event of the watch must
        not lead to a second deletion."""
        self._timers: Timers[Key] = Timers()
        self._wake = asyncio.Event()
        self._background = Background()

    def see(self, key: Key, pod: Pod | None) -> None:
        """Take the newest state of a Pod on any node; None if it was deleted."""
        old = self.pods.get(key)
        if old is not None and (pod is None or pod.metadata.uid != old.metadata.uid):
            self._forget(key, old)
        if pod is None or pod.spec.node_name not in self._numbers:
            return
        if old is not None and pod.metadata.uid == old.metadata.uid and not _is_newer(pod, old):
            return
        self._remember(key, pod)
        self._mark_due(key)

    def listed(self, pods: Mapping[Key, Pod]) -> None:
        """Take all Pods from a list, even if older than known: an API server that was restored from a backup lacks
        later writes. (If an answer overtook the list, the watch delivers the newer version at once.)"""
        for key, pod in pods.items():
            old = self.pods.get(key)
            if old is not None and old.metadata.uid == pod.metadata.uid and _is_newer(old, pod):
                self._deleted.discard(pod.metadata.uid)
                self._remember(key, pod)
                self._mark_due(key)

    def set_silent(self, node: str, silent: bool) -> None:
        """Set whether a node is silent: its Pods are neither updated nor deleted then."""
        if silent:
            self._silent.add(node)
        elif node in self._silent:
            self._silent.discard(node)
            for key in self._of_node[node]:
                self._mark_due(key)

    def of_node(self, node: str) -> list[Pod]:
        """Return the known Pods of a node."""
        return [self.pods[key] for key in self._of_node.get(node, ())]

    async def work(self) -> None:
        """Handle Pods until cancelled."""
        try:
            while True:
                now = self._clock()
                for key in self._timers.pop_due(now):
                    self._mark_due(key)
                while self._due and len(self._background) < CONCURRENT_PODS:
                    key = next(iter(self._due))
                    del self._due[key]
                    self._begin(key, now)
                await self._pause(now)
        finally:
            await self._background.cancel()

    async def _pause(self, now: datetime) -> None:
        self._wake.clear()
        if self._due and len(self._background) < CONCURRENT_PODS:
            return
        due = self._timers.next_due()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else max(0.0, (due - now).total_seconds())):
                await self._wake.wait()

    def _begin(self, key: Key, now: datetime) -> None:
        pod = self.pods.get(key)
        if pod is None or key in self._busy or pod.spec.node_name in self._silent:
            return
        if pod.metadata.uid in self._deleted:
            return
        node = pod.spec.node_name
        refusal = None
        if self.settings.check_admission and pod.status.start_time is None and not pod.is_finished:
            refusal = self._admission.refusal(pod, self.labels.get(node, {}))
        address = host = self.settings.address
        if refusal is None and not pod.is_finished:
            try:
                if not pod.spec.host_network:
                    address = self._addresses[node].take(pod.metadata.uid, pod.status.pod_ip)
                self._admission.take(pod)
            except errors.Unavailable as cause:
                refusal = ("UnexpectedAdmissionError", cause.message)
        step = next_step(pod, now, address, host, refusal)
        if step.wake_at is not None:
            self._timers.set(key, step.wake_at)
        if step.status is not None or step.delete:
            self._busy.add(key)
            self._background.start(self._execute(key, pod, step))

    async def _execute(self, key: Key, pod: Pod, step: Step) -> None:
        namespace, name = key
        uid = pod.metadata.uid
        try:
            if step.delete:
                await self.client.delete(PODS, name, namespace, grace_seconds=0, uid=uid)
                if (known := self.pods.get(key)) is not None and known.metadata.uid == uid:
                    self._deleted.add(uid)
            elif step.status is not None:
                if step.system_oom:
                    await self._record_system_oom(pod.spec.node_name)
                patch = {"metadata": {"uid": uid}, "status": step.status}
                written = await self.client.patch(
                    PODS, name, patch, namespace, kind=PatchKind.STRATEGIC, subresource="status"
                )
                self._busy.discard(key)
                known = self.pods.get(key)
                if known is not None and known.metadata.uid == uid:  # it still exists
                    with contextlib.suppress(msgspec.ValidationError):  # otherwise the watch delivers it a moment later
                        self.see(key, msgspec.convert(written, Pod))
        except errors.NotFound:
            log.debug("pod %s/%s no longer exists", namespace, name)
        except errors.KajitoriError as cause:
            log.warning("pod %s/%s could not be updated, trying again: %s", namespace, name, cause)
            self._timers.set(key, self._clock() + timedelta(seconds=RETRY_SECONDS))
        finally:
            self._busy.discard(key)
            if self.pods.get(key) is not pod:
                self._mark_due(key)
            self._wake.set()

    async def _record_system_oom(self, node: str) -> None:
        """Record the Event by which a kubelet reports that its machine ran out of memory."""
        message = "System OOM encountered, victim process: simulated, pid: 1"
        recorder = EventRecorder(self.client, "kubelet", host=node, clock=self._clock)
        await recorder.write(EventContent(About("Node", node, node), "Warning", "SystemOOM", message))

    def _mark_due(self, key: Key) -> None:
        self._due[key] = None
        self._wake.set()

    def _remember(self, key: Key, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        self.pods[key] = pod
        self._of_node[node].add(key)
        if pod.is_finished:
            self._addresses[node].release(uid)
            self._admission.release(uid)
            return
        if pod.status.start_time is not None:
            self._admission.take(pod)
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses[node].take(uid, pod.status.pod_ip)

    def _forget(self, key: Key, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        del self.pods[key]
        self._deleted.discard(uid)
        self._of_node[node].discard(key)
        self._addresses[node].release(uid)
        self._admission.release(uid)
        self._timers.cancel(key)
        self._due.pop(key, None)


def _is_newer(pod: Pod, than: Pod) -> bool:
    """Return whether `pod` is newer than `than`. Versions of one object grow, and a watch may deliver one that is older
    than an answer."""
    mine, other = pod.metadata.resource_version, than.metadata.resource_version
    return not (mine.isdigit() and other.isdigit()) or int(mine) > int(other)
