"""Marking nodes as `core.nodes.health` decides, and testing them.

Decisions follow from the mirror, and a node's history is stored on the Node itself. So a new leader continues where the
last one stopped, and nothing is done twice: a write succeeds only on the version of the Node that was judged, and the
run of a test has the same name whichever leader creates it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from kajitori.cluster.health import HealthView, signs_of
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.objects import Node
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core.naming import names
from kajitori.core.nodes.health import DRAINED_BY, Change, WithheldRemoval
from kajitori.core.nodes.preflight import name_of_test, run_of_test
from kajitori.core.nodes.trail import TrailEvent, append_entry, as_taint_value, describe_entry, read_trail, write_trail
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.resources import NODES, Resource

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.1
REST = 20
"""Pause after a verdict, as a multiple of the time that it took."""

AT_ONCE = 8
"""Number of writes in flight, also when a whole pool of new nodes is marked."""

UNSEEN_SECONDS = 10.0
"""Longest time to wait for the mirror to show a write. After that the mirror's contents are used anyway."""

RETRY_SECONDS = 30.0


class HealthKeeper:
    """Takes nodes out of the pool and brings them back. Only the leader runs it."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        cluster: ClusterView,
        events: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._mirror = mirror
        self._cluster = cluster
        self._events = events
        self._now = now
        self._view = HealthView(mirror, cluster)
        self._something = asyncio.Event()
        self._unseen: dict[str, int] = {}
        """Resource versions of nodes that were written and are not shown by the mirror yet."""
        self._unseen_runs: set[Key] = set()
        self._unseen_until = 0.0
        self._took_seconds = 0.0
        """Time that the last verdict blocked the event loop."""
        self._warned: set[tuple[str, str]] = set()
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def keep_forever(self) -> None:
        """Judge the nodes whenever something has changed or is due, until cancelled."""
        unsubscribe = self._mirror.on_change(self._note)
        try:
            await self._mirror.wait_synced()
            while True:
                pause = await self._guarded_look()
                await asyncio.sleep(SETTLE_SECONDS + REST * self._took_seconds)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._something.wait()
                self._something.clear()
        finally:
            unsubscribe()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == NODES:
            matters = self._view.note_node(name)
        else:
            self._unseen_runs.discard((namespace, name))
            run = self._mirror.runs.get((namespace, name)) if resource == RUNS else None
            matters = run is not None and (
                bool(self._cluster.tested_node(run))
                or (run.status is not None and bool(run.status.avoid_nodes or run.status.slow))
            )
        if matters:
            self._something.set()

    async def _guarded_look(self) -> float | None:
        """Judge the nodes once, and log failures. Return the seconds until the next time, or None if nothing is due."""
        try:
            return await self.look()
        except KajitoriError as error:
            log.warning("the health of nodes: %s; tried again in %.0f s", error, RETRY_SECONDS)
        except Exception:
            log.exception("the health of nodes: this is a bug")
        return RETRY_SECONDS

    async def look(self) -> float | None:
        """Mark and test nodes once. Return the seconds until the next time, or None if nothing is due."""
        if self._mirror.age_seconds():
            return 1.0  # while a watch is broken, all nodes look silent
        if self._lags_behind():
            return 1.0
        # 1. Judge each node.
        now, began = self._now(), asyncio.get_running_loop().time()
        verdict = self._view.verdict(now)
        self._took_seconds = asyncio.get_running_loop().time() - began
        # 2. Write the marks of nodes that leave or join the pool, and warn of those that policy keeps in the pool.
        await self._all_of(self._write_marks(change) for change in verdict.changes)
        self._warn_once(verdict.warnings)
        # 3. Start the tests that are due, and delete runs of tests that are no longer needed.
        await self._delete_finished_tests(set(verdict.tests))
        await self._all_of(self._begin_test(node) for node in verdict.tests)
        self._unseen_until = asyncio.get_running_loop().time() + UNSEEN_SECONDS
        if self._unseen or self._unseen_runs:
            return 1.0
        return max(0.0, (verdict.next_at - now).total_seconds()) if verdict.next_at is not None else None

    def _lags_behind(self) -> bool:
        """Whether the mirror does not show the last writes yet."""
        if asyncio.get_running_loop().time() > self._unseen_until:
            self._unseen.clear()
            self._unseen_runs.clear()
        for name, version in list(self._unseen.items()):
            node = self._mirror.nodes.get(name)
            if node is None or int(node.metadata.resource_version or 0) >= version:
                del self._unseen[name]
        return bool(self._unseen or self._unseen_runs)

    async def _all_of(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        async def limited(work: Coroutine[Any, Any, None]) -> None:
            async with self._limit:
                await work

        await asyncio.gather(*(limited(work) for work in works))

    # ------------------------------------------------------------------------------------------ marks

    async def _write_marks(self, change: Change) -> None:
        """Write trail and taints, unless the node has changed since it was judged."""
        node = self._mirror.nodes.get(change.node)
        if node is None:
            return
        try:
            found = await self._client.get(NODES, change.node)
            fresh = msgspec.convert(found, Node)
            policy = self._cluster.policy
            if fresh.metadata.uid != node.metadata.uid or signs_of(fresh, policy) != signs_of(node, policy):
                return  # judged again when the mirror shows the change
            written = await self._client.patch(NODES, change.node, self._patch_of_marks(found, fresh, change))
        except (NotFound, Conflict):
            self._something.set()
            return
        self._unseen[change.node] = int(written["metadata"]["resourceVersion"])
        bad = change.entry.what in (TrailEvent.OUT, TrailEvent.LOST, TrailEvent.FAILED, TrailEvent.UNTESTED)
        reason = f"Node{change.entry.what.value.capitalize()}"
        log.info("node %s: %s", change.node, describe_entry(change.entry))
        self._events.emit(_reference_to(node), "Warning" if bad else "Normal", reason, _describe_change(change))

    def _patch_of_marks(self, found: dict[str, Any], node: Node, change: Change) -> dict[str, Any]:
        """Return a patch of Kajitori's own fields. Its resource version makes sure that the others are as read."""
        taints = [taint for taint in found["spec"].get("taints") or () if self._keeps_taint(taint["key"], change)]
        kept = any(taint["key"] == names.TAINT_UNHEALTHY for taint in taints)
        if change.unhealthy is not None and not kept:
            value = as_taint_value(change.unhealthy)
            taints.append({"key": names.TAINT_UNHEALTHY, "value": value, "effect": "NoSchedule"})
        trail = append_entry(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")), change.entry)
        annotations: dict[str, str | None] = {names.ANNOTATION_HEALTH: write_trail(trail)}
        if change.answered:
            annotations[names.ANNOTATION_TEST_WANTED] = None
        spec: dict[str, Any] = {"taints": taints or None}
        if (
            change.entry.what is TrailEvent.OUT
            and self._cluster.policy.node_health.drain
            and not node.spec.unschedulable
        ):
            annotations[names.ANNOTATION_DRAIN] = f"{DRAINED_BY}{change.entry.reason}"
            spec["unschedulable"] = True
        elif change.entry.what is TrailEvent.BACK and node.drained_by.startswith(DRAINED_BY):
            annotations[names.ANNOTATION_DRAIN] = None
            spec["unschedulable"] = None
        version = found["metadata"]["resourceVersion"]
        return {"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec}

    def _keeps_taint(self, key: str, change: Change) -> bool:
        if key == names.TAINT_UNHEALTHY:
            return change.unhealthy is not None
        return change.awaits_test if key == self._cluster.policy.preflight.taint else True

    def _warn_once(self, warnings: Iterable[WithheldRemoval]) -> None:
        """Warn once of each node and reason, until they no longer hold."""
        still = set()
        for warning in warnings:
            still.add((warning.node, warning.reason))
            node = self._mirror.nodes.get(warning.node)
            if (warning.node, warning.reason) in self._warned or node is None:
                continue
            why = f": {'; '.join(warning.evidence)}" if warning.evidence else ""
            percent = self._cluster.policy.node_health.at_most_percent
            message = (
                f"{warning.reason}{why}; it stays in the pool, since policy takes out at most {percent} % of all nodes"
            )
            log.warning("node %s: %s", warning.node, message)
            self._events.emit(_reference_to(node), "Warning", "NodeLooksUnhealthy", message)
        self._warned = still

    # ------------------------------------------------------------------------------------------ tests

    async def _begin_test(self, name: str) -> None:
        """Create the run that tests a node, unless it exists."""
        table, policy = self._cluster.table(), self._cluster.policy
        node = self._mirror.nodes.get(name)
        if node is None or name not in table.index:
            return
        annotations = node.metadata.annotations
        who = annotations.get(names.ANNOTATION_TEST_WANTED, "")
        called = name_of_test(name, node.metadata.uid, annotations.get(names.ANNOTATION_HEALTH, ""), who)
        run = run_of_test(table.nodes[table.index[name]], policy, called, who)
        try:
            await self._client.create(RUNS, run, policy.preflight.namespace)
        except AlreadyExists:
            return
        except (NotFound, Conflict, Forbidden, InvalidInput) as error:  # for example a missing namespace
            self._events.emit(
                _reference_to(node), "Warning", "NodeUntested", f"its test could not be created: {error.message}"
            )
            raise
        if (policy.preflight.namespace, called) not in self._mirror.runs:
            self._unseen_runs.add((policy.preflight.namespace, called))

    async def _delete_finished_tests(self, begun: set[str]) -> None:
        """Delete runs of tests once their result is stored on the node. The last failed one stays readable until the
        next test begins."""
        over = []
        for node, runs in self._view.tests().items():
            results = {entry.run: entry.what for entry in self._view.trail(node) if entry.run}
            for run in runs:
                result = results.get(run.metadata.name)
                readable = result in (TrailEvent.OUT, TrailEvent.FAILED) and run is runs[-1] and node not in begun
                if node not in self._mirror.nodes or (result is not None and not readable):
                    over.append(run)
        await self._all_of(self._delete_run(run) for run in over)

    async def _delete_run(self, run: RunObject) -> None:
        meta = run.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(RUNS, meta.name, meta.namespace, uid=meta.uid)


def _reference_to(node: Node) -> About:
    return About("Node", node.metadata.name, node.metadata.uid)


def _describe_change(change: Change) -> str:
    """Return the text of the Event about a change, with all of the evidence."""
    return "; ".join((describe_entry(change.entry), *change.entry.evidence[1:]))
