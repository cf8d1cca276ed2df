"""Authentication and authorisation: asked of the API server, and remembered for a short time."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import Clock, World
from tests.unit.api.fake_kubernetes import FakeKubernetes, attempts, pod, run
from tests.unit.api.fake_programs import FakeLog

from kajitori.api import auth, rights
from kajitori.api.auth import Sessions
from kajitori.api.requests import limits as turns
from kajitori.api.runs import events
from kajitori.api.serving.server import ApiServer
from kajitori.cluster.platform.gateway import Admission
from kajitori.configuration.web_limits import WebLimits
from kajitori.errors import Busy, Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig


async def put_member(world: World) -> None:
    """Create a run with a running member that has printed a line and has an Event."""
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    world.kubernetes.logs["team", "bert-1-0"] = FakeLog("2026-11-21T10:00:00Z hello")
    about = {"kind": "Run", "name": "bert"}
    meta = {"name": "e", "namespace": "team"}
    world.kubernetes.put("events", {"metadata": meta, "involvedObject": about, "lastTimestamp": "2026-11-21T10:00:00Z"})
    await world.caught_up()


def reviews(kubernetes: FakeKubernetes) -> list[str]:
    return [path.rsplit("/", 1)[1] for method, path, _ in kubernetes.requests if method == "POST" and "reviews" in path]


@pytest.mark.parametrize(
    "header", [None, "", "ada", "Basic YWRhOg==", "Bearer ", "Bearer a b", "Bearer \x7f", "Bearer expired"]
)
async def test_requests_without_valid_credentials_are_refused(world: World, header: str | None) -> None:
    """The answer is a problem document with status 401 and a hint."""
    headers = {} if header is None else {"Authorization": header}
    del world.http.headers["Authorization"]
    response = await world.http.get("/v1/runs", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["hint"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/runs", {"host": "["}, 401),
        ("/nowhere", {"host": "[::1"}, 404),
        ("/v1/runs", {"origin": "http://[", "cookie": "__Host-kaji-0=x"}, 403),
        ("/v1/runs", {"origin": "http://[", "cookie": "__Host-kaji-0=x", "host": "["}, 403),
        ("/sign-in/start", {"host": "["}, 404),
    ],
)
async def test_addresses_in_headers_that_are_none_are_no_bugs(
    world: World, path: str, headers: dict[str, str], status: int
) -> None:
    """Anybody could write a traceback into the server's log with each request."""
    del world.http.headers["Authorization"]
    response = await world.http.get(path, headers=headers)
    assert response.status_code == status, response.text


@pytest.mark.parametrize("path", ["/v1/nodes/g1/telemetry/questions?hold=99", "/v1/runs?limit=nonsense"])
async def test_parameters_are_judged_only_once_it_is_known_who_calls(world: World, path: str) -> None:
    del world.http.headers["Authorization"]
    assert (await world.http.get(path)).status_code == 401


async def test_an_identity_is_remembered_for_a_limited_time(world: World) -> None:
    for _ in range(3):
        assert (await world.http.get("/v1/version")).json()["user"] == "ada"
    assert reviews(world.kubernetes) == ["selfsubjectreviews"]
    world.clock.now += auth.IDENTITY_SECONDS + 1
    await world.http.get("/v1/version")
    assert reviews(world.kubernetes) == ["selfsubjectreviews"] * 2


async def test_a_revoked_token_is_noticed(world: World) -> None:
    await world.http.get("/v1/version")
    world.kubernetes.unknown_tokens.add("ada")
    world.clock.now += auth.IDENTITY_SECONDS + 1
    assert (await world.http.get("/v1/version")).status_code == 401


async def test_a_wrong_token_is_remembered_for_a_short_time(world: World) -> None:
    for _ in range(5):
        assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer expired"})).status_code == 401
    assert len(reviews(world.kubernetes)) == 1
    world.kubernetes.unknown_tokens.clear()
    world.clock.now += auth.REFUSED_SECONDS + 1
    assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer expired"})).status_code == 200


