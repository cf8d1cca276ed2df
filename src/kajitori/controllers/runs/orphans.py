"""Pods that are left of Runs that are gone: somebody died between the two, and nobody else takes them away soon."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kajitori.controllers.runs.attempts import Whose, delete_members
from kajitori.controllers.workqueue import Key
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import Pod
from kajitori.kube.resources import RUNS

log = logging.getLogger(__name__)


class Orphans:
    """Runs that Pods have as their owner though the mirror does not show them: a key is namespace and UID."""

    def __init__(self, client: KubeClient, mirror: Mirror) -> None:
        self._client = client
        self._mirror = mirror
        self._names: dict[Key, str] = {}
        """What these Runs were called."""

    def __contains__(self, key: Key) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[Key]:
        return iter(self._names)

    def note(self, pod: Pod) -> Key | None:
        """The key to look at where this Pod of ours is without its Run; else None."""
        uid, member, namespace = pod.owner_run_uid, pod.member, pod.metadata.namespace
        if not uid or member is None or pod.metadata.deletion_timestamp:
            return None
        run = self._mirror.runs.get((namespace, member.run))
        if run is not None and run.metadata.uid == uid:
            return None
        if any(each.metadata.uid == uid for each in self._mirror.runs.values()):
            return None  # it names a Run of another namespace: whoever wrote that is a stranger, and left alone
        key = (namespace, uid)
        self._names[key] = member.run
        return key

    async def delete(self, key: Key) -> None:
        """Takes away the Pods of a Run that is gone; the API server is asked whether it really is."""
        (namespace, uid), name = key, self._names[key]
        try:
            found = await self._client.get(RUNS, name, namespace)
        except NotFound:
            found = None
        if found is None or found["metadata"]["uid"] != uid:
            log.info("Pods of run %s/%s are left though it is gone; they are deleted", namespace, name)
            await delete_members(self._client, self._mirror, Whose(namespace, name, uid))
        self._names.pop(key, None)
