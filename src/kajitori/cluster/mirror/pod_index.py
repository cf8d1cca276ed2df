"""Pods by run and by node, with their usage: follows a mirror's Pods and Runs one change at a time.

A Pod belongs to a run only in the Run's own namespace, under the name of a member, and with proof: its controller is
that Run by UID and name or, if that owner reference was removed, its signature says so. Labels prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TypeVar

from kajitori.cluster.mirror.usage import NodeUsage, is_alone, pod_usage
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.gang.membership import Coverage, coverage
from kajitori.core.naming import names
from kajitori.core.pods.tickets import run_of_signed_member
from kajitori.core.spec.array import parse_array
from kajitori.core.spec.reading.stored import read_stored
from kajitori.errors import FieldError
from kajitori.kube.watch import Added, Deleted, Modified

Key = tuple[str, str]
"""Namespace and name."""

Owner = tuple[str, str]
"""Namespace and UID of a Run."""

K = TypeVar("K", str, Owner)

_NOTHING: dict[Key, Pod] = {}


class PodIndex:
    """Pods by run and by node. `runs` is the mirror's own dictionary; it has a change of a Run already when `note_run`
    is called."""

    def __init__(self, runs: Mapping[Key, RunObject]) -> None:
        self._runs = runs
        self._signature_key: bytes | None = None
        self._signed: dict[Key, Pod] = {}
        """Pods that have a signature and no owner."""
        self._by_signature: dict[Key, str] = {}
        """UID of the run that the Pod's signature proves."""
        self._owned: dict[Owner, dict[Key, Pod]] = {}
        """Pods by the Run that they prove to belong to, whether or not a Run with this UID and the right name
        exists."""
        self._mislabelled: dict[Owner, set[Key]] = {}
        """Pods that carry a run's label and do not belong to that run."""
        self._members: set[Key] = set()
        """Pods that belong to a Run in the mirror."""
        self._by_node: dict[str, dict[Key, Pod]] = {}
        self._usage: dict[str, NodeUsage] = {}
        self._usage_changed: dict[str, int] = {}
        """The number of the last change of each node's usage, the latest change last."""
        self._usage_changes = 0
        self._nominated: dict[Key, Pod] = {}
        self._leaving: dict[Key, Pod] = {}
        self._holders: dict[Key, int] = {}
        """Number of unfinished members on a node, by run."""

    # ------------------------------------------------------------------------------------------ questions

    def run_uid(self, pod: Pod) -> str:
        """Return the UID of the Run that this Pod proves to belong to, if it exists in its namespace; empty without
        proof."""
        return pod.owner_run_uid or self._by_signature.get(_key_of(pod), "")

    def owned(self, namespace: str, name: str, uid: str) -> list[Pod]:
        """Return all Pods that belong to a Run."""
        found = self._owned.get((namespace, uid), _NOTHING)
        return [pod for key, pod in found.items() if _is_named_after(name, key)]

    def mislabelled(self, namespace: str, name: str, uid: str) -> frozenset[Key]:
        """Return the Pods of the namespace that carry the Run's label and do not belong to the Run."""
        misnamed = {key for key in self._owned.get((namespace, uid), _NOTHING) if not _is_named_after(name, key)}
        return frozenset(self._mislabelled.get((namespace, uid), set()) | misnamed)

    def members(self) -> frozenset[Key]:
        """Return all Pods that belong to a Run in the mirror."""
        return frozenset(self._members)

    def on_node(self, node: str) -> list[Pod]:
        """Return all Pods that are bound to a node, including finished ones."""
        return list(self._by_node.get(node, _NOTHING).values())

    def usage_of(self, node: str) -> NodeUsage | None:
        """Return the usage of the unfinished Pods on a node; None if there are none. Do not change it."""
        return self._usage.get(node)

    def usage_changes(self, since: int) -> tuple[int, list[str]]:
        """Return the number of the last change of usage, and the nodes with a change of usage after change `since`.
        Nodes that never had any usage are left out."""
        nodes = []
        for node, change in reversed(self._usage_changed.items()):
            if change <= since:
                break
            nodes.append(node)
        return self._usage_changes, nodes

    def nominated(self) -> list[Pod]:
        """Return other Pods for which the scheduler makes room on a node."""
        return list(self._nominated.values())

    def leaving(self) -> list[Pod]:
        """Return members of runs that are being deleted and still are on their nodes."""
        return list(self._leaving.values())

    def holders(self) -> list[Key]:
        """Return runs with unfinished members on a node, by namespace and name."""
        return list(self._holders)

    # ------------------------------------------------------------------------------------------ changes

    def note_pod(self, change: Added[Pod] | Modified[Pod] | Deleted[Pod]) -> None:
        """Follow one change of a Pod."""
        pod = change.object
        if isinstance(change, Modified) and _keeps_its_place(change.old, pod):
            self._replace_pod(pod)
            return
        if isinstance(change, Modified):
            self._remove_pod(change.old)
        elif isinstance(change, Deleted):
            self._remove_pod(pod)
        if not isinstance(change, Deleted):
            self._add_pod(pod)

    def note_run(self, change: Added[RunObject] | Modified[RunObject] | Deleted[RunObject]) -> None:
        """Follow one change of a Run: its Pods count as members while it is in the mirror."""
        meta = change.object.metadata
        if isinstance(change, Modified) and change.old.metadata.uid == meta.uid:
            return
        uids = {meta.uid, change.old.metadata.uid} if isinstance(change, Modified) else {meta.uid}
        for uid in uids:
            for pod in list(self._owned.get((meta.namespace, uid), _NOTHING).values()):
                self._remove_pod(pod)
                self._add_pod(pod)

    def use_signing_key(self, key: bytes) -> list[Pod]:
        """Check signatures with this key from now on; return the Pods that belong to another run than before."""
        if key == self._signature_key:
            return []
        self._signature_key = key
        changed = []
        for pod in list(self._signed.values()):
            before = self.run_uid(pod)
            self._remove_pod(pod)
            self._add_pod(pod)
            if self.run_uid(pod) != before:
                changed.append(pod)
        return changed

    # ------------------------------------------------------------------------------------------ inside

    def _add_pod(self, pod: Pod) -> None:
        key, namespace, node = _key_of(pod), pod.metadata.namespace, pod.spec.node_name
        uid = pod.owner_run_uid
        if not uid and names.ANNOTATION_SIGNATURE in pod.metadata.annotations:
            self._signed[key] = pod
            uid = self._by_signature[key] = self._run_that_signed(pod)
        if uid:
            self._owned.setdefault((namespace, uid), {})[key] = pod
        label = pod.metadata.labels.get(names.LABEL_RUN_UID, "")
        if label and label != uid:
            self._mislabelled.setdefault((namespace, label), set()).add(key)
        member = pod.member if uid else None
        run = self._runs.get((namespace, member.run)) if member is not None else None
        if run is not None and run.metadata.uid == uid:
            self._members.add(key)
        if node:
            self._by_node.setdefault(node, {})[key] = pod
            if not pod.is_finished:
                self._usage.setdefault(node, NodeUsage())
                self._count_usage(pod, 1)
        self._note_moves(pod)

    def _replace_pod(self, pod: Pod) -> None:
        key, uid, node = _key_of(pod), self.run_uid(pod), pod.spec.node_name
        if uid:
            self._owned[pod.metadata.namespace, uid][key] = pod
        if key in self._signed:
            self._signed[key] = pod
        if node:
            self._by_node[node][key] = pod
        self._note_moves(pod)

    def _remove_pod(self, pod: Pod) -> None:
        key, namespace, node = _key_of(pod), pod.metadata.namespace, pod.spec.node_name
        if node:
            _remove_from(self._by_node, node, key)
            if not pod.is_finished:
                self._count_usage(pod, -1)
                if not self._usage[node].pods:
                    del self._usage[node]
        self._nominated.pop(key, None)
        self._leaving.pop(key, None)
        self._members.discard(key)
        uid, label = self.run_uid(pod), pod.metadata.labels.get(names.LABEL_RUN_UID, "")
        self._signed.pop(key, None)
        self._by_signature.pop(key, None)
        if uid:
            _remove_from(self._owned, (namespace, uid), key)
        if label and label != uid:
            mislabelled = self._mislabelled[namespace, label]
            mislabelled.discard(key)
            if not mislabelled:
                del self._mislabelled[namespace, label]

    def _run_that_signed(self, pod: Pod) -> str:
        if self._signature_key is None or pod.member is None:
            return ""
        meta, text = pod.metadata, pod.metadata.annotations[names.ANNOTATION_SIGNATURE]
        return run_of_signed_member(text, meta.namespace, meta.name, self._signature_key)

    def _note_moves(self, pod: Pod) -> None:
        """Index whether the scheduler makes room for the Pod, and whether it is about to leave its node."""
        key, is_member = _key_of(pod), _key_of(pod) in self._members
        awaited = pod.status.nominated_node_name and not pod.spec.node_name and not pod.is_finished
        leaves = pod.metadata.deletion_timestamp and pod.spec.node_name and not pod.is_finished
        for index, belongs in ((self._nominated, awaited and not is_member), (self._leaving, leaves and is_member)):
            if belongs:
                index[key] = pod
            else:
                index.pop(key, None)

    def _count_usage(self, pod: Pod, times: int) -> None:
        is_member = _key_of(pod) in self._members
        if is_member and pod.member is not None:
            run = pod.metadata.namespace, pod.member.run
            self._holders[run] = self._holders.get(run, 0) + times
            if not self._holders[run]:
                del self._holders[run]
        self._usage_changes += 1
        self._usage_changed.pop(pod.spec.node_name, None)
        self._usage_changed[pod.spec.node_name] = self._usage_changes
        usage = self._usage[pod.spec.node_name]
        usage.add(pod_usage(pod.spec), is_member=is_member, is_alone=is_member and is_alone(pod), times=times)


