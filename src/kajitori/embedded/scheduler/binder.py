"""The embedded cluster's scheduler: binds each Pod without a node, or says why none fits.

It decides with `embedded.scheduler.ledger` and writes Bindings. If a Pod does not fit, it sets `PodScheduled=False`
with a message like kube-scheduler's, and tries again after a change that may help. There is no preemption.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kajitori import errors
from kajitori.core.formats.times import format_time
from kajitori.core.gpus.devices import Device
from kajitori.embedded.controllers import claims
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.objects import Claim, Node, PersistentVolume, Pod, StorageClass, WrittenClaim, condition
from kajitori.embedded.scheduler.devices import (
    CANNOT,
    NOTHING,
    DeviceState,
    Needs,
    allocation,
    asked_resources,
    claim_of_extended,
)
from kajitori.embedded.scheduler.fit import Choice, Term, demand_of, term
from kajitori.embedded.scheduler.ledger import NO_STORAGE, SCHEDULER_NAME, Decision, Ledger, Storage
from kajitori.embedded.tasks import Background, run_until
from kajitori.kube.client import KubeClient
from kajitori.kube.device_objects import PublishedClass, ResourceSlice
from kajitori.kube.events import EventRecorder
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import (
    CLAIMS,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Pause before another decision for a Pod after its Binding failed."""

REPEAT_SECONDS = 10.0
"""Shortest interval between two changes of the reason that a waiting Pod shows."""


