"""Thousands of simulated nodes in one process, against any API server.

`SimulatedNodes` creates its Nodes (or adopts existing ones), keeps them Ready and plays the kubelet of each: one watch
on Pods serves all of them. A restarted simulator continues where it was; it does not start running Pods twice.

A Node with the annotation `sim.kajitori.dev/silent: "true"` does not answer until the annotation is removed. A Node
that a user deletes is gone until the simulator restarts. A Node that is missing because the API server was restored
from a backup registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kajitori import errors
from kajitori.embedded.controllers.informer import Informer, Key
from kajitori.embedded.controllers.node_health import NOT_READY, is_node_ready
from kajitori.embedded.names import ANNOTATION_SERVING_CERTIFICATE
from kajitori.embedded.objects import Node, Pod, condition
from kajitori.embedded.simulator import manifest
from kajitori.embedded.simulator.behaviour import PREFIX
from kajitori.embedded.simulator.kubelet_api import KubeletApi
from kajitori.embedded.simulator.pods import SimulatedPods
from kajitori.embedded.simulator.settings import SimSettings
from kajitori.embedded.tasks import after, run_until
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import LEASES, NODES, PODS

log = logging.getLogger(__name__)

NodeAction = Callable[[str], Awaitable[None]]

SILENT = f"{PREFIX}silent"
CONCURRENT_WRITES = 32
CONCURRENT_RENEWALS = 128
"""Many, since each takes long when the API server is busy, and a node that does not renew its Lease in time is lost."""
TICK_SECONDS = 0.1
RETRY_SECONDS = 1.0


class SimulatedNodes:
    """A pool of simulated nodes; `run` simulates them until told to stop.

    `serving` is the certificate and key (PEM files, for the settings' address) of their kubelet API. Without it the API
    creates a certificate, and the Nodes name its fingerprint.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: SimSettings,
        *,
        serving: tuple[Path, Path] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.settings = settings
        self._serving = serving
        self.numbers = {settings.name(number): number for number in settings.numbers}
        self.ready = asyncio.Event()
        """Set once all nodes are registered and Pods are handled."""
        self._registered = asyncio.Event()
        self._clock, self._monotonic = clock, monotonic
        self._port = 0
        self._fingerprint = ""
        self._silent: set[str] = set()
        self._uids: dict[str, str] = {}
        self._missing: set[str] = set()
        """Nodes that are missing though no user deleted them."""
        self._repair: dict[str, None] = {}
        self._repair_wake = asyncio.Event()
        self._writes = asyncio.Semaphore(CONCURRENT_WRITES)
        self._renewals = asyncio.Semaphore(CONCURRENT_RENEWALS)
        self._heard_at: dict[str, float] = {}
        """When each node last gave a sign of life, on the monotonic clock."""
        self._sim = SimulatedPods(client, settings, self.numbers, clock)
        self._pods = Informer(client, PODS, Pod, field_selector="spec.nodeName!=", keep=self._is_ours)
        self._pods.listen(self._see_pod)
        self._pods.listen_to_lists(lambda: self._sim.listed(self._pods.items))
        selector = f"{manifest.LABEL_POOL}={manifest.pool_label(settings)}"
        self._nodes = Informer(client, NODES, Node, label_selector=selector)
        self._nodes.listen(self._see_node)
        self._nodes.listen_to_lists(self._see_nodes_listed)

    @property
    def late_seconds(self) -> float:
        """The time by which heartbeats are late because the API server or this process is busy. Silent nodes do not
        count."""
        interval = self.settings.heartbeat_seconds
        oldest = min((at for name, at in self._heard_at.items() if name not in self._silent), default=math.inf)
        return max(0.0, self._monotonic() - oldest - interval) if interval else 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Simulate the nodes until `stop` is set."""
        settings = self.settings
        api = KubeletApi(
            lambda namespace, name: self._sim.pods.get((namespace, name)), self._sim.of_node, self._serving
        )
        self._port = await api.start(self.settings.address)
        self._fingerprint = api.fingerprint
        try:
            await run_until(
                stop,
                self._start(),
                after(self._registered, self._nodes.run),
                after(self._nodes.synced, self._pods.run),
                after(self._pods.synced, self._sim.work),
                after(self._nodes.synced, self._repair_forever),
                after(
                    self._registered,
                    partial(self._act_regularly, settings.status_seconds, self._write_statuses),
                ),
                after(
                    self._registered,
                    partial(self._act_regularly, settings.heartbeat_seconds, self._renew_all),
                ),
            )
            if self.settings.delete_nodes_at_stop:
                await self._act_on_all(self.numbers, self._delete)
        finally:
            await api.stop()

    async def _start(self) -> None:
        self._heard_at = dict.fromkeys(self.numbers, self._monotonic())
        await self._act_on_all(self.numbers, self._register)
        self._registered.set()
        await self._pods.synced.wait()
        self.ready.set()
        log.info("%d simulated nodes are ready", len(self.numbers))

    # --- Nodes -------------------------------------------------------------------------------------------------------

    async def _register(self, name: str) -> None:
        """Create or adopt a Node, and write that it is ready."""
        body = manifest.node(self.settings, self.numbers[name], self._fingerprint)
        while True:
            try:
                with contextlib.suppress(errors.AlreadyExists):
                    await self.client.create(NODES, body)
                certificate = {ANNOTATION_SERVING_CERTIFICATE: self._fingerprint or None}
                adopted = {"metadata": {"labels": body["metadata"]["labels"], "annotations": certificate}}
                found = await self.client.patch(NODES, name, adopted)
                self._uids[name] = found["metadata"]["uid"]
                if (found["metadata"].get("annotations") or {}).get(SILENT) != "true":
                    await self._write_status(name)
                return
            except (errors.Unavailable, errors.Conflict, errors.NotFound) as cause:
                log.warning("node %s could not be registered, trying again: %s", name, cause)
                await asyncio.sleep(RETRY_SECONDS)

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(errors.KajitoriError):
            await self.client.delete(NODES, name)

    async def _write_status(self, name: str) -> None:
        if name in self._silent:
            return
        status = manifest.node_status(self.settings, self.numbers[name], self._port, self._clock())
        node = self._nodes.items.get(("", name))
        if node is not None:
            for written in status["conditions"]:
                before = condition(node.status.conditions, written["type"])
                if before is not None and before.status == written["status"] and before.last_transition_time:
                    written["lastTransitionTime"] = before.last_transition_time
        await self.client.patch(NODES, name, {"status": status}, kind=PatchKind.STRATEGIC, subresource="status")

    async def _write_statuses(self, names: list[str]) -> None:
        await self._act_on_all(names, self._write_status)

    async def _renew_all(self, names: list[str]) -> None:
        await self._act_on_all(names, self._renew, self._renewals)

    async def _renew(self, name: str) -> None:
        if name in self._silent:
            return
        lease = manifest.lease(name, self._uids.get(name, ""), self._clock(), self.settings.lease_seconds)
        try:
            await self.client.patch(LEASES, name, {"spec": lease["spec"]}, manifest.LEASE_NAMESPACE)
        except errors.NotFound:
            with contextlib.suppress(errors.AlreadyExists):
                await self.client.create(LEASES, lease, manifest.LEASE_NAMESPACE)
        self._heard_at[name] = self._monotonic()

    async def _remove_taint(self, name: str) -> None:
        """Remove the not-ready taint, unless the node has changed meanwhile."""
        node = self._nodes.items.get(("", name))
        if node is None:
            return
        kept = [taint.document() for taint in node.spec.taints or () if taint.key != NOT_READY]
        patch = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": kept or None}}
        await self.client.patch(NODES, name, patch)

    async def _repair_forever(self) -> None:
        """Repair nodes that are missing, that were declared silent although they are not, or that kept the taint of new
        nodes."""
        while True:
            await self._repair_wake.wait()
            self._repair_wake.clear()
            names, self._repair = list(self._repair), {}
            if failed := await self._act_on_all(names, self._repair_one):
                await asyncio.sleep(RETRY_SECONDS)
                self._repair.update(dict.fromkeys(failed))
                self._repair_wake.set()

    async def _repair_one(self, name: str) -> None:
        node = self._nodes.items.get(("", name))
        if node is None and name in self._missing:
            log.info("node %s is missing in the restored API server: it registers again", name)
            await self._register(name)
        if node is None or name in self._silent:
            return
        if is_node_ready(node):
            if self.settings.remove_not_ready_taint and _is_tainted(node):
                await self._remove_taint(name)
        else:
            await self._write_status(name)

    async def _act_regularly(self, interval_seconds: float, act_on: Callable[[list[str]], Awaitable[None]]) -> None:
        """Act on each node once per interval, evenly spread over it; never if the interval is 0."""
        if not interval_seconds:
            return
        names, position, due_count = list(self.numbers), 0, 0.0
        last = self._monotonic()
        while True:
            await asyncio.sleep(max(TICK_SECONDS, interval_seconds / len(names)))
            now = self._monotonic()
            due_count = min(due_count + (now - last) * len(names) / interval_seconds, len(names))
            last = now
            due = [names[(position + i) % len(names)] for i in range(int(due_count))]
            position, due_count = (position + len(due)) % len(names), due_count % 1.0
            await act_on(due)

    async def _act_on_all(
        self, names: Iterable[str], act: NodeAction, limit: asyncio.Semaphore | None = None
    ) -> list[str]:
        """Act on several nodes at once, as far as `limit` allows. Log failures and return the nodes that failed."""
        failed: list[str] = []
        limit = limit or self._writes

        async def one(name: str) -> None:
            async with limit:
                try:
                    await act(name)
                except errors.KajitoriError as cause:
                    log.warning("node %s: %s", name, cause)
                    failed.append(name)

        await asyncio.gather(*(one(name) for name in names))
        return failed

    # --- events of the watches ---------------------------------------------------------------------------------------

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.node_name in self.numbers

    def _see_pod(self, key: Key, _old: Pod | None, new: Pod | None) -> None:
        self._sim.see(key, new)

    def _see_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        name = key[1]
        if name not in self.numbers:
            return
        silent = new is None or (new.metadata.annotations or {}).get(SILENT) == "true"
        was_silent = name in self._silent
        (self._silent.add if silent else self._silent.discard)(name)
        if was_silent and not silent:
            self._heard_at[name] = self._monotonic()
        self._sim.set_silent(name, silent)
        if new is None:
            return
        self._missing.discard(name)
        self._uids[name] = new.metadata.uid
        self._sim.labels[name] = new.metadata.labels or {}
        needs_taint = self.settings.remove_not_ready_taint and _is_tainted(new)
        if not silent and (was_silent or not is_node_ready(new) or needs_taint):
            self._repair[name] = None
            self._repair_wake.set()

    def _see_nodes_listed(self) -> None:
        self._missing |= {name for _, name in self._nodes.missed if name in self.numbers}
        self._repair.update(dict.fromkeys(self._missing))
        self._repair_wake.set()


def _is_tainted(node: Node) -> bool:
    return any(taint.key == NOT_READY for taint in node.spec.taints or ())
