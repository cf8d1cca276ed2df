"""The names of runs in networks: the Services of networks, and the EndpointSlices of the runs in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.belongings import owning_run
from kajitori.core.naming import names
from kajitori.core.pods import manifests, networks
from kajitori.core.pods.networks import Address
from kajitori.core.spec.run import RunSpec
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import ENDPOINT_SLICES, PODS, SERVICES

log = logging.getLogger(__name__)

Endpoints = list[dict[str, Any]]
OURS = f"{networks.LABEL_SLICE_MANAGED_BY}={networks.SLICE_MANAGED_BY}"
TRIES = 5
"""Number of times that the Service of a network is read again because another owner was added meanwhile."""


class NameKeeper:
    """Writes the EndpointSlices of runs. They are read once and then remembered, because only the leader writes them.

    A run does not wait for its names. If they may not be written, other runs do not find it by them.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, dict[str, Endpoints]] | None = None
        """Endpoints as they were written last, by the UID of their run and the name of the slice."""
        self._reading = asyncio.Lock()
        self._refused: dict[str, dict[str, Any]] = {}
        """Slices that the API server refused, by the UID of their run. The same slices are not tried again."""

    async def keep(self, run: RunObject, spec: RunSpec | None, pods: Iterable[Pod]) -> None:
        """Let the names of a run lead to those of its Pods that have an address and go on. Without any, its names lead
        nowhere. Does nothing if all is as wanted already."""
        uid, pods = run.metadata.uid, tuple(pods)
        if spec is not None:
            await self._tell_pods(run, spec, pods)
        if spec is None or not spec.networks:
            if self._known is None or uid not in self._known:
                return
            wanted = {}
        else:
            wanted = _wanted(run, spec, pods)
        known = (await self._read()).get(uid, {})
        if {name: body["endpoints"] for name, body in wanted.items()} == known or wanted == self._refused.get(uid):
            return
        try:
            await self._write(run, spec, wanted, known)
        except (Forbidden, InvalidInput) as error:
            log.warning("run %s/%s has no names: %s", run.metadata.namespace, run.metadata.name, error.message)
            self._refused[uid] = wanted

    async def _tell_pods(self, run: RunObject, spec: RunSpec, pods: Iterable[Pod]) -> None:
        """Write the run's networks into its Pods if they were changed since the Pods were created. Kubelets of
        Kajitori's own then change the names that the programs find; a cluster's DNS settings of a Pod are fixed."""
        wanted = networks.listed_networks(spec.networks)
        for pod in pods:
            meta = pod.metadata
            if meta.annotations.get(names.ANNOTATION_NETWORKS, "") == wanted:
                continue
            if pod.member is None or pod.is_finished or meta.deletion_timestamp:
                continue
            patch = {"uid": meta.uid, "annotations": {names.ANNOTATION_NETWORKS: wanted or None}}
            with suppress(NotFound, Conflict):  # the Pod has ended meanwhile
                await self._client.patch(PODS, meta.name, {"metadata": patch}, run.metadata.namespace)

    async def _write(
        self, run: RunObject, spec: RunSpec | None, wanted: Mapping[str, Any], known: Mapping[str, Endpoints]
    ) -> None:
        namespace, uid = run.metadata.namespace, run.metadata.uid
        written = self._known.setdefault(uid, {}) if self._known is not None else {}
        if wanted.keys() - known.keys() and spec is not None:
            await ensure_networks(self._client, run, spec)  # the last other run may have been deleted since the start
        for name, body in wanted.items():
            if known.get(name) != body["endpoints"]:
                written.pop(name, None)
                await self._put(name, body, namespace)
                written[name] = body["endpoints"]
        for name in known.keys() - wanted.keys():
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, name, namespace)
            written.pop(name, None)
        if not written and self._known is not None:
            self._known.pop(uid, None)

    async def _put(self, name: str, body: Mapping[str, Any], namespace: str) -> None:
        try:
            await self._client.create(ENDPOINT_SLICES, body, namespace)
        except AlreadyExists:
            patch = {"metadata": {"ownerReferences": body["metadata"]["ownerReferences"]}}
            await self._client.patch(ENDPOINT_SLICES, name, patch | {"endpoints": body["endpoints"]}, namespace)

    def forget(self, uid: str) -> None:
        """Forget a run that is gone; its slices are deleted with it."""
        self._refused.pop(uid, None)
        if self._known is not None:
            self._known.pop(uid, None)

    async def _read(self) -> dict[str, dict[str, Endpoints]]:
        async with self._reading:
            if self._known is None:
                found: dict[str, dict[str, Endpoints]] = {}
                try:
                    items = (await self._client.list(ENDPOINT_SLICES, label_selector=OURS)).items
                except Forbidden as error:
                    log.warning("names of runs in networks can't be read: %s", error.message)
                    items = []
                for item in items:
                    slices = found.setdefault(owning_run(item), {})
                    slices[item["metadata"]["name"]] = item.get("endpoints") or []
                self._known = found
            return self._known


def _wanted(run: RunObject, spec: RunSpec, pods: Iterable[Pod]) -> dict[str, Any]:
    attempt = run.status.attempts if run.status is not None else 0
    ranks = networks.reachable_ranks(spec)
    found = []
    for pod in pods:
        member, meta = pod.member, pod.metadata
        if member is None or member.attempt < attempt or member.rank not in ranks:
            continue
        if pod.is_finished or meta.deletion_timestamp or not pod.addresses:
            continue
        found.append((member.rank, Address(pod.addresses[0], meta.name, meta.uid, pod.spec.node_name)))
    return networks.network_slices(
        spec.networks,
        [address for _, address in sorted(found, key=lambda pair: pair[0])],
        run_name=run.metadata.name,
        namespace=run.metadata.namespace,
        run_uid=run.metadata.uid,
    )


async def ensure_networks(client: KubeClient, run: RunObject, spec: RunSpec) -> None:
    """Create the Services of a run's networks, or make the run one of their owners. Raises the API server's error if it
    refuses."""
    for use in spec.networks:
        await _ensure_network(client, run, use.name)


async def _ensure_network(client: KubeClient, run: RunObject, network: str) -> None:
    meta = run.metadata
    body = networks.network_service(network, run_name=meta.name, namespace=meta.namespace, run_uid=meta.uid)
    name = body["metadata"]["name"]
    for _ in range(TRIES):
        try:
            await client.create(SERVICES, body, meta.namespace)
            return
        except AlreadyExists:
            pass
        with suppress(NotFound, Conflict):  # it was deleted or changed meanwhile
            found = (await client.get(SERVICES, name, meta.namespace))["metadata"]
            owners = found.get("ownerReferences") or []
            if any(owner.get("uid") == meta.uid for owner in owners):
                return
            owners = [*owners, manifests.owner_reference(meta.name, meta.uid)]
            version = {"uid": found["uid"], "resourceVersion": found["resourceVersion"]}
            await client.patch(SERVICES, name, {"metadata": version | {"ownerReferences": owners}}, meta.namespace)
            return
    raise Conflict(f"Service {name} of network {network} changes all the time", hint="the start is tried again")
