"""The client's requests: what is sent, what is retried, how failures are named."""

from __future__ import annotations

import asyncio
import os
import socket
from urllib.parse import urlsplit

import msgspec
import pytest
import uvloop
from aiohttp import web
from tests.unit.kube.fake_api import Naps, client_of, fake_api, serving
from tests.unit.kube.scripted import POD, Answer, hang_up, no, ok, scripted

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS
from kajitori.controllers.leadership import NotLeading
from kajitori.errors import InvalidInput
from kajitori.kube.client import METADATA_ONLY, KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.retry import NO_RETRY, RetryPolicy
from kajitori.kube.errors import (
    AlreadyExistsError,
    ConnectionFailed,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import NODES, PODS, SELF_REVIEWS

# ---------------------------------------------------------------------------------------------- requests


async def test_paths_and_bodies_of_each_verb() -> None:
    """Each verb is the request that the Kubernetes API documents for it."""
    async with scripted(ok()) as server, client_of(server.url) as client:
        await client.get(PODS, "x", "a")
        await client.get(NODES, "n")
        await client.create(PODS, POD)
        await client.create(SELF_REVIEWS, {})
        await client.create(PODS, b'{"raw": 1}', "b", dry_run=True)
        await client.replace(RUNS, {"metadata": {"name": "r", "namespace": "a"}}, subresource="status")
        await client.patch(PODS, "x", {"a": 1}, "a", kind=PatchKind.APPLY, force=True)
        await client.delete(PODS, "x", "a", grace_seconds=0, uid="u", propagation="Foreground")
        await client.delete_collection(PODS, "a", label_selector="l=1", field_selector="status.phase!=Failed")
        await client.bind("x", "a", "n")
        await client.replace(NODES, {"metadata": {"name": "n"}}, metadata_only=True)
        delete = {"apiVersion": "v1", "kind": "DeleteOptions"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "x", "namespace": "a"}}
        assert server.asked == [
            ("GET", "/api/v1/namespaces/a/pods/x", None),
            ("GET", "/api/v1/nodes/n", None),
            ("POST", "/api/v1/namespaces/a/pods", POD),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
            ("POST", "/api/v1/namespaces/b/pods?dryRun=All", {"raw": 1}),
            (
                "PUT",
                "/apis/kajitori.dev/v1alpha1/namespaces/a/runs/r/status",
                {"metadata": {"name": "r", "namespace": "a"}},
            ),
            ("PATCH", "/api/v1/namespaces/a/pods/x?fieldManager=kajitori&force=true", {"a": 1}),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods/x",
                delete | {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}},
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods?labelSelector=l%3D1&fieldSelector=status.phase!%3DFailed",
                delete,
            ),
            (
                "POST",
                "/api/v1/namespaces/a/pods/x/binding",
                binding | {"target": {"apiVersion": "v1", "kind": "Node", "name": "n"}},
            ),
            ("PUT", "/api/v1/nodes/n", {"metadata": {"name": "n"}}),
        ]
        assert [headers["Accept"] for headers in server.headers] == [*["application/json"] * 10, METADATA_ONLY]
        assert server.headers[6]["Content-Type"] == "application/apply-patch+yaml"
        assert {headers["User-Agent"] for headers in server.headers} == {"kajitori"}


