"""A fake API server: objects in memory, a watch, and the patches that the kubelet uses."""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kajitori.embedded.kubelet.cluster import Endpoints, Object, PodChange, PodGone, PodSeen, PodsListed
from kajitori.errors import AlreadyExists, Conflict, NotFound, Unavailable
from kajitori.kube import resources
from kajitori.kube.resources import Resource

Key = tuple[str, str, str]
MERGE_KEYS = {"conditions": "type"}


class FakeCluster:
    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.away = False
        self.posts: list[tuple[str, Mapping[str, Any]]] = []
        self.answers: dict[str, Object] = {}
        self.endpoints: asyncio.Queue[tuple[str, Sequence[Endpoints]]] = asyncio.Queue()
        self._version = 0
        self._watchers: list[asyncio.Queue[PodChange]] = []
        self.changed = asyncio.Event()

    # ---- requests of the kubelet

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return copy.deepcopy(self._find(resource, name, namespace))

    async def list_all(self, resource: Resource) -> list[Object]:
        self._reachable()
        return [copy.deepcopy(one) for key, one in self.objects.items() if key[0] == resource.plural]

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Object:
        self._reachable()
        made = copy.deepcopy(dict(body))
        metadata = made["metadata"]
        key = (resource.plural, namespace or metadata.get("namespace", ""), metadata["name"])
        if key in self.objects:
            raise AlreadyExists(f"{key} already exists")
        metadata.setdefault("uid", str(uuid.uuid4()))
        self._store(key, made)
        return copy.deepcopy(made)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        old = self._find(resource, name, namespace)
        wanted_uid = (patch.get("metadata") or {}).get("uid")
        if wanted_uid and wanted_uid != old["metadata"]["uid"]:
            raise Conflict("the UID in the precondition does not match")
        for address in (patch.get("status") or {}).get("podIPs") or ():
            ipaddress.ip_address(address["ip"])  # as API servers refuse an invalid object
        allowed = {"status", "metadata"} if subresource == "status" else set(patch) - {"status"}
        merged = _merge(old, {key: value for key, value in patch.items() if key in allowed})
        self._store((resource.plural, namespace or "", name), merged)
        return copy.deepcopy(merged)

    async def remove(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        old = self._find(resource, name, namespace)
        if old["metadata"]["uid"] != uid:
            raise Conflict("the UID in the precondition does not match")
        if not old["metadata"].get("finalizers"):
            self.vanish(name, namespace)

    async def post(self, path: str, body: Mapping[str, Any]) -> Object:
        self._reachable()
        self.posts.append((path, body))
        if path not in self.answers:
            raise NotFound(path)
        return copy.deepcopy(self.answers[path])

    async def watch_pods(self, node_name: str) -> AsyncIterator[PodChange]:
        queue: asyncio.Queue[PodChange] = asyncio.Queue()
        self._watchers.append(queue)
        yield PodsListed(tuple(copy.deepcopy(one) for key, one in self.objects.items() if key[0] == "pods"))
        while True:
            yield await queue.get()

    async def watch_endpoints(self) -> AsyncIterator[tuple[str, Sequence[Endpoints]]]:
        while True:
            yield await self.endpoints.get()

    async def own_address(self) -> str:
        return "127.0.0.1"

    # ---- steps of the tests

    async def submit(self, name: str, *command: str, namespace: str = "default", **spec: Any) -> Object:
        """Create a Pod with one container `main`, bound to the node."""
        container = {"name": "main", "image": "img:1", "command": list(command)} | spec.pop("container", {})
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, **spec.pop("metadata", {})},
            "spec": {"nodeName": "node", "restartPolicy": "Never", "containers": [container], **spec},
            "status": {"phase": "Pending"},
        }
        return await self.create(resources.PODS, body, namespace)

    async def delete(self, name: str, grace_seconds: int = 30, namespace: str = "default") -> None:
        """Request a deletion as a user does: a deadline on the object, which the kubelet removes."""
        pod = copy.deepcopy(self._find(resources.PODS, name, namespace))
        pod["metadata"] |= {
            "deletionTimestamp": "2026-11-21T00:00:00Z",
            "deletionGracePeriodSeconds": grace_seconds,
        }
        self._store(("pods", namespace, name), pod)

    def vanish(self, name: str, namespace: str = "default") -> None:
        """Remove a Pod at once, as a deletion with force does."""
        gone = self.objects.pop(("pods", namespace, name))
        for queue in self._watchers:
            queue.put_nowait(PodGone(gone))
        self._tell()

    def restore(self, objects: Mapping[Key, Object]) -> None:
        """Continue with an earlier state, as after a restored backup; watches start again."""
        self.objects = {key: copy.deepcopy(one) for key, one in objects.items()}
        self._version = max((int(one["metadata"]["resourceVersion"]) for one in objects.values()), default=0)
        there = tuple(copy.deepcopy(one) for key, one in self.objects.items() if key[0] == "pods")
        for queue in self._watchers:
            queue.put_nowait(PodsListed(there))
        self._tell()

    def pod(self, name: str, namespace: str = "default") -> Object | None:
        return self.objects.get(("pods", namespace, name))

    def status(self, name: str) -> dict[str, Any]:
        pod = self.pod(name)
        return (pod.get("status") or {}) if pod else {}

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def container(self, name: str, index: int = 0) -> dict[str, Any]:
        statuses = self.status(name).get("containerStatuses") or []
        return dict(statuses[index]) if len(statuses) > index else {}

    def events(self, reason: str) -> list[str]:
        return [one["message"] for key, one in self.objects.items() if key[0] == "events" and one["reason"] == reason]

    def node(self) -> Object:
        return self.objects["nodes", "", "node"]

    def put(self, resource: Resource, name: str, namespace: str = "default", **content: Any) -> None:
        metadata = {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())}
        self._store(
            (resource.plural, namespace if resource.namespaced else "", name), {"metadata": metadata, **content}
        )

    def _find(self, resource: Resource, name: str, namespace: str | None) -> Object:
        self._reachable()
        key = (resource.plural, namespace or "", name)
        if key not in self.objects:
            raise NotFound(f'{resource.plural} "{name}" not found')
        return self.objects[key]

    def _reachable(self) -> None:
        if self.away:
            raise Unavailable("the API server does not answer")

    def _store(self, key: Key, made: Object) -> None:
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = made
        if key[0] == "pods":
            for queue in self._watchers:
                queue.put_nowait(PodSeen(copy.deepcopy(made)))
        self._tell()

    def _tell(self) -> None:
        self.changed.set()


def _merge(old: Any, patch: Any, name: str = "") -> Any:
    if isinstance(patch, Mapping) and isinstance(old, Mapping):
        merged = copy.deepcopy(dict(old))
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = _merge(merged.get(key), value, key)
        return merged
    if isinstance(patch, list) and name in MERGE_KEYS and isinstance(old, list):
        by = MERGE_KEYS[name]
        known = {one[by]: one for one in old} | {one[by]: one for one in patch}
        return [copy.deepcopy(one) for one in known.values()]
    if isinstance(patch, Mapping):
        return {key: value for key, value in copy.deepcopy(dict(patch)).items() if value is not None}
    return copy.deepcopy(patch)
