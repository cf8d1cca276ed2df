"""The mirror: the needed fields of Nodes, Pods and Runs in memory, with indexes.

A process has one mirror, which all of its parts read, because requests to the API server must not grow with the
cluster. The contents may be slightly out of date: a writer must let the API server check what it read (resourceVersion,
uid).
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

from kajitori.cluster.mirror.pod_index import Key as Key
from kajitori.cluster.mirror.pod_index import PodIndex, coverage_of
from kajitori.cluster.mirror.shrink import shrink_meta, shrink_node, shrink_pod, shrink_run, shrink_slice
from kajitori.cluster.mirror.usage import NodeUsage, PodUsage, pod_usage
from kajitori.cluster.objects import Claim, Event, Namespace, Node, Pod
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.errors import Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.device_objects import DeviceClaim, DeviceTaintRule, PublishedClass, ResourceSlice
from kajitori.kube.errors import NotServedError
from kajitori.kube.resources import (
    CLAIMS,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_KINDS,
    DEVICE_TAINT_RULES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_SLICES,
    Resource,
)
from kajitori.kube.watch import Added, Deleted, Modified, Synced, Watcher, WatchSettings, follow

log = logging.getLogger(__name__)

Callback = Callable[[Resource, str, str], None]
"""Called with the kind, the namespace (empty for cluster-scoped kinds) and the name of a changed object."""

FREEZE_OBJECTS = 2_000
"""From this number of objects on, the garbage collector no longer scans the objects of the first list."""

ASK_AGAIN_SECONDS = 300.0
"""Interval at which a kind is tried again that the API server did not serve."""
FORBIDDEN_SECONDS = 30.0
"""The same for a kind that this process may not read."""

CATCH_UP_SECONDS = 0.5
"""Time in which a watch that is accepted again delivers what happened while it was broken."""


class Mirror:
    """Watches the given kinds. Read it from the event loop it runs in; change nothing that it returns.

    Finished Pods stay in `pods` until they are deleted, but count for no usage.
    """

    def __init__(
        self,
        client: KubeClient,
        resources: Sequence[Resource] = (NODES, PODS, RUNS, *DEVICE_KINDS),
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
        self.slices: dict[str, ResourceSlice] = {}
        self.device_classes: dict[str, PublishedClass] = {}
        self.device_claims: dict[Key, DeviceClaim] = {}
        self.device_taint_rules: dict[str, DeviceTaintRule] = {}
        self._pods = PodIndex(self.runs)
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
            RESOURCE_SLICES: (ResourceSlice, self.slices, shrink_slice),
            DEVICE_CLASSES: (PublishedClass, self.device_classes, shrink_meta),
            DEVICE_CLAIMS: (DeviceClaim, self.device_claims, shrink_meta),
            DEVICE_TAINT_RULES: (DeviceTaintRule, self.device_taint_rules, shrink_meta),
        }
        unknown = [resource.plural for resource in resources if resource not in kinds]
        if unknown:
            raise ValueError(f"a mirror does not support {', '.join(unknown)}")
        self._kinds = kinds

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to watch, in tasks of the running event loop."""
        if self._tasks:
            raise RuntimeError("this mirror was started already")
        self._tasks = [
            asyncio.create_task(
                (self._mirror_if_served if resource in DEVICE_KINDS else self._follow_or_fail)(resource, state),
                name=f"mirror-{resource.plural}",
            )
            for resource, state in self._states.items()
        ]

    async def wait_synced(self) -> None:
        """Return when every kind was read once. Raises what the API server refuses for good (401, 403, 404)."""
        for state in self._states.values():
            await state.first_sync.wait()
            if state.fatal is not None:
                raise state.fatal

    @property
    def synced(self) -> bool:
        """Whether every kind was read once and nothing has failed for good."""
        return all(state.first_sync.is_set() and state.fatal is None for state in self._states.values())

    @property
    def trouble(self) -> str:
        """Why the mirror may be stale now; empty if it is not."""
        troubles = [f"{resource.plural}: {s.trouble}" for resource, s in self._states.items() if s.trouble is not None]
        return "; ".join(troubles)

    def lacks(self, resource: Resource) -> bool:
        """Return whether the API server does not serve this kind, or no longer does."""
        return isinstance(self._states[resource].trouble, NotServedError)

    async def wait_fresh(self) -> None:
        """Return when no watch is broken and all have caught up."""
        turned = asyncio.Event()
        end = self.on_health(turned.set)
        try:
            while self.age_seconds():
                turned.clear()
                await (turned.wait() if self.trouble else self._client.environment.sleep(CATCH_UP_SECONDS))
        finally:
            end()

    def age_seconds(self) -> float:
        """Return for how many seconds the mirror may be out of date; 0 if no watch is broken and all have caught up.

        A deadline must be judged by the time of the facts: a member that was starting then may have started since.
        """
        now = self._clock()
        ages = [now - s.stale_since for s in self._states.values() if s.stale_since is not None and s.stale_until > now]
        return max(ages, default=0.0)

    def shown_until(self, now: datetime) -> datetime:
        """Return `now`. While the mirror has no connection, return the last moment that it shows, so that no deadline
        is judged by outdated facts."""
        return now - timedelta(seconds=self.age_seconds())

    def now(self) -> datetime:
        """Return the API server's time: all processes that judge the same Runs must use the same clock."""
        return self._client.now()

    async def set_clock(self) -> None:
        """Read the API server's time again. If the server does not answer, the known time is kept."""
        with suppress(KajitoriError):
            await self._client.set_clock()

    async def stop(self) -> None:
        """Stop watching; what was read stays readable."""
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

    def use_signing_key(self, key: bytes) -> None:
        """Check members' signatures with this key from now on.

        Without a key only owner references count, so a Pod that lost its owner reference is no member.
        """
        for pod in self._pods.use_signing_key(key):
            self._notify(PODS, pod.metadata.namespace, pod.metadata.name)

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` after every change, from the first list on. Return a function that ends it."""
        self._callbacks += (callback,)

        def unsubscribe() -> None:
            self._callbacks = tuple(known for known in self._callbacks if known is not callback)

        return unsubscribe

    def on_health(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when a watch breaks and when it works again (see `trouble`). Return a function that
        ends it."""
        self._on_health += (callback,)

        def unsubscribe() -> None:
            self._on_health = tuple(known for known in self._on_health if known is not callback)

        return unsubscribe

    # ------------------------------------------------------------------------------------------ questions

    def pods_of_run(self, run: RunObject) -> list[Pod]:
        """Return the Pods that count as members of a Run now: Pods of the Run with an attempt and a rank that it has
        planned."""
        meta, covered = run.metadata, coverage_of(run)
        found = ((pod, pod.member) for pod in self._pods.owned(meta.namespace, meta.name, meta.uid))
        return [pod for pod, name in found if name is not None and covered.covers(name.attempt, name.rank)]

    def is_member(self, pod: Pod) -> bool:
        """Return whether this Pod counts as a member of a Run now."""
        run, name = self.run_of(pod), pod.member
        return run is not None and name is not None and coverage_of(run).covers(name.attempt, name.rank)

    def owned_pods(self, namespace: str, name: str, uid: str) -> list[Pod]:
        """Return all Pods that belong to a Run (see `cluster.mirror.pod_index`), with any attempt and rank, to be ended
        with it."""
        return self._pods.owned(namespace, name, uid)

    def mislabelled_pods(self, namespace: str, name: str, uid: str) -> frozenset[Key]:
        """Return Pods that carry a Run's label and do not belong to it: a deletion by label would delete them."""
        return self._pods.mislabelled(namespace, name, uid)

    def run_of(self, pod: Pod) -> RunObject | None:
        """Return the Run that a Pod belongs to, or None."""
        member = pod.member
        run = self.runs.get((pod.metadata.namespace, member.run)) if member is not None else None
        return run if run is not None and run.metadata.uid == self._pods.run_uid(pod) else None

    def run_uid_of(self, pod: Pod) -> str:
        """Return the UID of the Run that a Pod provably belongs to, even if the mirror lacks that Run; empty if
        none."""
        return self._pods.run_uid(pod)

    def members(self) -> frozenset[Key]:
        """Return all Pods that belong to a Run in the mirror."""
        return self._pods.members()

    def pods_on_node(self, node: str) -> list[Pod]:
        """Return all Pods that are bound to a node, including finished ones."""
        return self._pods.on_node(node)

    def usage_of(self, node: str) -> NodeUsage | None:
        """Return the usage of the unfinished Pods on a node, or None if there are none. Do not change it."""
        return self._pods.usage_of(node)

    def usage_changes(self, since: int) -> tuple[int, list[str]]:
        """Return the number of the last change of usage, and the nodes with a change of usage after change `since`."""
        return self._pods.usage_changes(since)

    def nominated(self) -> list[Pod]:
        """Return Pods, other than members, that the scheduler makes room for on a node. No other Pod may take that
        room."""
        return self._pods.nominated()

    def leaving(self) -> list[Pod]:
        """Return members of runs that are being deleted and still are on their nodes."""
        return self._pods.leaving()

    def holders(self) -> list[Key]:
        """Return runs with unfinished members on a node, by namespace and name; some of the runs may be deleted."""
        return self._pods.holders()

    def usage_of_pod(self, pod: Pod) -> PodUsage:
        """Return what the scheduler reserves for one Pod."""
        return pod_usage(pod.spec)

    # ------------------------------------------------------------------------------------------ watching

    async def _follow_or_fail(self, resource: Resource, state: _State) -> None:
        try:
            await self._follow_watch(resource, state)
        except KajitoriError as error:
            state.trouble = state.fatal = error
            state.first_sync.set()

    async def _mirror_if_served(self, resource: Resource, state: _State) -> None:
        """Mirror a kind that the API server may not serve or may forbid to read; until it can be read, the mirror has
        no such objects. The kind is tried again from time to time, since API servers are upgraded and roles are
        extended."""
        store, was_forbidden = self._kinds[resource][1], False
        while True:
            try:
                await self._follow_watch(resource, state)
            except KajitoriError as error:
                is_forbidden = isinstance(error, Forbidden)
                if is_forbidden and not was_forbidden:
                    log.warning("%s are not counted: %s", resource.plural, error)
                was_forbidden = was_forbidden or is_forbidden
                self._note_trouble(state, None)
                state.first_sync.set()
                for key in list(store):
                    meta = store.pop(key).metadata
                    self._notify(resource, meta.namespace, meta.name)
                # An API server that has just started may refuse what it allows a moment later.
                await self._client.environment.sleep(FORBIDDEN_SECONDS if is_forbidden else ASK_AGAIN_SECONDS)

    async def _follow_watch(self, resource: Resource, state: _State) -> None:
        """Follow the watch of a kind. Raises permanent refusals of the API server before the first list; for an
        optional kind also NotFound, if the API server no longer serves it."""
        type, store, shrink = self._kinds[resource]

        def note(error: Exception | None) -> None:
            if resource in DEVICE_KINDS and isinstance(error, NotFound):
                raise error
            self._note_trouble(state, error)

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
        async with aclosing(follow(watcher)) as changes:
            async for change in changes:
                if isinstance(change, Synced):
                    self._note_synced(resource, state)
                    continue
                if resource is PODS:
                    self._index(change)
                elif resource is RUNS:
                    self._pods.note_run(change)
                meta = change.object.metadata
                self._notify(resource, meta.namespace, meta.name)

    def _note_trouble(self, state: _State, error: Exception | None) -> None:
        if state.note(error, self._clock()):
            for callback in self._on_health:
                callback()

    def _index(self, change: Added[Pod] | Modified[Pod] | Deleted[Pod]) -> None:
        self._pods.note_pod(change)

    def _note_synced(self, resource: Resource, state: _State) -> None:
        if not state.first_sync.is_set():
            count = len(self._kinds[resource][1])
            log.debug("%s mirrored: %d", resource.plural, count)
            if count >= FREEZE_OBJECTS:
                gc.collect()
                gc.freeze()  # these objects stay, so the collector need not scan them again and again
            state.first_sync.set()

    def _notify(self, resource: Resource, namespace: str, name: str) -> None:
        for callback in self._callbacks:
            try:
                callback(resource, namespace, name)
            except Exception:
                log.exception("a callback for %s %s/%s failed; this is a bug", resource.plural, namespace, name)


@dataclass(slots=True, init=False)
class _State:
    """The state of one kind's watch."""

    first_sync: asyncio.Event
    fatal: KajitoriError | None
    trouble: Exception | None
    stale_since: float | None
    """When the watch broke, on the client's clock; `stale_until` is when it will have caught up."""
    stale_until: float

    def __init__(self) -> None:
        self.first_sync = asyncio.Event()
        self.fatal = None
        self.trouble = None
        self.stale_since = None
        self.stale_until = 0.0

    def note(self, error: Exception | None, now: float) -> bool:
        """Note a failure, or None for a success. Return whether the watch broke or recovered."""
        turned = (error is None) is not (self.trouble is None)
        self.trouble = error
        if turned and error is None:
            self.stale_until = now + CATCH_UP_SECONDS
        elif turned:
            if self.stale_until <= now:  # otherwise it had not caught up with the changes that it missed before
                self.stale_since = now
            self.stale_until = math.inf
        return turned
