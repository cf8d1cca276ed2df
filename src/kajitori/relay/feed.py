"""The Pods of each node, for whoever follows that node.

A follower that is slow is told less often, never too much: what changed meanwhile is told once, as it is then. So what
is kept for him is bounded by what is on his node.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from kajitori.core.traffic.node_feed import Line
from kajitori.core.traffic.totals import Pod
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import Pod as MirroredPod
from kajitori.kube.resources import PODS, RUNS, Resource


class Follower:
    """Somebody who follows one node. `changed` is set when there is something to tell."""

    def __init__(self, feed: NodeFeed, node: str, since: str) -> None:
        self.changed = asyncio.Event()
        self._feed = feed
        self._node = node
        self._told: dict[Key, Pod] = {}
        self._dirty: set[Key] = set()
        self._is_new = True
        if since and since == feed.stamp(node):  # nothing to tell but that he is heard
            self._told = feed.pods(node)
        else:
            self.changed.set()

    def touch(self, key: Key) -> None:
        """Something about this Pod may be another."""
        self._dirty.add(key)
        self.changed.set()

    def line(self) -> Line:
        """What is to be told now; nothing but stamp and age where nothing is."""
        self.changed.clear()
        dirty, self._dirty = self._dirty, set()
        feed, age = self._feed, self._feed.age_seconds()
        stamp = feed.stamp(self._node)
        if self._is_new:
            self._is_new = False
            if not self._told:
                self._told = feed.pods(self._node)
                return Line(stamp, True, tuple(self._told.values()), (), age)
        pods, gone = [], []
        for key in dirty:
            old, new = self._told.pop(key, None), feed.pod(self._node, key)
            if new is not None:
                self._told[key] = new
                if new != old:
                    pods.append(new)
            if old is not None and (new is None or new.uid != old.uid):
                gone.append(old.uid)
        return Line(stamp, False, tuple(pods), tuple(gone), age)


class NodeFeed:
    """What a mirror of Pods and Runs shows, by node."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._life = secrets.token_hex(4)
        """Another one for each process: what one relay has counted says nothing to another."""
        self._changes: dict[str, int] = defaultdict(int)
        """By node: how often it changed."""
        self._node_of: dict[Key, str] = {}
        self._owners: dict[Key, str] = {}
        """Of Runs: who submitted them."""
        self._followers: dict[str, set[Follower]] = defaultdict(set)
        self._unsubscribe = mirror.on_change(self._changed)
        for key, pod in mirror.pods.items():
            self._note(key, pod)

    def close(self) -> None:
        """Follows the mirror no more."""
        self._unsubscribe()

    @property
    def follower_count(self) -> int:
        """How many follow now."""
        return sum(map(len, self._followers.values()))

    def age_seconds(self) -> float:
        """How long ago all of it was known to be so."""
        return round(self._mirror.age_seconds(), 1)

    def stamp(self, node: str) -> str:
        """Stands for what the node's Pods are now."""
        return f"{self._life}.{self._changes.get(node, 0)}"

    def pods(self, node: str) -> dict[Key, Pod]:
        """All Pods of a node that are not finished, the oldest first: an address that two have is the newer one's."""
        there = sorted(self._mirror.pods_on_node(node), key=lambda pod: pod.metadata.creation_timestamp)
        found = ((pod.metadata.namespace, pod.metadata.name) for pod in there)
        return {key: pod for key in found if (pod := self.pod(node, key)) is not None}

    def pod(self, node: str, key: Key) -> Pod | None:
        """One Pod of a node; None where it is not there, or finished."""
        pod = self._mirror.pods.get(key)
        if pod is None or pod.spec.node_name != node or pod.is_finished:
            return None
        run = self._mirror.run_of(pod)  # what anyone can write about a Pod of his own is booked on nobody's account
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
        """Somebody follows a node while the block lasts. since: the last stamp that he heard."""
        follower = Follower(self, node, since)
        self._followers[node].add(follower)
        try:
            yield follower
        finally:
            self._followers[node].discard(follower)
            if not self._followers[node]:
                del self._followers[node]

    def _changed(self, resource: Resource, namespace: str, name: str) -> None:
        key = (namespace, name)
        if resource == RUNS:
            self._note_run(key)
        elif resource == PODS:
            before, pod = self._node_of.get(key, ""), self._mirror.pods.get(key)
            self._note(key, pod)
            for node in {before, self._node_of.get(key, "")}:
                self._touch(node, key)

    def _note(self, key: Key, pod: MirroredPod | None) -> None:
        if pod is None or not pod.spec.node_name:
            self._node_of.pop(key, None)
        else:
            self._node_of[key] = pod.spec.node_name

    def _note_run(self, key: Key) -> None:
        """Whose its Pods are is known only now, if they were seen first. What else changes does not matter."""
        run = self._mirror.runs.get(key)
        if run is None:
            self._owners.pop(key, None)
            return
        owner = run.owner
        if self._owners.get(key) != owner:
            self._owners[key] = owner
            for pod in self._mirror.owned_pods(*key, run.metadata.uid):
                self._touch(pod.spec.node_name, (pod.metadata.namespace, pod.metadata.name))

    def _touch(self, node: str, key: Key) -> None:
        if node:
            self._changes[node] += 1
            for follower in self._followers.get(node, ()):
                follower.touch(key)
