"""Claims without a volume keep a run from starting, and the run says which, why, and the way out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.attempts import StartRefused
from kajitori.controllers.runs.claims import StartingClaims, check_claims
from kajitori.controllers.workqueue import WorkQueue
from kajitori.core.formats.times import format_time
from kajitori.core.gang import Member, MemberState
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.kube.metadata import ObjectMeta

NOW = datetime(2026, 11, 23, 4, 44, tzinfo=UTC)
ON_CLAIMS = Attempt(
    number=2,
    nodes="n",
    template=template_text(
        {"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in ("data", "scratch")]}}
    ),
)


class Storage:
    """Serve events of claims, by name with their age in seconds, and the claims' phases. `said` is the type, the reason
    and the message of each event, `later` that of the claim `data` two seconds ago."""

    def __init__(
        self,
        events: dict[str, int],
        phases: dict[str, str],
        refused: str = "",
        said: tuple[str, str, str] = ("Warning", "ProvisioningFailed", "no such class"),
        later: tuple[str, str, str] | None = None,
        modes: tuple[str, ...] = ("ReadWriteOnce",),
    ) -> None:
        self.events, self.phases, self.refused = events, phases, refused
        self.said, self.later = said, later
        self.modes = modes

    def app(self) -> web.Application:
        """Return the application that stands for the API server."""
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/vision/events", self._list_events)
        app.router.add_get("/api/v1/namespaces/vision/persistentvolumeclaims/{name}", self._get_claim)
        return app

    async def _list_events(self, request: web.Request) -> web.Response:
        items = [_event(name, age, *self.said) for name, age in self.events.items()]
        if self.later is not None:
            items.insert(0, _event("data", 2, *self.later))
        return web.json_response({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items})

    async def _get_claim(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.refused:
            return web.json_response(status_of(403, "not for you", self.refused), status=403)
        spec = {"accessModes": self.modes}
        return web.json_response({"metadata": {"name": name}, "spec": spec, "status": {"phase": self.phases[name]}})


def _event(claim: str, age: int, type: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{claim}.{age}"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": claim},
        "type": type,
        "reason": reason,
        "message": message,
        "lastTimestamp": format_time(NOW - timedelta(seconds=age)),
    }


async def check(storage: Storage, name: str = "bert", attempt: Attempt = ON_CLAIMS) -> str:
    """Return the message of the refused start; empty if the start may go on."""
    run = RunObject(metadata=ObjectMeta(name=name, namespace="vision", uid="u1"))
    async with serving(storage.app()) as url, client_of(url) as client:
        try:
            await check_claims(client, run, attempt, NOW)
        except StartRefused as refused:
            assert refused.reason is Reason.STORAGE
            return refused.message
    return ""


@pytest.mark.parametrize(
    ("events", "phases", "message"),
    [
        ({"data": 5}, {"data": "Pending"}, "PersistentVolumeClaim data: no such class"),
        ({"data": 5}, {"data": "Lost"}, "PersistentVolumeClaim data: no such class"),
        ({"data": 5}, {"data": "Bound"}, ""),
        ({"data": 5, "scratch": 5}, {"data": "Bound", "scratch": "Pending"}, "PersistentVolumeClaim scratch: no such"),
        ({"data": 61}, {"data": "Pending"}, ""),
        ({"other": 5}, {}, ""),
    ],
)
async def test_a_claims_event_ends_a_start_only_while_it_is_unbound(
    events: dict[str, int], phases: dict[str, str], message: str
) -> None:
    """Neither a claim that was bound after the event nor an old event holds up the start."""
    found = await check(Storage(events, phases))
    assert found.startswith(message) and bool(found) == bool(message)


async def test_without_the_right_to_read_claims_a_fresh_event_is_believed() -> None:
    """Manifests of an earlier version do not grant it."""
    assert await check(Storage({"data": 5}, {}, refused="Forbidden")) == "PersistentVolumeClaim data: no such class"


NO_CLASS = "no persistent volumes available for this claim and no storage class is set"


@pytest.mark.parametrize(
    ("run", "ways_out"),
    [
        ("bert", ("make a StorageClass the cluster's default", "give the claim a volume")),
        ("data", ("make a StorageClass", "checkpoint.storageClass", "kaji rm -f -v data", "checkpoint.kind: folder")),
    ],
)
async def test_a_claim_without_a_class_is_refused_with_the_way_out(run: str, ways_out: tuple[str, ...]) -> None:
    """The volume controller reports it as a Normal event. The claim is the checkpoint of `data`."""
    claim = names.checkpoint_claim("data")
    template = template_text({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]}})
    storage = Storage({claim: 5}, {claim: "Pending"}, said=("Normal", "FailedBinding", NO_CLASS))
    found = await check(storage, run, Attempt(number=2, nodes="n", template=template))
    assert found.startswith(f"PersistentVolumeClaim {claim}: {NO_CLASS}; ask the operators")
    for way_out in ways_out:
        assert way_out in found, found


LOCAL_PATH = "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes"
EBS = "Volume capabilities MULTI_NODE_MULTI_WRITER not supported. Only AccessModes[ReadWriteOnce] supported."


@pytest.mark.parametrize(
    ("run", "nodes", "modes", "said", "way_out"),
    [
        ("bert", "a,b", ("ReadWriteMany",), LOCAL_PATH, "several nodes (ReadWriteMany): ask the operators"),
        ("bert", "a,b", ("ReadWriteMany",), EBS, "or for checkpoint.kind: folder; then delete the claim"),
        ("bert", "a", ("ReadWriteMany",), EBS, "a run of one member needs no ReadWriteMany"),
        ("bert", "a,b", ("ReadWriteMany",), "disk full", ""),
        ("bert", "a", ("ReadWriteOnce",), LOCAL_PATH, ""),
        ("other", "a,b", ("ReadWriteMany",), LOCAL_PATH, ""),
    ],
)
async def test_a_class_that_makes_no_volumes_for_several_nodes_is_told_with_the_way_out(
    run: str, nodes: str, modes: tuple[str, ...], said: str, way_out: str
) -> None:
    """Each provisioner has its own words. Only a checkpoint is made by Kajitori, and so has a way out in the policy."""
    claim = names.checkpoint_claim("bert")
    template = template_text({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]}})
    event = ("Warning", "ProvisioningFailed", said)
    storage = Storage({claim: 5}, {claim: "Pending"}, said=event, modes=modes)
    found = await check(storage, run, Attempt(number=2, nodes=nodes, template=template))
    assert found.startswith(f"PersistentVolumeClaim {claim}: {said}")
    assert way_out in found and (bool(way_out) == (len(found) > len(f"PersistentVolumeClaim {claim}: {said}")))


async def test_other_normal_events_of_a_claim_are_progress() -> None:
    said = ("Normal", "ExternalProvisioning", "waiting for a volume to be created")
    assert await check(Storage({"data": 5}, {"data": "Pending"}, said=said)) == ""


@pytest.mark.parametrize(
    ("said", "later", "message"),
    [
        (("Normal", "FailedBinding", NO_CLASS), ("Normal", "WaitForFirstConsumer", "waiting for a Pod"), ""),
        (("Normal", "FailedBinding", NO_CLASS), ("Normal", "ExternalProvisioning", "waiting for it"), ""),
        (("Normal", "FailedBinding", NO_CLASS), ("Warning", "ProvisioningFailed", "disk full"), "disk full"),
        (("Warning", "ProvisioningFailed", "disk full"), ("Normal", "Provisioning", "another try"), "disk full"),
        (("Warning", "ProvisioningFailed", "disk full"), ("Normal", "ExternalProvisioning", "waits"), "disk full"),
    ],
)
async def test_a_claim_that_got_a_class_meanwhile_does_not_hold_up_the_next_start(
    said: tuple[str, str, str], later: tuple[str, str, str], message: str
) -> None:
    """Kubernetes gives a claim the class that becomes the default. A provisioner that fails tries again, which is no
    success."""
    found = await check(Storage({"data": 5}, {"data": "Pending"}, said=said, later=later))
    assert found == (f"PersistentVolumeClaim data: {message}" if message else "")


PROVISIONER = "waiting for a volume to be created by the external provisioner"


def pending(age_seconds: float, reason: Reason = Reason.CREATING, message: str = "", node: str = "") -> Member:
    created = format_time(NOW - timedelta(seconds=age_seconds))
    return Member(0, 2, "bert-2-0", "m0", MemberState.PENDING, node, reason, message, created_at=created)


async def explained(storage: Storage, member: Member) -> Member:
    """Return what a member that starts has as its reason."""
    run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"))

    async with serving(storage.app()) as url, client_of(url) as client:
        claims = StartingClaims(client, WorkQueue(lambda: NOW), lambda: NOW)
        await claims.explained(("vision", "bert"), run, ON_CLAIMS, [member])
        storage.events = {}  # further questions within seconds are answered from memory
        (found,) = await claims.explained(("vision", "bert"), run, ON_CLAIMS, [member])
    return found


@pytest.mark.parametrize(
    ("said", "member", "reason", "message"),
    [
        (
            ("Normal", "FailedBinding", NO_CLASS),
            pending(4, Reason.STORAGE, "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims"),
            Reason.STORAGE,
            f"PersistentVolumeClaim data: {NO_CLASS}; ask the operators",
        ),
        (
            ("Warning", "ProvisioningFailed", "disk quota exceeded"),
            pending(4),
            Reason.STORAGE,
            "PersistentVolumeClaim data: disk quota exceeded",
        ),
        (
            ("Normal", "ExternalProvisioning", PROVISIONER),
            pending(4),
            Reason.CREATING,
            f"PersistentVolumeClaim data: {PROVISIONER}",
        ),
        (("Normal", "FailedBinding", NO_CLASS), pending(1), Reason.CREATING, ""),
        (("Normal", "FailedBinding", NO_CLASS), pending(4, node="n1"), Reason.CREATING, ""),
        (("Normal", "FailedBinding", NO_CLASS), pending(4, Reason.IMAGE_PULL, "slow"), Reason.IMAGE_PULL, "slow"),
    ],
    ids=["no class", "provisioning fails", "provisioner is awaited", "young", "has a node", "waits for its image"],
)
async def test_a_member_that_waits_for_storage_says_which_claim_and_why_at_its_first_start(
    said: tuple[str, str, str], member: Member, reason: Reason, message: str
) -> None:
    """The scheduler's words name no claim, and it says nothing while a provisioner has to act. What the claim's event
    says was told from the second start on only."""
    found = await explained(Storage({"data": 5}, {"data": "Pending"}, said=said), member)
    assert found.reason is reason
    assert found.message.startswith(message) and bool(found.message) == bool(message)