# ---------------------------------------------------------------------------------------------- what a Run covers


def coverage_of(run: RunObject) -> Coverage:
    """Return the attempts and ranks that count as members of a Run now."""
    kind, indices = _kind_of(bytes(run.spec))
    return coverage(run.status, kind, indices)


@lru_cache(maxsize=1024)
def _kind_of(spec: bytes) -> tuple[Literal["batch", "service"], frozenset[int] | None]:
    """Return the type of a spec and the indices of a sweep, even if the rest of the spec is invalid."""
    stored = read_stored(spec)
    indices: frozenset[int] | None = None
    if stored.array:
        with suppress(FieldError):
            indices = frozenset(parse_array(stored.array).indices)
    return stored.type, indices


def _is_named_after(run: str, pod: Key) -> bool:
    """Return whether the Pod's name, which is a member's name, is the name of a member of this run."""
    start = f"{run}-"
    return pod[1].startswith(start) and pod[1].count("-", len(start)) == 1


def _key_of(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name


def _keeps_its_place(old: Pod, new: Pod) -> bool:
    """Return whether all fields on which indexes or usage depend are unchanged (see `cluster.mirror.shrink`)."""
    return (
        new.spec is old.spec
        and new.metadata.labels is old.metadata.labels
        and new.metadata.annotations is old.metadata.annotations
        and new.metadata.owner_references is old.metadata.owner_references
        and new.is_finished is old.is_finished
    )


def _remove_from(index: dict[K, dict[Key, Pod]], name: K, key: Key) -> None:
    pods = index[name]
    del pods[key]
    if not pods:
        del index[name]
