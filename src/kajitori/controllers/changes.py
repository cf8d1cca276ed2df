"""Queues runs for reconciliation, and cycles of the queue, when something changes in the cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kajitori.cluster.mirror.mirror import CATCH_UP_SECONDS, Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS
from kajitori.cluster.view import ClusterView
from kajitori.controllers.nodes.silent_nodes import SilentNodes
from kajitori.controllers.queue.trigger import CycleTrigger
from kajitori.controllers.runs.orphans import Orphans
from kajitori.controllers.runs.statuses import Statuses
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.kube.resources import DEVICE_KINDS, NODES, PODS, Resource


class Changes:
    """Queues runs to be reconciled, and triggers cycles of the queue, as the cluster changes."""

    def __init__(
        self,
        mirror: Mirror,
        cluster: ClusterView,
        work: WorkQueue,
        trigger: CycleTrigger,
        statuses: Statuses,
        silent_nodes: SilentNodes,
        orphans: Orphans,
        now: Callable[[], datetime],
    ) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._work = work
        self._trigger = trigger
        self._statuses = statuses
        self._silent_nodes = silent_nodes
        self._orphans = orphans
        self._now = now
        self._catch_up_at: datetime | None = None
        """Time at which the mirror has caught up after one of its watches was broken; None if none is awaited."""

    def follow(self) -> Callable[[], None]:
        """React to changes in the mirror from now on. Return a function that ends this."""
        ends = (self._mirror.on_change(self._note), self._mirror.on_health(self._note_health))

        def end() -> None:
            for end_one in ends:
                end_one()

        return end

    def note_all(self) -> None:
        """Treat every object in the mirror as changed."""
        self._work.add(*self._mirror.runs)
        for node in self._mirror.nodes:
            self._silent_nodes.note(node)
        for pod in list(self._mirror.pods.values()):
            self._note_owner(pod)

    def note_network(self, key: Key | None) -> None:
        """React to a change of a run's NetworkPolicy, or, with None, to the first complete list of them."""
        self._work.add(*(self._mirror.runs if key is None else (key,)))

    def note_request(self, key: Key | None) -> None:
        """React to a change of a run's request for nodes, or, with None, of whether the cluster has such requests."""
        if key in self._mirror.runs:
            self._work.add(key)
        self._trigger.note_change()
        self._work.nudge()

    @property
    def due(self) -> tuple[datetime, ...]:
        """The time of the next `catch_up`, if one is due."""
        return () if self._catch_up_at is None else (self._catch_up_at,)

    def catch_up(self) -> None:
        """After a watch was broken: queue everything once the mirror shows all that was missed."""
        now = self._now()
        if self._catch_up_at is not None and self._catch_up_at <= now:
            self._catch_up_at = now + timedelta(seconds=CATCH_UP_SECONDS) if self._mirror.age_seconds() else None
            self._work.add(*self._mirror.runs, *self._orphans)

    def is_new(self, key: Key) -> bool:
        """Whether the run was submitted and has had no attempt yet, so that no node depends on it."""
        run = self._mirror.runs.get(key)
        return run is not None and run.status is None and not run.metadata.deletion_timestamp

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._note_run(namespace, name)
        elif resource == PODS:
            self._note_pod(namespace, name)
        elif resource == NODES:
            self._note_node(name)
        elif resource in DEVICE_KINDS:
            self._trigger.note_change()
        self._work.nudge()

    def _note_run(self, namespace: str, name: str) -> None:
        self._work.add((namespace, name), *self._cluster.dependencies.take_affected((namespace, name)))
        run = self._mirror.runs.get((namespace, name))
        if run is not None and self._cluster.occupancy.may_free(run):
            self._trigger.note_change()

    def _note_pod(self, namespace: str, name: str) -> None:
        key = (namespace, name.rsplit("-", 2)[0])
        if key in self._mirror.runs:
            self._work.add(key)
            self._statuses.note_seen(key, name)
        pod = self._mirror.pods.get((namespace, name))
        if pod is not None:
            self._note_owner(pod)
        self._trigger.note_change()

    def _note_node(self, name: str) -> None:
        self._silent_nodes.note(name)
        if not self._cluster.note_node(name):
            return
        self._trigger.note_change()
        for pod in self._mirror.pods_on_node(name):
            run = self._mirror.run_of(pod)
            if run is not None:
                self._work.add((run.metadata.namespace, run.metadata.name))

    def _note_owner(self, pod: Pod) -> None:
        if (key := self._orphans.note(pod)) is not None:
            self._work.add(key)

    def _note_health(self) -> None:
        """React to a broken or recovered watch: everything is reconciled again once the mirror has caught up."""
        self._catch_up_at = None if self._mirror.trouble else self._now() + timedelta(seconds=CATCH_UP_SECONDS)
        self._work.nudge()