async def test_concurrent_requests_share_one_review(world: World) -> None:
    """Many streams that begin together cause one review of each kind."""
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    answers = await asyncio.gather(*(world.http.get("/v1/runs/team/bert") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(reviews(world.kubernetes)) == ["selfsubjectaccessreviews", "selfsubjectreviews"]


async def test_a_revoked_right_is_noticed(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 200
    world.kubernetes.denied.add(("ada", "get", "runs", "team"))
    world.clock.now += rights.ALLOWED_SECONDS + 1
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 403


async def test_an_unavailable_api_server_is_not_reported_as_a_wrong_token(world: World) -> None:
    world.kubernetes.failing = True
    response = await world.http.get("/v1/version")
    assert response.status_code == 503
    world.kubernetes.failing = False
    assert (await world.http.get("/v1/version")).status_code == 200


async def test_no_token_is_logged_or_remembered_in_plain_text(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in ("ada", "expired"):
        secret = {"Authorization": f"Bearer {token}"}
        await world.http.get("/v1/runs", headers=secret)
    world.kubernetes.unknown_tokens.add("s3cr3t-t0ken")
    await world.http.get("/v1/runs", headers={"Authorization": "Bearer s3cr3t-t0ken"})
    assert "s3cr3t-t0ken" not in caplog.text
    assert "s3cr3t-t0ken" not in repr(vars(world.api.callers.sessions))


async def test_forgotten_callers_are_closed_when_their_last_request_ends(
    kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of remembered callers is limited, but no running request is aborted."""
    monkeypatch.setattr(auth, "MAX_SESSIONS", 2)
    closed: list[str] = []

    class Client(KubeClient):
        async def close(self) -> None:
            closed.append(self.config.credentials.token)
            await super().close()

    sessions = Sessions(lambda token: Client(KubeConfig(server=kubernetes.url).with_token(token)))
    running = await sessions.enter("Bearer first")
    for token in ("second", "third", "fourth"):
        await sessions.leave(await sessions.enter(f"Bearer {token}"))
    assert closed == ["second"]
    await sessions.leave(running)
    assert closed == ["second", "first"]
    await sessions.close()
    assert sorted(closed) == ["first", "fourth", "second", "third"]


async def test_a_caller_admitted_by_a_gateway_leaves_when_the_token_expires(kubernetes: FakeKubernetes) -> None:
    """The API server does not see the token, so it is verified here again. Other tokens are the API server's own."""
    config, clock, left = KubeConfig(server=kubernetes.url), Clock(), [20.0]

    async def confirm() -> float:
        if left[0] <= 0:
            raise Unauthenticated("expired")
        return left[0]

    async def admit(token: str) -> Admission | None:
        return Admission(KubeClient(config.with_token("ada")), confirm) if token == "id-token" else None

    sessions = Sessions(lambda token: KubeClient(config.with_token(token)), clock, admit=admit)
    for _ in range(2):
        session = await sessions.enter("Bearer id-token")
        assert session.identity[0] == "ada"
        await sessions.leave(session)
    clock.now, left[0] = clock.now + 21.0, 0.0
    with pytest.raises(Unauthenticated):
        await sessions.enter("Bearer id-token")
    grace = await sessions.enter("Bearer grace")
    assert grace.identity[0] == "grace"
    await sessions.leave(grace)
    await sessions.close()


async def test_invalid_tokens_do_not_displace_remembered_callers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an invalid token, only the refusal is remembered."""
    monkeypatch.setattr(auth, "MAX_SESSIONS", 4)
    await world.http.get("/v1/version")
    bogus = [f"bogus{number}" for number in range(20)]
    world.kubernetes.unknown_tokens |= set(bogus)
    answers = [await world.http.get("/v1/version", headers={"Authorization": f"Bearer {token}"}) for token in bogus]
    assert {answer.status_code for answer in answers} == {401}
    asked = len(reviews(world.kubernetes))
    assert (await world.http.get("/v1/version")).json()["user"] == "ada"
    assert len(reviews(world.kubernetes)) == asked


async def test_many_unknown_tokens_of_one_address_do_not_delay_others(
    kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server reviews a few tokens of one address at a time; requests beyond the limit of waiting ones are
    refused."""
    monkeypatch.setattr(turns, "UNKNOWN_WAITING", 8)
    asked: list[str] = []
    answering = asyncio.Event()

    class Client(KubeClient):
        async def create(self, *_: Any, **__: Any) -> dict[str, Any]:
            asked.append(self.config.credentials.token)
            await answering.wait()
            return {"status": {"userInfo": {"username": self.config.credentials.token}}}

    sessions = Sessions(lambda token: Client(KubeConfig(server=kubernetes.url).with_token(token)))
    eves = [asyncio.create_task(sessions.enter(f"Bearer eve{number}", "10.0.0.1")) for number in range(7)]
    ada = asyncio.create_task(sessions.enter("Bearer ada", "10.0.0.2"))
    late = asyncio.create_task(sessions.enter("Bearer late", "10.0.0.3"))
    with pytest.raises(Busy):
        await late
    assert sorted(asked) == ["ada", "eve0", "eve1", "eve2", "eve3"]
    answering.set()
    assert (await ada).user().name == "ada"
    await asyncio.gather(*eves)
    await sessions.close()


async def test_too_many_wrong_tokens_of_an_address_are_not_reviewed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of agents count as well. Known callers from that address are served, and a minute later tokens are
    reviewed again."""
    limits = WebLimits(wrong_tokens=1000, wrong_tokens_per_address=5)
    monkeypatch.setattr(world.api.callers.sessions, "_questions", questions := turns.Questions(limits, world.clock))
    world.change("callers", questions=questions)
    await world.http.get("/v1/version")
    bogus = [f"bogus{number}" for number in range(12)]
    world.kubernetes.unknown_tokens |= set(bogus)
    answers = []
    for number, token in enumerate(bogus):
        headers = {"Authorization": f"Bearer {token}"}
        method, path = ("GET", "/v1/version") if number % 3 else ("POST", "/v1/nodes/g1/traffic")
        answers.append(await world.http.request(method, path, headers=headers))
    assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 9
    assert len(reviews(world.kubernetes)) <= 1 + 2 * 5
    assert (await world.http.get("/v1/version")).status_code == 200
    assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer eve"})).status_code == 429
    world.clock.now += 60
    assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer eve"})).status_code == 200


@pytest.mark.parametrize("path", ["watch", "events?follow=true", "logs?follow=true"])
async def test_a_stream_is_aborted_when_its_token_is_revoked(
    world: World, served: httpx2.AsyncClient, path: str
) -> None:
    """The reader can tell that the answer is not complete; the next request is refused."""
    await put_member(world)
    async with served.stream("GET", f"/v1/runs/team/bert/{path}") as response:
        lines = response.aiter_lines()
        await anext(lines)
        await world.api.callers.sessions.recheck()
        world.kubernetes.unknown_tokens.add("ada")
        await world.api.callers.sessions.recheck()
        with pytest.raises(httpx2.TransportError):
            async for _ in lines:
                pass
    assert (await served.get("/v1/runs/team/bert")).status_code == 401


@pytest.mark.parametrize(
    ("path", "verb", "what"),
    [("watch", "get", "runs"), ("events?follow=true", "get", "runs"), ("logs?follow=true", "get", "pods/log")],
)
async def test_a_stream_is_aborted_when_its_right_is_revoked(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, verb: str, what: str
) -> None:
    """The stream of another caller goes on."""
    monkeypatch.setattr(events, "LAST_EVENTS_SECONDS", 0.0)
    await put_member(world)
    other = {"Authorization": "Bearer eve"}
    async with (
        served.stream("GET", f"/v1/runs/team/bert/{path}") as revoked_stream,
        served.stream("GET", f"/v1/runs/team/bert/{path}", headers=other) as other_stream,
    ):
        lines, others = revoked_stream.aiter_lines(), other_stream.aiter_lines()
        await anext(lines)
        await anext(others)
        world.kubernetes.denied.add(("ada", verb, what, "team"))
        await world.api.callers.sessions.recheck()
        with pytest.raises(httpx2.TransportError):
            async for _ in lines:
                pass
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        world.kubernetes.logs["team", "bert-1-0"].end()
        async for _ in others:  # until its regular end
            pass


async def test_rechecks_of_streams_cost_one_review_per_token_and_right(
    world: World, served: httpx2.AsyncClient
) -> None:
    await put_member(world)
    async with AsyncExitStack() as opened:
        for _ in range(12):
            response = await opened.enter_async_context(served.stream("GET", "/v1/runs/team/bert/watch"))
            await anext(response.aiter_lines())
        before = len(reviews(world.kubernetes))
        await world.api.callers.sessions.recheck()
        asked = reviews(world.kubernetes)[before:]
    assert asked == ["selfsubjectreviews", "selfsubjectaccessreviews"]


async def test_streams_go_on_while_the_api_server_is_unavailable(world: World, served: httpx2.AsyncClient) -> None:
    await put_member(world)
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        lines = response.aiter_lines()
        await anext(lines)
        world.kubernetes.failing = True
        await world.api.callers.sessions.recheck()
        world.kubernetes.failing = False
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert '"Succeeded"' in await anext(lines)


async def test_the_running_server_checks_open_streams_by_itself(world: World) -> None:
    world.change("callers", limits=WebLimits(recheck_seconds=0.01))
    await put_member(world)
    async with ApiServer(world.app) as server, httpx2.AsyncClient(base_url=server.url) as http:
        headers = {"Authorization": "Bearer ada"}
        async with http.stream("GET", "/v1/runs/team/bert/watch", headers=headers) as response:
            world.kubernetes.unknown_tokens.add("ada")
            with pytest.raises(httpx2.TransportError):
                async for _ in response.aiter_lines():
                    pass


async def test_credentials_are_needed_exactly_as_the_openapi_document_says(world: World) -> None:
    document = (await world.http.get("/openapi.json")).json()
    del world.http.headers["Authorization"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            filled = re.sub(r"\{(\w+)\}", lambda match: {"namespace": "team", "name": "bert"}.get(match[1], "x"), path)
            response: httpx2.Response = await world.http.request(method.upper(), filled)
            assert (response.status_code == 401) is (operation.get("security") != []), filled