async def test_the_configurations_namespace_is_the_default() -> None:
    """For one object; for a collection, all namespaces."""
    async with scripted(ok({"items": []})) as server:
        async with KubeClient(KubeConfig(server=server.url, namespace="mine")) as client:
            await client.get(PODS, "x")
            await client.list(PODS)
        assert [path for _, path, _ in server.asked] == ["/api/v1/namespaces/mine/pods/x", "/api/v1/pods?limit=500"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../nodes", "a%2fb", "a?b", "a#b", "a b", "ä", "a\n"])
async def test_a_name_with_several_path_segments_is_refused(name: str) -> None:
    """Before anything is sent."""
    async with client_of("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidInput):
            await client.get(PODS, name, "a")
        with pytest.raises(InvalidInput):
            await client.get(PODS, "x", name or "..")


async def test_objects_are_decoded_to_the_requested_type() -> None:
    """As a dictionary, or a struct of the needed fields; nulls count as missing; garbage is the server's error."""
    with_nulls = {"metadata": {"name": "x", "labels": None}, "spec": None, "status": {"conditions": None}}
    async with scripted(ok(), ok(with_nulls), web.Response(text="<html>")) as server, client_of(server.url) as client:
        assert (await client.get(PODS, "x", type=Pod)).status.phase == "Running"
        assert (await client.get(PODS, "x", type=Pod)).status.conditions == ()
        with pytest.raises(ServerError, match="cannot be understood"):
            await client.get(PODS, "x")


async def test_all_pages_of_a_list_are_read() -> None:
    """All pages form one listing, at the version of the last; an object that is no Pod is left out."""
    pages = [
        ok({"metadata": {"resourceVersion": "7", "continue": "t/1="}, "items": [POD, {"metadata": 5}]}),
        ok({"metadata": {"resourceVersion": "7"}, "items": None}),
    ]
    async with scripted(*pages) as server, client_of(server.url) as client:
        listing = await client.list(PODS, "a", label_selector="k=v", type=Pod)
        assert ([pod.metadata.name for pod in listing.items], listing.resource_version) == (["x"], "7")
        assert server.asked[1][1] == "/api/v1/namespaces/a/pods?labelSelector=k%3Dv&limit=500&continue=t/1%3D"


# ---------------------------------------------------------------------------------------------- retries


async def test_reads_are_retried() -> None:
    """After a broken connection, 500 and 429."""
    naps = Naps()
    answers: list[Answer] = [no(500), no(429), hang_up, ok()]
    async with scripted(*answers) as server, client_of(server.url, naps, RetryPolicy()) as client:
        assert (await client.get(PODS, "x"))["metadata"]["name"] == "x"
        assert len(server.asked) == 4
    assert naps.taken[:2] == [0.1, 0.2]


async def test_a_create_is_not_repeated_after_a_broken_connection() -> None:
    """The object may exist. The error says so, and names the server."""
    async with scripted(hang_up, ok()) as server, client_of(server.url, retry=RetryPolicy()) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.create(PODS, POD)
        assert caught.value.maybe_applied
        assert server.url in str(caught.value)
        assert len(server.asked) == 1


async def test_a_write_whose_permission_ended_is_not_sent() -> None:
    """The permission is checked again when there is a connection, new or reused, and when the body follows. Reads need
    none."""
    permits = 0

    def permit() -> float:
        nonlocal permits
        if not permits:
            raise NotLeading("it leads no more")
        permits -= 1
        return 9.0

    async with scripted(ok()) as script:
        async with KubeClient(KubeConfig(server=script.url), write_permit=permit) as client:
            for permits in (0, 1, 2):
                for _ in ("a new connection", "one that is there"):
                    before = permits
                    with pytest.raises(NotLeading):
                        await client.create(PODS, POD, "a")
                    permits = before
                    await client.get(PODS, "x", "a")
            permits = 3
            await client.create(PODS, POD, "a")
        assert [method for method, _, _ in script.asked] == ["GET"] * 6 + ["POST"]


async def test_a_create_is_repeated_when_the_server_asks_for_it() -> None:
    """429 with Retry-After means that nothing was done; the pause is at least as long as requested."""
    naps = Naps()
    async with scripted(no(429, retry_after="2"), ok()) as server:
        async with client_of(server.url, naps, RetryPolicy()) as client:
            await client.create(PODS, POD)
        assert len(server.asked) == 2
    assert naps.taken[0] >= 2.0


async def test_refusals_are_not_repeated() -> None:
    """A final refusal of the server is raised at once."""
    for answer, kind in [
        (no(403), ForbiddenError),
        (no(404), NotFoundError),
        (no(409, "AlreadyExists"), AlreadyExistsError),
    ]:
        async with scripted(answer) as server, client_of(server.url, retry=RetryPolicy()) as client:
            with pytest.raises(kind):
                await client.get(PODS, "x")
            assert len(server.asked) == 1


async def test_retries_are_given_up_after_a_limited_time() -> None:
    """A server that always answers 429 leads to its own error."""
    naps = Naps()
    async with scripted(no(429, retry_after="9")) as server, client_of(server.url, naps, RetryPolicy()) as client:
        with pytest.raises(TooManyRequestsError):
            await client.get(PODS, "x")
    assert sum(naps.taken) < 40


async def test_a_request_without_an_answer_ends_at_the_time_limit() -> None:
    """It may have been applied."""

    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted(never) as server, client_of(server.url, timeout_seconds=0.1) as client:
        with pytest.raises(ConnectionFailed, match="did not answer in time") as caught:
            await client.create(PODS, POD)
        assert caught.value.maybe_applied


async def test_a_closed_client_opens_no_connection() -> None:
    """The error says that the client is closed."""
    async with scripted(ok()) as server:
        async with client_of(server.url) as client:
            await client.get(PODS, "x")
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.get(PODS, "x")
        assert len(server.asked) == 1


async def test_a_refused_connection_names_the_server_and_a_remedy() -> None:
    """The request was certainly not applied."""
    async with serving(web.Application()) as url:
        pass
    async with client_of(url) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.create(PODS, POD)
    assert url in caught.value.message
    assert caught.value.hint
    assert not caught.value.maybe_applied


def test_raw_parts_of_a_body_are_sent_unchanged() -> None:
    """Such as a Run's spec."""
    assert msgspec.json.encode({"spec": msgspec.Raw(b'{"a":  1}')}) == b'{"spec":{"a":  1}}'


def test_a_descriptor_known_to_the_event_loop_is_a_failed_connection() -> None:
    """If a server dies during a handshake, aiohttp closes the socket before uvloop knows. The next socket gets the same
    number, and uvloop refuses it. Nothing was sent, and the condition is temporary."""

    async def work() -> None:
        async with fake_api() as api, KubeClient(KubeConfig(server=api.url), retry=NO_RETRY) as client:
            url = urlsplit(api.url)
            held = socket.create_connection((url.hostname, url.port))
            number = held.fileno()
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=held)
            os.close(number)
            with pytest.raises(ConnectionFailed) as caught:
                await client.list(PODS)
            assert not caught.value.maybe_applied
            transport.abort()

    uvloop.run(work())
