"""Steps at the start and end of a gang's attempt besides the creation of its Pods."""

from __future__ import annotations

import asyncio
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
    delete_members,
    key_for,
    prepare,
)
from kajitori.core.gang import DeleteMembers
from kajitori.core.kubernetes.selectors import parse_labels
from kajitori.core.naming import first_step, names
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
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


@pytest.mark.parametrize(
    ("nodes", "wanted", "existing", "refused"),
    [
        (2, "ReadWriteMany", ["ReadWriteOnce"], True),
        (2, "ReadWriteMany", ["ReadWriteOnce", "ReadWriteMany"], False),
        (1, "ReadWriteMany", ["ReadWriteOnce"], False),
        (2, "ReadWriteOnce", ["ReadWriteOnce"], False),
        (2, "ReadWriteMany", None, False),
    ],
)
async def test_a_claim_that_one_member_made_is_not_mounted_on_several_nodes(
    nodes: int, wanted: str, existing: list[str] | None, refused: bool
) -> None:
    """All members but those of one node would wait for its volume. Policy may say that this is wanted; without the
    right to read claims nothing is known."""

    async def taken(_: web.Request) -> web.Response:
        return web.json_response(status_of(409, "it is there", "AlreadyExists"), status=409)

    async def claim(_: web.Request) -> web.Response:
        if existing is None:
            return web.json_response(status_of(403, "not for you", "Forbidden"), status=403)
        return web.json_response({"metadata": {"name": "bert-checkpoint"}, "spec": {"accessModes": existing}})

    app = web.Application()
    path = "/api/v1/namespaces/vision/persistentvolumeclaims"
    app.router.add_post(path, taken)
    app.router.add_get(f"{path}/bert-checkpoint", claim)
    run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"))
    spec = parse_spec({"image": "x", "array": "0-1"})  # a sweep has no Service
    body = {"kind": "PersistentVolumeClaim", "metadata": {"name": "bert-checkpoint"}, "spec": {"accessModes": [wanted]}}
    async with serving(app) as url, client_of(url) as client:
        if refused:
            with pytest.raises(StartRefused, match=r"one node only \(ReadWriteOnce\).*kaji rm -f -v bert") as caught:
                await prepare(client, run, spec, body, nodes)
            assert caught.value.reason is Reason.STORAGE
        else:
            await prepare(client, run, spec, body, nodes)


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