class Binder:
    """Binds waiting Pods of `default-scheduler`. Only one may run against an API server."""

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.events = EventRecorder(client, SCHEDULER_NAME, clock=clock)
        self._monotonic, self._clock = monotonic, clock
        self._ledger = Ledger()
        self._wake = asyncio.Event()
        self._background = Background()
        self._refused_at: dict[str, float] = {}
        self._delayed: set[str] = set()
        self._is_own_cache = cache is None
        self._cache = cache if cache is not None else Cache(client)
        self._claims = self._cache.informer(CLAIMS, Claim)
        self._volumes = self._cache.informer(PERSISTENT_VOLUMES, PersistentVolume)
        self._classes = self._cache.informer(STORAGE_CLASSES, StorageClass)
        self._devices = DeviceState(
            self._cache.informer(RESOURCE_SLICES, ResourceSlice).items,
            self._cache.informer(DEVICE_CLASSES, PublishedClass).items,
            self._cache.informer(DEVICE_CLAIMS, WrittenClaim).items,
        )
        for resource, type_ in (
            (RESOURCE_SLICES, ResourceSlice),
            (DEVICE_CLASSES, PublishedClass),
            (DEVICE_CLAIMS, WrittenClaim),
        ):
            self._cache.informer(resource, type_).listen(self._see_storage)
        self._cache.informer(DEVICE_CLAIMS, WrittenClaim).listen(self._see_claim)
        self._cache.informer(NODES, Node).listen(self._see_node)
        self._cache.informer(PODS, Pod).listen(self._see_pod)
        for informer in (self._claims, self._volumes, self._classes):
            informer.listen(self._see_storage)

    async def run(self, stop: asyncio.Event) -> None:
        """Bind Pods until `stop` is set."""
        loops = [self.events.run(), self._decide_forever()]
        if self._is_own_cache:
            loops.append(self._cache.run())
        try:
            await run_until(stop, *loops)
        finally:
            await self._background.cancel()

    async def _decide_forever(self) -> None:
        await self._cache.wait_synced()
        while True:
            self._wake.clear()
            while decisions := self._ledger.decide(self._storage_of):
                for decision in decisions:
                    self._execute(decision)
                await asyncio.sleep(0)
            await self._wake.wait()

    def _execute(self, decision: Decision) -> None:
        if decision.choice == Choice():
            return
        if not decision.choice.node:
            self._background.start(self._refuse(decision))
        elif decision.to_select:
            self._background.start(self._select(decision))
        elif needs := self._needs_of(decision.pod):
            self._give_devices(decision, needs)
        else:
            self._background.start(self._bind(decision))

    def _give_devices(self, decision: Decision, needs: Needs) -> None:
        """Choose devices of the node at once, since other Pods are decided on next; then write them and bind."""
        found = self._devices.allocate(needs, decision.choice.node)
        if found is None:
            self._background.start(self._decide_again(decision.pod))
            return
        uid = decision.pod.metadata.uid
        self._devices.assumed[uid] = {device.id: 1 for devices in found.values() for device in devices}
        self._background.start(self._bind_with_devices(decision, needs, found))

    async def _bind_with_devices(self, decision: Decision, needs: Needs, found: Mapping[str, list[Device]]) -> None:
        pod, node = decision.pod, decision.choice.node
        namespace, name = pod.key
        reserved = [{"resource": "pods", "name": name, "uid": pod.metadata.uid}]
        try:
            for (_, claim), asked in needs.claims:
                await self._allocate(claim, namespace, allocation(found, asked, node), reserved)
            for _, claim in needs.allocated:
                known = self._devices.claims.get((namespace, claim))
                held = known.status.reserved_for if known is not None else ()
                others = [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in held]
                if reserved[0] not in others:
                    await self._allocate(claim, namespace, None, [*others, *reserved])
            if needs.extended:
                made = await self.client.create(DEVICE_CLAIMS, claim_of_extended(pod, needs.extended), namespace)
                claim = made["metadata"]["name"]
                await self._allocate(claim, namespace, allocation(found, needs.extended, node), reserved)
                mappings = [
                    {"containerName": one.container, "resourceName": one.resource, "requestName": one.name}
                    for one in needs.extended
                ]
                written = {"resourceClaimName": claim, "requestMappings": mappings}
                patch = {"status": {"extendedResourceClaimStatus": written}}
                await self.client.patch(PODS, name, patch, namespace, subresource="status")
        except errors.KajitoriError as cause:
            log.warning("allocating devices to %s/%s failed, trying again: %s", namespace, name, cause)
            self._devices.assumed.pop(pod.metadata.uid, None)
            await self._decide_again(pod)
            return
        await self._bind(decision)

    async def _allocate(
        self, claim: str, namespace: str, allocated: dict[str, Any] | None, reserved: list[dict[str, str]]
    ) -> None:
        status = {"reservedFor": reserved} | ({"allocation": allocated} if allocated is not None else {})
        await self.client.patch(DEVICE_CLAIMS, claim, {"status": status}, namespace, subresource="status")

    def _needs_of(self, pod: Pod) -> Needs | None:
        """Return what a Pod needs of devices; None if it needs none."""
        if not pod.spec.resource_claims and not (self._devices.slices and asked_resources(pod)):
            return None
        demand = demand_of(pod)
        names = demand.pinned_to or self._ledger.nodes.keys()
        nodes = [self._ledger.nodes[name] for name in names if name in self._ledger.nodes]
        has = {r: any(node.allocatable.get(r) for node in nodes) for r in asked_resources(pod)}
        needs = self._devices.needs_of(pod, has)
        return None if needs == NOTHING else needs

    async def _bind(self, decision: Decision) -> None:
        pod, node = decision.pod, decision.choice.node
        namespace, name = pod.key
        try:
            await self.client.bind(name, namespace, node)
        except (errors.NotFound, errors.Conflict) as cause:
            # The Pod was deleted or bound by another program; the watch will show which.
            log.debug("binding %s/%s to %s: %s", namespace, name, node, cause)
            await self._decide_again(pod)
        except errors.KajitoriError as cause:
            log.warning("binding %s/%s to %s failed, trying again: %s", namespace, name, node, cause)
            await self._decide_again(pod)
        else:
            self._refused_at.pop(pod.metadata.uid, None)
            self.events.pod(pod, "Normal", "Scheduled", f"Successfully assigned {namespace}/{name} to {node}")

    async def _decide_again(self, pod: Pod) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        self._ledger.undo(pod)
        self._wake.set()

    async def _select(self, decision: Decision) -> None:
        """Write the chosen node to the claims. The Pod is decided on again once they are bound."""
        namespace = decision.pod.metadata.namespace
        patch = {"metadata": {"annotations": {claims.SELECTED_NODE: decision.choice.node}}}
        for name in decision.to_select:
            try:
                await self.client.patch(CLAIMS, name, patch, namespace)
            except errors.KajitoriError as cause:
                log.warning("choosing a node for claim %s/%s failed, trying again: %s", namespace, name, cause)
                await self._decide_again(decision.pod)
                return

    async def _refuse(self, decision: Decision) -> None:
        pod, message = decision.pod, decision.choice.message
        before = condition(pod.status.conditions, "PodScheduled")
        if before is not None and before.reason == "Unschedulable" and before.message == message:
            return
        now = self._monotonic()
        refused_at = self._refused_at.get(pod.metadata.uid)
        uid = pod.metadata.uid
        if refused_at is not None and now - refused_at < REPEAT_SECONDS:
            if uid not in self._delayed:
                self._delayed.add(uid)
                await asyncio.sleep(REPEAT_SECONDS - (now - refused_at))
                self._delayed.discard(uid)
                await self._decide_again(pod)
            return
        self._refused_at[uid] = now
        written = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_time(self._clock()),
        }
        if before is not None and before.status == "False" and before.last_transition_time:
            written["lastTransitionTime"] = before.last_transition_time
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [written]}}
        namespace, name = pod.key
        try:
            await self.client.patch(PODS, name, patch, namespace, kind=PatchKind.STRATEGIC, subresource="status")
        except (errors.NotFound, errors.Conflict):
            return
        except errors.KajitoriError as cause:
            log.warning("writing why %s/%s waits failed: %s", namespace, name, cause)
            return
        self.events.pod(pod, "Warning", "FailedScheduling", message)

    def _storage_of(self, pod: Pod) -> Storage:
        needs = self._needs_of(pod)
        if needs is None:
            return self._volumes_of(pod)
        if needs.is_early or needs.waits_for:
            return Storage(waits_for=needs.waits_for, is_early=needs.is_early)
        nodes = self._devices.nodes_for(needs)
        if not nodes:
            return Storage(waits_for=f"{len(self._ledger.nodes)} {CANNOT}")
        storage, there = self._volumes_of(pod), Term((), (("metadata.name", "In", tuple(nodes)),))
        return replace(storage, volumes=(*storage.volumes, (there,)), by_devices=needs.resources)

    def _volumes_of(self, pod: Pod) -> Storage:
        names = [v.persistent_volume_claim.claim_name for v in pod.spec.volumes or () if v.persistent_volume_claim]
        if not names:
            return NO_STORAGE
        to_select: list[str] = []
        volumes: list[tuple[Term, ...]] = []
        for name in names:
            claim = self._claims.items.get((pod.metadata.namespace, name))
            if claim is None:
                return Storage(waits_for=f'persistentvolumeclaim "{name}" not found')
            if bool(claim.metadata.deletion_timestamp):
                return Storage(waits_for=f'persistentvolumeclaim "{name}" is being deleted')
            if claim.status.phase == "Lost":
                return Storage(waits_for=f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume')
            if claims.is_bound(claim):
                volume = self._volumes.items.get(("", claim.spec.volume_name))
                if volume is None:
                    return Storage(waits_for=f'persistentvolume "{claim.spec.volume_name}" not found')
                if volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None:
                    terms = volume.spec.node_affinity.required.node_selector_terms
                    volumes.append(tuple(term(t) for t in terms))
            elif claims.waits_for_consumer(claim, {n: c for (_, n), c in self._classes.items.items()}):
                to_select.append(name)
            else:
                return Storage(waits_for="pod has unbound immediate PersistentVolumeClaims")
        return Storage(to_select=tuple(to_select), volumes=tuple(volumes))

    def _see_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        self._ledger.see_node(key[1], new)
        self._wake.set()

    def _see_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        self._ledger.see_pod(key, new)
        if new is not None and new.status.resource_claim_statuses and not new.spec.node_name:
            self._ledger.note_change()  # it has its claims now
        if new is None and old is not None:
            self._refused_at.pop(old.metadata.uid, None)
            self._devices.assumed.pop(old.metadata.uid, None)
        self._wake.set()

    def _see_claim(self, _key: Key, _old: object, new: WrittenClaim | None) -> None:
        if new is not None and new.status.allocation is not None:
            for consumer in new.status.reserved_for:
                self._devices.assumed.pop(consumer.uid, None)

    def _see_storage(self, _key: Key, old: object, new: object) -> None:
        self._ledger.note_change()
        self._wake.set()
