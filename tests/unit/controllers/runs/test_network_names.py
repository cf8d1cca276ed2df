"""The NameKeeper writes what changed, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.network_names import NameKeeper, ensure_networks
from kajitori.core.naming import names
from kajitori.core.pods.networks import listed_networks
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.status import RunStatus
from kajitori.errors import AlreadyExists, Conflict, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import PODS, SERVICES, Resource

Hosts = list[tuple[str, str]]
SPEC = parse_spec({"image": "x", "networks": [{"name": "shop", "aliases": ["db"]}]})


def run(uid: str = "u1", name: str = "shop-db-1") -> RunObject:
    meta = ObjectMeta(name=name, namespace="lab", uid=uid)
    return RunObject(metadata=meta, spec=msgspec.Raw(b"{}"), status=RunStatus(attempts=2))


def pod(name: str, ip: str = "10.0.0.1", phase: str = "Running", **meta: Any) -> Pod:
    annotations = {names.ANNOTATION_NETWORKS: listed_networks(SPEC.networks)}
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "annotations": annotations, **meta}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "podIP": ip}}, Pod)


class FakeServer:
    """Stores objects, and counts the writes."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes: list[tuple[str, str]] = []
        self.refusals: list[KajitoriError] = []
        self.told: list[tuple[str, str | None]] = []
        """The networks that were written into Pods."""

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        key = resource.plural, body["metadata"]["name"]
        if key in self.stored:
            raise AlreadyExists("there")
        self.writes.append(("create", resource.plural))
        self.stored[key] = {**body, "metadata": {"uid": "o1", "resourceVersion": "1", **body["metadata"]}}
        return self.stored[key]

    async def patch(self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str) -> None:
        if self.refusals:
            raise self.refusals.pop()
        if resource is PODS:
            self.told.append((name, patch["metadata"]["annotations"][names.ANNOTATION_NETWORKS]))
            return
        self.writes.append(("patch", resource.plural))
        found = self.stored[resource.plural, name]
        found["metadata"] |= patch["metadata"]
        found |= {key: value for key, value in patch.items() if key != "metadata"}

    async def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        if (found := self.stored.get((resource.plural, name))) is None:
            raise NotFound(name)
        return found

    async def delete(self, resource: Resource, name: str, namespace: str) -> None:
        self.writes.append(("delete", resource.plural))
        del self.stored[resource.plural, name]

    def hosts(self) -> Hosts:
        slices = [one for (plural, _), one in self.stored.items() if plural == "endpointslices"]
        return [(one["hostname"], one["addresses"][0]) for found in slices for one in found["endpoints"]]

    async def list(self, resource: Resource, *, label_selector: str) -> Any:
        return SimpleNamespace(items=[one for key, one in self.stored.items() if key[0] == resource.plural])


async def test_names_lead_to_the_running_member_of_the_newest_attempt() -> None:
    """Neither to one that has ended or is being deleted, nor to one without an address."""
    server = FakeServer()
    keeper = NameKeeper(cast(KubeClient, server))
    ended = pod("shop-db-1-2-0", phase="Failed")
    deleted = pod("shop-db-1-2-0", deletionTimestamp="2026-01-01T00:00:00Z")
    await keeper.keep(run(), SPEC, [pod("shop-db-1-1-0", "10.0.0.7"), pod("shop-db-1-2-0", ""), ended, deleted])
    assert server.writes == []
    for _ in range(2):
        await keeper.keep(run(), SPEC, [pod("shop-db-1-1-0", "10.0.0.7"), pod("shop-db-1-2-0", "10.0.0.8")])
    assert server.hosts() == [("shop-db-1", "10.0.0.8"), ("db", "10.0.0.8")]
    assert server.writes == [("create", "services"), ("create", "endpointslices")]
    await keeper.keep(run(), SPEC, [pod("shop-db-1-2-0", "10.0.0.9")])
    assert server.hosts() == [("shop-db-1", "10.0.0.9"), ("db", "10.0.0.9")]
    await keeper.keep(run(), SPEC, [])
    assert server.writes[-1] == ("delete", "endpointslices") and server.hosts() == []


async def test_the_next_leader_knows_the_names_that_are_there() -> None:
    server = FakeServer()
    pods = [pod("shop-db-1-2-0")]
    await NameKeeper(cast(KubeClient, server)).keep(run(), SPEC, pods)
    count = len(server.writes)
    later = NameKeeper(cast(KubeClient, server))
    await later.keep(run(), SPEC, pods)
    assert len(server.writes) == count
    await later.keep(run(), parse_spec({"image": "x"}), pods)
    assert server.hosts() == [], "a run that left its networks has no names in them"
    assert server.told == [("shop-db-1-2-0", None)]


async def test_pods_are_told_of_networks_that_were_changed_while_they_run() -> None:
    """An ended one is left alone."""
    server = FakeServer()
    pods = [pod("shop-db-1-2-0", annotations={}), pod("shop-db-1-2-1", phase="Failed", annotations={})]
    await NameKeeper(cast(KubeClient, server)).keep(run(), SPEC, pods)
    assert server.told == [("shop-db-1-2-0", listed_networks(SPEC.networks))]


async def test_a_run_without_networks_costs_no_request() -> None:
    keeper = NameKeeper(cast(KubeClient, SimpleNamespace()))
    await keeper.keep(run(), parse_spec({"image": "x"}), [pod("shop-db-1-2-0", annotations={})])
    await keeper.keep(run(), None, [])


async def test_every_run_in_a_network_owns_its_service() -> None:
    """So it is deleted with the last of them. Another owner may be added at the same time."""
    server = FakeServer()
    client = cast(KubeClient, server)
    await ensure_networks(client, run(), SPEC)
    server.refusals.append(Conflict("changed meanwhile"))
    await ensure_networks(client, run("u2", "shop-web-1"), SPEC)
    await ensure_networks(client, run("u2", "shop-web-1"), SPEC)
    (service,) = (one for key, one in server.stored.items() if key[0] == SERVICES.plural)
    assert [owner["uid"] for owner in service["metadata"]["ownerReferences"]] == ["u1", "u2"]
    assert server.writes == [("create", "services"), ("patch", "services")]
