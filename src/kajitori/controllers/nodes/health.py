"""Marks nodes as `core.nodes.health` says, and tests them.

What becomes of a node follows from what the mirror holds; how it came to that stands on the Node itself. So whoever
leads next goes on where this one was, and nothing is done twice: each write of a Node replaces just the one that was
looked at, and the run of a test has the same name whoever makes it.
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
from kajitori.cluster.view import ClusterView
from kajitori.core.nodes.health import DRAINED_BY, Change, WithheldRemoval
from kajitori.core.nodes.preflight import name_of_test, run_of_test
from kajitori.core.nodes.trail import TrailEvent, append_entry, as_taint_value, describe_entry, read_trail, write_trail
from kajitori.core.words import names
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import Node, RunObject
from kajitori.kube.resources import NODES, RUNS, Resource

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.1
REST = 20
"""After a verdict nothing is looked at for so many times as long as it took."""

AT_ONCE = 8
"""Writes in flight: a whole pool of new nodes is no reason to hurry."""

UNSEEN_SECONDS = 10.0
"""How long the mirror may take to show what was just written before it is believed all the same."""

RETRY_SECONDS = 30.0


class HealthKeeper:
    """Which nodes are in the pool; by the leader alone."""

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
        """Nodes that were written, and the version that shows it."""
        self._unseen_runs: set[Key] = set()
        self._unseen_until = 0.0
        self._took_seconds = 0.0
        """How long the last verdict kept the event loop from all else."""
        self._warned: set[tuple[str, str]] = set()
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def keep_forever(self) -> None:
        """Looks whenever something changed or is due, until cancelled."""
        no_longer_told = self._mirror.on_change(self._note)
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
            no_longer_told()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == NODES:
            matters = self._view.note_node(name)
        else:
            self._unseen_runs.discard((namespace, name))
            run = self._mirror.runs.get((namespace, name)) if resource == RUNS else None
            matters = run is not None and (
                bool(self._cluster.tested_node(run)) or (run.status is not None and bool(run.status.avoid_nodes))
            )
        if matters:
            self._something.set()

    async def _guarded_look(self) -> float | None:
        """One look; after how many seconds the next is due though nothing is seen to change."""
        try:
            return await self.look()
        except KajitoriError as error:
            log.warning("the health of nodes: %s; looked at again in %.0f s", error, RETRY_SECONDS)
        except Exception:
            log.exception("the health of nodes: this is a bug")
        return RETRY_SECONDS

    async def look(self) -> float | None:
        """Marks and tests nodes as they are to be; answers when to look again, in seconds."""
        if self._mirror.age_seconds():
            return 1.0  # while a watch is broken all nodes look dead
        if self._lags_behind():
            return 1.0
        # 1. What becomes of each node.
        now, began = self._now(), asyncio.get_running_loop().time()
        verdict = self._view.verdict(now)
        self._took_seconds = asyncio.get_running_loop().time() - began
        # 2. Mark those whose state changes, and say which should have left.
        await self._each(self._mark(change) for change in verdict.changes)
        self._warn(verdict.warnings)
        # 3. Test those that are due, and take away the runs of tests that nobody needs any more.
        await self._tidy(set(verdict.tests))
        await self._each(self._begin_test(node) for node in verdict.tests)
        self._unseen_until = asyncio.get_running_loop().time() + UNSEEN_SECONDS
        if self._unseen or self._unseen_runs:
            return 1.0
        return max(0.0, (verdict.next_at - now).total_seconds()) if verdict.next_at is not None else None

    def _lags_behind(self) -> bool:
        """Whether the mirror does not show yet what was written last."""
        if asyncio.get_running_loop().time() > self._unseen_until:
            self._unseen.clear()
            self._unseen_runs.clear()
        for name, version in list(self._unseen.items()):
            node = self._mirror.nodes.get(name)
            if node is None or int(node.metadata.resource_version or 0) >= version:
                del self._unseen[name]
        return bool(self._unseen or self._unseen_runs)

    async def _each(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        async def one(work: Coroutine[Any, Any, None]) -> None:
            async with self._limit:
                await work

        await asyncio.gather(*(one(work) for work in works))

    # ------------------------------------------------------------------------------------------ marks

    async def _mark(self, change: Change) -> None:
        """Writes trail and taints, if nobody changed them since they were looked at."""
        node = self._mirror.nodes.get(change.node)
        if node is None:
            return
        try:
            found = await self._client.get(NODES, change.node)
            fresh = msgspec.convert(found, Node)
            policy = self._cluster.policy
            if fresh.metadata.uid != node.metadata.uid or signs_of(fresh, policy) != signs_of(node, policy):
                return  # looked at again when the mirror shows it
            written = await self._client.patch(NODES, change.node, self._patch(found, fresh, change))
        except (NotFound, Conflict):
            self._something.set()
            return
        self._unseen[change.node] = int(written["metadata"]["resourceVersion"])
        bad = change.entry.what in (TrailEvent.OUT, TrailEvent.LOST, TrailEvent.FAILED, TrailEvent.UNTESTED)
        reason = f"Node{change.entry.what.value.capitalize()}"
        log.info("node %s: %s", change.node, describe_entry(change.entry))
        self._events.say(_about(node), "Warning" if bad else "Normal", reason, _whole(change))

    def _patch(self, found: dict[str, Any], node: Node, change: Change) -> dict[str, Any]:
        """Only what is ours changes; the version makes sure that the rest is as it was read."""
        taints = [taint for taint in found["spec"].get("taints") or () if self._stays(taint["key"], change)]
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

    def _stays(self, key: str, change: Change) -> bool:
        if key == names.TAINT_UNHEALTHY:
            return change.unhealthy is not None
        return change.awaits_test if key == self._cluster.policy.preflight.taint else True

    def _warn(self, warnings: Iterable[WithheldRemoval]) -> None:
        """Says it once of a node and a reason, for as long as that holds."""
        still = set()
        for each in warnings:
            still.add((each.node, each.reason))
            node = self._mirror.nodes.get(each.node)
            if (each.node, each.reason) in self._warned or node is None:
                continue
            why = f": {'; '.join(each.evidence)}" if each.evidence else ""
            percent = self._cluster.policy.node_health.at_most_percent
            message = (
                f"{each.reason}{why}; it stays in the pool, since policy takes out at most {percent} % of all nodes"
            )
            log.warning("node %s: %s", each.node, message)
            self._events.say(_about(node), "Warning", "NodeLooksUnhealthy", message)
        self._warned = still

    # ------------------------------------------------------------------------------------------ tests

    async def _begin_test(self, name: str) -> None:
        """Creates the run that tests a node; one that is there already is the one that is wanted."""
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
        except (NotFound, Conflict, Forbidden, InvalidInput) as error:  # such as a namespace that is not there
            self._events.say(_about(node), "Warning", "NodeUntested", f"its test could not be made: {error.message}")
            raise
        if (policy.preflight.namespace, called) not in self._mirror.runs:
            self._unseen_runs.add((policy.preflight.namespace, called))

    async def _tidy(self, begun: set[str]) -> None:
        """Runs of tests whose result stands on their node go; the last one that failed stays to be read until the
        next begins."""
        over = []
        for node, runs in self._view.tests().items():
            results = {entry.run: entry.what for entry in self._view.trail(node) if entry.run}
            for run in runs:
                result = results.get(run.metadata.name)
                readable = result in (TrailEvent.OUT, TrailEvent.FAILED) and run is runs[-1] and node not in begun
                if node not in self._mirror.nodes or (result is not None and not readable):
                    over.append(run)
        await self._each(self._delete(run) for run in over)

    async def _delete(self, run: RunObject) -> None:
        meta = run.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(RUNS, meta.name, meta.namespace, uid=meta.uid)


def _about(node: Node) -> About:
    return About("Node", node.metadata.name, node.metadata.uid)


def _whole(change: Change) -> str:
    """What an Event says of it: all of the evidence."""
    return "; ".join((describe_entry(change.entry), *change.entry.evidence[1:]))
