"""The Pods of each node, as a stream of lines for clients that follow the node.

A slow client gets fewer lines: several changes of a Pod become one line with its latest state. The memory per
client is therefore bounded by the number of Pods on its node.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.objects import Pod as MirroredPod
from kajitori.cluster.run_object import RUNS
from kajitori.core.traffic.node_feed import Line
from kajitori.core.traffic.totals import Pod
from kajitori.kube.resources import PODS, Resource


class Follower:
    """One client that follows a node. `changed` is set when there is something to send."""

    def __init__(self, feed: NodeFeed, node: str, since: str) -> None:
        self.changed = asyncio.Event()
        self._feed = feed
        self._node = node
        self._sent: dict[Key, Pod] = {}
        self._dirty: set[Key] = set()
        self._is_new = True
        if since and since == feed.stamp(node):  # nothing changed: the first line only confirms the connection
            self._sent = feed.pods(node)
        else:
            self.changed.set()

    def touch(self, key: Key) -> None:
        """Record that this Pod may have changed."""
        self._dirty.add(key)
        self.changed.set()

    def line(self) -> Line:
        """Return the next line. If nothing changed, it contains only stamp and age."""
        self.changed.clear()
        dirty, self._dirty = self._dirty, set()
        feed, age = self._feed, self._feed.age_seconds()
        stamp = feed.stamp(self._node)
        if self._is_new:
            self._is_new = False
            if not self._sent:
                self._sent = feed.pods(self._node)
                return Line(stamp, whole=True, pods=tuple(self._sent.values()), age_seconds=age)
        pods, gone = [], []
        for key in dirty:
            old, new = self._sent.pop(key, None), feed.pod(self._node, key)
            if new is not None:
                self._sent[key] = new
                if new != old:
                    pods.append(new)
            if old is not None and (new is None or new.uid != old.uid):
                gone.append(old.uid)
        return Line(stamp, pods=tuple(pods), gone=tuple(gone), age_seconds=age)


class NodeFeed:
    """The Pods and Runs of a mirror, by node."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._life = secrets.token_hex(4)
        """Identifies this process in stamps, because each relay counts changes by itself."""
        self._changes: dict[str, int] = defaultdict(int)
        """Number of changes by node."""
        self._node_of: dict[Key, str] = {}
        self._owners: dict[Key, str] = {}
        """Users who submitted the Runs."""
        self._followers: dict[str, set[Follower]] = defaultdict(set)
        self._unsubscribe = mirror.on_change(self._on_change)
        for key, pod in mirror.pods.items():
            self._note(key, pod)

    def close(self) -> None:
        """Stop following the mirror."""
        self._unsubscribe()

    @property
    def follower_count(self) -> int:
        """Number of present followers."""
        return sum(map(len, self._followers.values()))

    def age_seconds(self) -> float:
        """Return the age of the state that the mirror shows."""
        return round(self._mirror.age_seconds(), 1)

    def stamp(self, node: str) -> str:
        """Return a text that identifies the present state of the node's Pods."""
        return f"{self._life}.{self._changes.get(node, 0)}"

    def pods(self, node: str) -> dict[Key, Pod]:
        """Return the unfinished Pods of a node, the oldest first. If two have the same address, it belongs to the
        newer."""
        by_age = sorted(self._mirror.pods_on_node(node), key=lambda pod: pod.metadata.creation_timestamp)
        found = ((pod.metadata.namespace, pod.metadata.name) for pod in by_age)
        return {key: pod for key in found if (pod := self.pod(node, key)) is not None}

    def pod(self, node: str, key: Key) -> Pod | None:
        """Return one Pod of a node; None if it is not on the node, or has finished."""
        pod = self._mirror.pods.get(key)
        if pod is None or pod.spec.node_name != node or pod.is_finished:
            return None
        run = self._mirror.run_of(pod)  # by proven ownership: the Pod's creator could write any label
        return Pod(
            uid=pod.metadata.uid,
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            run=run.metadata.name if run is not None else "",
            run_uid=run.metadata.uid if run is not None else "",
            user=run.owner if run is not None else "",
            addresses=() if pod.status.pod_ip == pod.status.host_ip else pod.addresses,
        )

    @contextmanager
    def follow(self, node: str, since: str = "") -> Iterator[Follower]:
        """Follow a node while the block lasts. `since` is the last stamp that the client received."""
        follower = Follower(self, node, since)
        self._followers[node].add(follower)
        try:
            yield follower
        finally:
            self._followers[node].discard(follower)
            if not self._followers[node]:
                del self._followers[node]

    def _on_change(self, resource: Resource, namespace: str, name: str) -> None:
        key = (namespace, name)
        if resource == RUNS:
            self._note_run(key)
        elif resource == PODS:
            before, pod = self._node_of.get(key, ""), self._mirror.pods.get(key)
            self._note(key, pod)
            for node in {before, self._node_of.get(key, "")}:
                self._mark_changed(node, key)

    def _note(self, key: Key, pod: MirroredPod | None) -> None:
        if pod is None or not pod.spec.node_name:
            self._node_of.pop(key, None)
        else:
            self._node_of[key] = pod.spec.node_name

    def _note_run(self, key: Key) -> None:
        """Send Pods again that were seen before their Run, since they lack its owner. Other changes of a Run do not
        matter."""
        run = self._mirror.runs.get(key)
        if run is None:
            self._owners.pop(key, None)
            return
        owner = run.owner
        if self._owners.get(key) != owner:
            self._owners[key] = owner
            for pod in self._mirror.owned_pods(*key, run.metadata.uid):
                self._mark_changed(pod.spec.node_name, (pod.metadata.namespace, pod.metadata.name))

    def _mark_changed(self, node: str, key: Key) -> None:
        if node:
            self._changes[node] += 1
            for follower in self._followers.get(node, ()):
                follower.touch(key)
