"""Pods without their Run: it was deleted, and the garbage collector might remove the Pods only much later."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS
from kajitori.controllers.runs.attempts import RunReference, delete_members, release_member
from kajitori.controllers.workqueue import Key
from kajitori.core.gang import ReleaseMember
from kajitori.core.naming import names
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient

log = logging.getLogger(__name__)


class Orphans:
    """Missing Runs: Pods name them as their owner, and the mirror does not show them. A key is (namespace, UID)."""

    def __init__(self, client: KubeClient, mirror: Mirror) -> None:
        self._client = client
        self._mirror = mirror
        self._names: dict[Key, str] = {}
        """The names of these Runs."""

    def __contains__(self, key: Key) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[Key]:
        return iter(self._names)

    def note(self, pod: Pod) -> Key | None:
        """Return the key of a member's missing Run; None if its Run exists or it is no member."""
        uid, member, namespace = pod.owner_run_uid, pod.member, pod.metadata.namespace
        is_kept = names.FINALIZER_EXIT_CODE in pod.metadata.finalizers
        if not uid or member is None or (pod.metadata.deletion_timestamp and not is_kept):
            return None
        run = self._mirror.runs.get((namespace, member.run))
        if run is not None and run.metadata.uid == uid:
            return None
        if any(other.metadata.uid == uid for other in self._mirror.runs.values()):
            return None  # it names a Run of another namespace, so it is no member and is left alone
        key = (namespace, uid)
        self._names[key] = member.run
        return key

    async def delete(self, key: Key) -> None:
        """Delete the Pods of a missing Run, after the API server has confirmed that it does not exist."""
        (namespace, uid), name = key, self._names[key]
        try:
            found = await self._client.get(RUNS, name, namespace)
        except NotFound:
            found = None
        if found is None or found["metadata"]["uid"] != uid:
            log.info("run %s/%s is gone; its remaining Pods are deleted", namespace, name)
            reference = RunReference(namespace, name, uid)
            await delete_members(self._client, self._mirror, reference)
            for pod in self._mirror.owned_pods(*reference):
                if names.FINALIZER_EXIT_CODE in pod.metadata.finalizers:
                    action = ReleaseMember(pod.metadata.name, pod.metadata.uid)
                    await release_member(self._client, namespace, action)
        self._names.pop(key, None)
