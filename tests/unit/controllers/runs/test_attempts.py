"""Steps at the start and end of a gang's attempt besides the creation of its Pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.attempts import (
    DELETED_TOGETHER,
    DELETIONS_AT_A_TIME,
    RunReference,
    StartRefused,
    check_claims,
    delete_members,
    key_for,
)
from kajitori.core.gang import DeleteMembers
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import Attempt, template_text
from kajitori.core.words import first_step, names
from kajitori.core.words.selectors import parse_labels
from kajitori.core.words.times import format_time
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta

RUN = RunReference("vision", "bert", "u1")
WITH_STEP = Attempt(
    number=1, nodes="n", template=template_text({"spec": {"initContainers": [{"name": first_step.CONTAINER}]}})
)


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (404, "NotFound")])
async def test_a_start_without_rights_on_the_signing_key_is_refused(code: int, reason: str) -> None:
    """The message names the key, and the run does not wait for the start deadline."""

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response(status_of(code, f"{request.method} it is not for you", reason), status=code)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serving(app) as url, client_of(url) as client:
        with pytest.raises(StartRefused, match=r"the key of members' tickets: .*not for you") as caught:
            await key_for(WITH_STEP, SigningKey(client, "kajitori", lambda key: None))
    assert caught.value.reason is Reason.ADMISSION


async def test_members_without_a_first_step_do_not_wait_for_the_key() -> None:
    """They show no ticket. They are signed with the last known key, if there is one."""
    plain = Attempt(number=1, nodes="n", template=template_text({"spec": {}}))
    async with client_of("http://127.0.0.1:1") as client:
        key = SigningKey(client, "kajitori", lambda key: None)
        assert await key_for(plain, key) is None
        key.last = b"k"
        assert await key_for(plain, key) == b"k"


class DeletionRecorder:
    """Stands for a client: records deletions, and how many collections are deleted at a time."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.deleted: list[tuple[str, str, int | None]] = []
        self.at_a_time = self.most_at_a_time = 0

    async def delete_collection(self, resource: object, namespace: str, **asked: Any) -> None:
        self.asked.append(asked)
        self.at_a_time += 1
        self.most_at_a_time = max(self.at_a_time, self.most_at_a_time)
        await asyncio.sleep(0)
        self.at_a_time -= 1

    async def delete(self, resource: object, name: str, namespace: str, *, uid: str, grace_seconds: int | None) -> None:
        self.deleted.append((name, uid, grace_seconds))


def mirror_of(pods: list[Pod], *strangers: str) -> Mirror:
    """Return a mirror that shows these members of one run, and Pods of these names that only carry its label."""
    found = SimpleNamespace(
        owned_pods=lambda *run: pods,
        mislabelled_pods=lambda *run: {("vision", name) for name in strangers},
    )
    return cast(Mirror, found)


def members(count: int, attempt: int = 3) -> list[Pod]:
    made = [
        {"metadata": {"name": name, "namespace": "vision", "uid": name}}
        for name in (names.pod_name("bert", attempt, rank) for rank in range(count))
    ]
    return msgspec.convert(made, list[Pod])


@pytest.mark.parametrize("count", [1, DELETED_TOGETHER, DELETED_TOGETHER + 1, 9 * DELETED_TOGETHER])
async def test_each_member_of_a_large_run_is_in_exactly_one_deletion(count: int) -> None:
    """A small run is one collection, which also covers Pods that the mirror does not show yet."""
    client = DeletionRecorder()
    action = DeleteMembers(5, attempt=3, unfinished_only=True)
    await delete_members(cast(KubeClient, client), mirror_of(members(count)), RUN, action)
    assert all((call["grace_seconds"], "Failed" in call["field_selector"]) == (5, True) for call in client.asked)
    selectors = [parse_labels(call["label_selector"]) for call in client.asked]
    for rank in range(count):
        labels = names.member_labels("bert", "u1", 3, rank)
        assert sum(selector.matches(labels) for selector in selectors) == 1
        assert not any(selector.matches({**labels, names.LABEL_ATTEMPT: "4"}) for selector in selectors)
    unseen = names.member_labels("bert", "u1", 3, count)
    assert any(selector.matches(unseen) for selector in selectors) is (count <= DELETED_TOGETHER)
    assert client.most_at_a_time == min(len(selectors), DELETIONS_AT_A_TIME)


async def test_a_foreign_pod_with_a_runs_label_is_not_deleted() -> None:
    """Then no collection is deleted by label: members are deleted one by one, each by its UID."""
    client, earlier = DeletionRecorder(), members(1, attempt=2)
    ended = msgspec.convert({"metadata": {"name": "bert-3-2", "uid": "e"}, "status": {"phase": "Failed"}}, Pod)
    mirror = mirror_of([*earlier, *members(2), ended], "bert-3-7")
    await delete_members(cast(KubeClient, client), mirror, RUN, DeleteMembers(5, 3, unfinished_only=True))
    assert client.deleted == [("bert-3-0", "bert-3-0", 5), ("bert-3-1", "bert-3-1", 5)]
    await delete_members(cast(KubeClient, client), mirror, RUN)
    assert [name for name, _, _ in client.deleted[2:]] == ["bert-2-0", "bert-3-0", "bert-3-1", "bert-3-2"]
    assert not client.asked


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
    and the message of each event."""

    def __init__(
        self,
        events: dict[str, int],
        phases: dict[str, str],
        refused: str = "",
        said: tuple[str, str, str] = ("Warning", "ProvisioningFailed", "no such class"),
    ) -> None:
        self.events, self.phases, self.refused, self.said = events, phases, refused, said

    def app(self) -> web.Application:
        """Return the application that stands for the API server."""
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/vision/events", self._list_events)
        app.router.add_get("/api/v1/namespaces/vision/persistentvolumeclaims/{name}", self._get_claim)
        return app

    async def _list_events(self, request: web.Request) -> web.Response:
        items = [
            {
                "metadata": {"name": f"{name}.1"},
                "involvedObject": {"kind": "PersistentVolumeClaim", "name": name},
                "type": self.said[0],
                "reason": self.said[1],
                "message": self.said[2],
                "lastTimestamp": format_time(NOW - timedelta(seconds=age)),
            }
            for name, age in self.events.items()
        ]
        return web.json_response({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items})

    async def _get_claim(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.refused:
            return web.json_response(status_of(403, "not for you", self.refused), status=403)
        return web.json_response({"metadata": {"name": name}, "status": {"phase": self.phases[name]}})


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


async def test_other_normal_events_of_a_claim_are_progress() -> None:
    said = ("Normal", "ExternalProvisioning", "waiting for a volume to be created")
    assert await check(Storage({"data": 5}, {"data": "Pending"}, said=said)) == ""
