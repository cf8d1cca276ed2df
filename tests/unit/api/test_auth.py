"""Who calls and what he may do: asked of the API server, and remembered for a moment."""

from __future__ import annotations

import asyncio
import logging
import re

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import FakeKubernetes, run

from kajitori.api import auth
from kajitori.api.auth import Sessions
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig


def reviews(kubernetes: FakeKubernetes) -> list[str]:
    return [path.rsplit("/", 1)[1] for method, path, _ in kubernetes.requests if method == "POST" and "reviews" in path]


@pytest.mark.parametrize(
    "header", [None, "", "ada", "Basic YWRhOg==", "Bearer ", "Bearer a b", "Bearer \x7f", "Bearer expired"]
)
async def test_without_good_credentials_nothing_is_answered(world: World, header: str | None) -> None:
    """401 as a problem, with a way out."""
    headers = {} if header is None else {"Authorization": header}
    del world.http.headers["Authorization"]
    response = await world.http.get("/v1/runs", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["hint"]


async def test_who_it_is_is_asked_once_in_a_while(world: World) -> None:
    """Not for every request, and not for ever."""
    for _ in range(3):
        assert (await world.http.get("/v1/version")).json()["user"] == "ada"
    assert reviews(world.kubernetes) == ["selfsubjectreviews"]
    world.clock.now += auth.IDENTITY_SECONDS + 1
    await world.http.get("/v1/version")
    assert reviews(world.kubernetes) == ["selfsubjectreviews"] * 2


async def test_a_token_that_was_withdrawn_is_noticed(world: World) -> None:
    await world.http.get("/v1/version")
    world.kubernetes.unknown_tokens.add("ada")
    world.clock.now += auth.IDENTITY_SECONDS + 1
    assert (await world.http.get("/v1/version")).status_code == 401


async def test_a_wrong_token_does_not_reach_the_api_server_again_and_again(world: World) -> None:
    for _ in range(5):
        assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer expired"})).status_code == 401
    assert len(reviews(world.kubernetes)) == 1
    world.kubernetes.unknown_tokens.clear()
    world.clock.now += auth.REFUSED_SECONDS + 1
    assert (await world.http.get("/v1/version", headers={"Authorization": "Bearer expired"})).status_code == 200


async def test_many_at_once_ask_once(world: World) -> None:
    """A thousand streams that begin together are one review of each kind."""
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    answers = await asyncio.gather(*(world.http.get("/v1/runs/team/bert") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(reviews(world.kubernetes)) == ["selfsubjectaccessreviews", "selfsubjectreviews"]


async def test_a_right_that_was_withdrawn_is_noticed(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 200
    world.kubernetes.denied.add(("ada", "get", "runs", "team"))
    world.clock.now += auth.ALLOWED_SECONDS + 1
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 403


async def test_an_api_server_that_is_away_is_no_wrong_password(world: World) -> None:
    world.kubernetes.failing = True
    response = await world.http.get("/v1/version")
    assert response.status_code == 503
    world.kubernetes.failing = False
    assert (await world.http.get("/v1/version")).status_code == 200


async def test_no_token_reaches_a_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in ("ada", "expired"):
        secret = {"Authorization": f"Bearer {token}"}
        await world.http.get("/v1/runs", headers=secret)
    world.kubernetes.unknown_tokens.add("s3cr3t-t0ken")
    await world.http.get("/v1/runs", headers={"Authorization": "Bearer s3cr3t-t0ken"})
    assert "s3cr3t-t0ken" not in caplog.text
    assert "s3cr3t-t0ken" not in repr(vars(world.api.sessions))


async def test_forgotten_callers_are_closed_when_their_last_request_ends(
    kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of remembered callers is bounded; nobody's running request is cut off."""
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


async def test_everything_but_health_wants_credentials(world: World) -> None:
    """As the API says of itself."""
    document = (await world.http.get("/openapi.json")).json()
    del world.http.headers["Authorization"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            filled = re.sub(r"\{(\w+)\}", lambda match: {"namespace": "team", "name": "bert"}.get(match[1], "x"), path)
            response: httpx2.Response = await world.http.request(method.upper(), filled)
            assert (response.status_code == 401) is (operation.get("security") != []), filled
