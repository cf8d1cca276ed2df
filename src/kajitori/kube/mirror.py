"""What the cluster holds, in memory: the needed fields of Nodes, Pods and Runs, with indexes.

A component has one mirror, whatever the number of its parts that ask (nothing that grows with the cluster may talk to
the API server). What is read here is a moment old: who writes must let the API server check (resourceVersion, uid).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import Claim, Event, Namespace, Node, Pod, RunObject
from kajitori.kube.resources import CLAIMS, EVENTS, NAMESPACES, NODES, PODS, RUNS, Resource
from kajitori.kube.shrink import shrink_meta, shrink_node, shrink_pod, shrink_run
from kajitori.kube.usage import NodeUsage, PodUsage, is_alone, pod_usage
from kajitori.kube.watch import Added, Deleted, Modified, Synced, Watcher, WatchSettings, follow

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name."""

Callback = Callable[[Resource, str, str], None]
"""Told of the kind, the namespace (empty for kinds without) and the name of what changed, never of how."""

CATCH_UP_SECONDS = 0.5
"""What happened while a watch was broken is told at once when it is accepted again, and read within this time."""

_NOTHING: dict[Key, Pod] = {}


class Mirror:
    """Watches the given kinds. Read it from the event loop it runs in; change nothing that it hands out.

    Pods that are finished stay in `pods` until they are deleted, but count for no usage.
    """

    def __init__(
        self,
        client: KubeClient,
        resources: Sequence[Resource] = (NODES, PODS, RUNS),
        *,
        page_size: int = 1000,
        settings: WatchSettings | None = None,
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, Pod] = {}
        self.runs: dict[Key, RunObject] = {}
        self.claims: dict[Key, Claim] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.events: dict[Key, Event] = {}
        self._by_run: dict[str, dict[Key, Pod]] = {}
        self._by_node: dict[str, dict[Key, Pod]] = {}
        self._usage: dict[str, NodeUsage] = {}
        self._nominated: dict[Key, Pod] = {}
        self._leaving: dict[Key, Pod] = {}
        self._holders: dict[Key, int] = {}
        """Runs, by how many of their members are on a node and have not ended."""
        self._callbacks: tuple[Callback, ...] = ()
        self._on_health: tuple[Callable[[], None], ...] = ()
        self._client = client
        self._page_size = page_size
        self._settings = settings or WatchSettings()
        self._clock = client.environment.clock
        self._states = {resource: _State() for resource in resources}
        self._tasks: list[asyncio.Task[None]] = []
        kinds: dict[Resource, tuple[Any, Any, Any]] = {
            NODES: (Node, self.nodes, shrink_node),
            PODS: (Pod, self.pods, shrink_pod),
            RUNS: (RunObject, self.runs, shrink_run),
            CLAIMS: (Claim, self.claims, shrink_meta),
            NAMESPACES: (Namespace, self.namespaces, shrink_meta),
            EVENTS: (Event, self.events, shrink_meta),
        }
        unknown = [resource.plural for resource in resources if resource not in kinds]
        if unknown:
            raise ValueError(f"a mirror knows no {', '.join(unknown)}")
        self._kinds = kinds

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Begins to watch, in tasks of the running event loop."""
        if self._tasks:
            raise RuntimeError("this mirror was started already")
        self._tasks = [
            asyncio.create_task(self._mirror(resource, state), name=f"mirror-{resource.plural}")
            for resource, state in self._states.items()
        ]

    async def wait_synced(self) -> None:
        """Returns when every kind was read once. Raises what the API server refuses for good (401, 403, 404)."""
        for state in self._states.values():
            await state.first_sync.wait()
            if state.fatal is not None:
                raise state.fatal

    @property
    def synced(self) -> bool:
        """Every kind was read once, and nothing has failed for good."""
        return all(state.first_sync.is_set() and state.fatal is None for state in self._states.values())

    @property
    def trouble(self) -> str:
        """Why the mirror may be stale now, or nothing."""
        said = [f"{resource.plural}: {s.trouble}" for resource, s in self._states.items() if s.trouble is not None]
        return "; ".join(said)

    async def wait_fresh(self) -> None:
        """Returns when no watch is broken and all have caught up."""
        turned = asyncio.Event()
        end = self.on_health(turned.set)
        try:
            while self.age_seconds():
                turned.clear()
                await (turned.wait() if self.trouble else self._client.environment.sleep(CATCH_UP_SECONDS))
        finally:
            end()

    def age_seconds(self) -> float:
        """How long ago all that it shows was known to be so; 0 where no watch is broken and all have caught up.

        Whoever judges by the clock has to go by the time of the facts: nobody knows whether a member that was starting
        then has started since.
        """
        now = self._clock()
        ages = [now - s.stale_since for s in self._states.values() if s.stale_since is not None and s.stale_until > now]
        return max(ages, default=0.0)

    def shown_until(self, now: datetime) -> datetime:
        """`now`; while it is cut off, the last moment that it shows: no deadline passes unseen."""
        return now - timedelta(seconds=self.age_seconds())

    def now(self) -> datetime:
        """The API server's time: all who judge by the same Runs have to go by the same clock."""
        return self._client.now()

    async def set_clock(self) -> None:
        """Asks the API server for its time anew. While it is away, the old idea of it has to do."""
        with suppress(KajitoriError):
            await self._client.set_clock()

    async def stop(self) -> None:
        """Stops watching; what was read stays readable."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Mirror:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Calls back after every change, from the first list on; answers what ends that."""
        self._callbacks += (callback,)

        def unsubscribe() -> None:
            self._callbacks = tuple(known for known in self._callbacks if known is not callback)

        return unsubscribe

    def on_health(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back when a watch breaks and when it is well again (see `trouble`); answers what ends that."""
        self._on_health += (callback,)

        def unsubscribe() -> None:
            self._on_health = tuple(known for known in self._on_health if known is not callback)

        return unsubscribe

    # ------------------------------------------------------------------------------------------ questions

    def pods_of_run(self, uid: str) -> list[Pod]:
        """The Pods that belong to a Run (see `Pod.run_uid`)."""
        return list(self._by_run.get(uid, _NOTHING).values())

    def run_of(self, pod: Pod) -> RunObject | None:
        """The Run that a Pod is a member of, if there is one."""
        member = pod.member
        run = self.runs.get((pod.metadata.namespace, member.run)) if member is not None else None
        return run if run is not None and run.metadata.uid == pod.run_uid else None

    def pods_on_node(self, node: str) -> list[Pod]:
        """All Pods that are bound to a node, finished ones included."""
        return list(self._by_node.get(node, _NOTHING).values())

    def usage_of(self, node: str) -> NodeUsage | None:
        """What the unfinished Pods on a node take together, or None where there are none. Not to be changed."""
        return self._usage.get(node)

    def nominated(self) -> list[Pod]:
        """Pods of others that the scheduler is making room for on a node: it lets nobody else have that."""
        return list(self._nominated.values())

    def leaving(self) -> list[Pod]:
        """Members of runs that were asked to end, and are still on their nodes."""
        return list(self._leaving.values())

    def holders(self) -> list[Key]:
        """Runs with members that are on a node and have not ended, by namespace and name; some of them may be gone."""
        return list(self._holders)

    def usage_of_pod(self, pod: Pod) -> PodUsage:
        """What the scheduler reserves for one Pod."""
        return pod_usage(pod.spec)

    # ------------------------------------------------------------------------------------------ watching

    async def _mirror(self, resource: Resource, state: _State) -> None:
        type, store, shrink = self._kinds[resource]

        def note(error: Exception | None) -> None:
            if state.note(error, self._clock()):
                for callback in self._on_health:
                    callback()

        watcher: Watcher[Any] = Watcher(
            self._client,
            resource,
            type,
            page_size=self._page_size,
            shrink=shrink,
            store=store,
            settings=self._settings,
            on_trouble=note,
        )
        try:
            async with aclosing(follow(watcher)) as changes:
                async for change in changes:
                    if isinstance(change, Synced):
                        self._note_synced(resource, state)
                        continue
                    if resource is PODS:
                        self._index(change)
                    meta = change.object.metadata
                    self._tell(resource, meta.namespace, meta.name)
        except KajitoriError as error:
            state.trouble = state.fatal = error
            state.first_sync.set()

    def _note_synced(self, resource: Resource, state: _State) -> None:
        if not state.first_sync.is_set():
            log.debug("%s mirrored: %d", resource.plural, len(self._kinds[resource][1]))
            gc.collect()
            gc.freeze()  # what was read stays; the collector need not look at it over and over
            state.first_sync.set()

    def _tell(self, resource: Resource, namespace: str, name: str) -> None:
        for callback in self._callbacks:
            try:
                callback(resource, namespace, name)
            except Exception:
                log.exception("a callback for %s %s/%s failed; this is a bug", resource.plural, namespace, name)

    # ------------------------------------------------------------------------------------------ indexes

    def _index(self, change: Added[Pod] | Modified[Pod] | Deleted[Pod]) -> None:
        gone = isinstance(change, Deleted)
        self._note_nomination(change.object, gone=gone)
        self._note_leaving(change.object, gone=gone)
        if isinstance(change, Deleted):
            self._unindex_pod(change.object)
        elif isinstance(change, Added):
            self._index_pod(change.object)
        elif _stays_where_it_is(change.old, change.object):
            self._replace_pod(change.object)
        else:
            self._unindex_pod(change.old)
            self._index_pod(change.object)

    def _index_pod(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        run_uid, node = pod.run_uid, pod.spec.node_name
        if run_uid:
            self._by_run.setdefault(run_uid, {})[key] = pod
        if node:
            self._by_node.setdefault(node, {})[key] = pod
            if not pod.is_finished:
                self._usage.setdefault(node, NodeUsage())
                self._count(pod, run_uid, 1)

    def _replace_pod(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        run_uid, node = pod.run_uid, pod.spec.node_name
        if run_uid:
            self._by_run[run_uid][key] = pod
        if node:
            self._by_node[node][key] = pod

    def _unindex_pod(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        run_uid, node = pod.run_uid, pod.spec.node_name
        if run_uid:
            _remove(self._by_run, run_uid, key)
        if node:
            _remove(self._by_node, node, key)
            if not pod.is_finished:
                self._count(pod, run_uid, -1)
                if not self._usage[node].pods:
                    del self._usage[node]

    def _note_nomination(self, pod: Pod, *, gone: bool) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        waits = pod.status.nominated_node_name and not pod.spec.node_name and not pod.is_finished
        if waits and not gone and not pod.run_uid:
            self._nominated[key] = pod
        else:
            self._nominated.pop(key, None)

    def _note_leaving(self, pod: Pod, *, gone: bool) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        leaves = pod.metadata.deletion_timestamp and pod.spec.node_name and not pod.is_finished
        if leaves and not gone and pod.run_uid:
            self._leaving[key] = pod
        else:
            self._leaving.pop(key, None)

    def _count(self, pod: Pod, run_uid: str, times: int) -> None:
        is_member = bool(run_uid)
        member = pod.member
        if is_member and member is not None:
            key = pod.metadata.namespace, member.run
            self._holders[key] = self._holders.get(key, 0) + times
            if not self._holders[key]:
                del self._holders[key]
        self._usage[pod.spec.node_name].add(
            pod_usage(pod.spec), is_member=is_member, is_alone=is_member and is_alone(pod), times=times
        )


@dataclass(slots=True, init=False)
class _State:
    """How one kind's watch stands."""

    first_sync: asyncio.Event
    fatal: KajitoriError | None
    trouble: Exception | None
    stale_since: float | None
    """When the watch broke, if it did; on the client's clock, as is when it will have caught up."""
    stale_until: float

    def __init__(self) -> None:
        self.first_sync = asyncio.Event()
        self.fatal = None
        self.trouble = None
        self.stale_since = None
        self.stale_until = 0.0

    def note(self, error: Exception | None, now: float) -> bool:
        """A failure, or None for a success; whether this is a turn."""
        turned = (error is None) is not (self.trouble is None)
        self.trouble = error
        if turned and error is None:
            self.stale_until = now + CATCH_UP_SECONDS
        elif turned:
            if self.stale_until <= now:  # else it had not even caught up with what it had missed before
                self.stale_since = now
            self.stale_until = math.inf
        return turned


def _stays_where_it_is(old: Pod, new: Pod) -> bool:
    """Neither indexes nor usage change: what they depend on was not touched (see kube.shrink)."""
    return (
        new.spec is old.spec
        and new.metadata.labels is old.metadata.labels
        and new.metadata.owner_references is old.metadata.owner_references
        and new.is_finished is old.is_finished
    )


def _remove(index: dict[str, dict[Key, Pod]], name: str, key: Key) -> None:
    pods = index[name]
    del pods[key]
    if not pods:
        del index[name]
