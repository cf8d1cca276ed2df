"""Channels through the Web API: everybody's own, a team's for those who may share it, and never a URL in an answer."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import msgspec
import pytest
from tests.unit.api.conftest import World

from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.messages.channels import Channel, person, team
from kajitori.core.messages.outbox import ChannelState, Message, Outbox, Request
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy

URL = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
TOKEN = "TIiajkdnlazkcOXrIdevi7FQ"


async def call(world: World, method: str, path: str = "", user: str = "ada", **more: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {user}"}
    response = await world.http.request(method, f"/v1/channels{path}", headers=headers, **more)
    assert TOKEN not in response.text
    return response


async def add(world: World, name: str = "slack", user: str = "ada", **body: Any) -> httpx2.Response:
    params = {"team": body.pop("team")} if "team" in body else {}
    return await call(world, "POST", "", user, json={"name": name, "url": URL, **body}, params=params)


def stored(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.kubernetes.objects["secrets", "kajitori-messages", name]
    return found


def keep_outbox(world: World, outbox: Outbox) -> None:
    """Store what a controller would."""
    name = person("ada").outbox
    meta = {"name": name, "namespace": "kajitori-messages"}
    state = base64.b64encode(msgspec.json.encode(outbox)).decode()
    world.kubernetes.put("secrets", {"metadata": meta, "data": {"state": state}})


async def test_a_channel_is_the_callers_own(world: World) -> None:
    """It is in a namespace in which nobody else has rights, under the name that the API server authenticated."""
    response = await add(world, kinds=["failed"])
    assert (response.status_code, response.json()) == (
        201,
        {"name": "slack", "scheme": "slack", "kinds": ["failed"], "key": ""},
    )
    secret = stored(world, person("ada").secret)
    assert secret["metadata"]["annotations"][names.ANNOTATION_RECIPIENT] == "person/ada"
    assert msgspec.json.decode(base64.b64decode(secret["data"]["slack"]), type=Channel) == Channel(
        url=URL, kinds=("failed",)
    )
    assert [one["name"] for one in (await call(world, "GET")).json()["items"]] == ["slack"]
    assert (await call(world, "GET", user="bob")).json()["items"] == []
    assert (await call(world, "DELETE", "/slack", user="bob")).status_code == 404
    assert (await call(world, "DELETE", "/slack")).status_code == 200
    assert (await call(world, "GET")).json()["items"] == []


async def test_a_channel_that_cannot_be_read_hides_no_other(world: World) -> None:
    """It can be replaced under its name."""
    await add(world)
    stored(world, person("ada").secret)["data"]["mail"] = base64.b64encode(b"{").decode()
    assert [one["name"] for one in (await call(world, "GET")).json()["items"]] == ["slack"]
    assert (await add(world, "mail")).status_code == 201
    assert [one["name"] for one in (await call(world, "GET")).json()["items"]] == ["mail", "slack"]


async def test_the_key_of_a_webhook_is_shown_once(world: World) -> None:
    made = (await add(world, "ci", url="https://ci.example.org/hook", webhook=True)).json()
    assert made["scheme"] == "webhook" and made["key"].startswith("whsec_")
    assert made["key"] not in (await call(world, "GET")).text


async def test_the_api_server_decides_who_may_change_a_teams_channels(world: World) -> None:
    """Whoever may share the namespace. Its members see which channels there are."""
    world.kubernetes.denied = {("bob", "create", "rolebindings", "team")}
    assert (await add(world, "alerts", "bob", team="team")).status_code == 403
    assert (await add(world, "alerts", team="team")).status_code == 201
    assert "alerts" in stored(world, team("team").secret)["data"]
    params = {"team": "team"}
    assert [one["name"] for one in (await call(world, "GET", user="bob", params=params)).json()["items"]] == ["alerts"]
    assert (await call(world, "POST", "/alerts/test", "bob", params=params)).status_code == 403
    assert (await call(world, "DELETE", "/alerts", "bob", params=params)).status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": TOKEN}, "url"),
        ({"url": f"slack://{TOKEN} and more"}, "url"),
        ({"url": f"http://x/{TOKEN}", "webhook": True}, "url"),
        ({"kinds": ["sometimes"]}, "kinds"),
        ({"kinds": []}, "kinds"),
        ({"name": "none"}, "name"),
        ({"name": "failed"}, "name"),
        ({"name": "A b"}, "name"),
    ],
)
async def test_faults_name_the_field_and_never_the_url(world: World, body: dict[str, Any], field: str) -> None:
    response = await call(world, "POST", json={"name": "slack", "url": URL, **body})
    assert response.status_code == 422
    assert response.json()["faults"][0]["field"].startswith(field)


async def test_the_policy_says_which_services_are_allowed(world: World) -> None:
    rules = {"notifications": {"schemes": ["mailtos"]}}
    world.api.cluster.__dict__["_policy"] = PolicyFile(None, without_file=parse_policy(rules))
    response = await add(world)
    assert response.status_code == 422 and "slack is not allowed here, but mailtos" in response.text


async def test_a_test_waits_until_a_controller_has_sent_it(world: World) -> None:
    await add(world)
    token = (await call(world, "POST", "/slack/test")).json()["id"]
    assert token in stored(world, person("ada").secret)["metadata"]["annotations"][names.ANNOTATION_MESSAGE_TESTS]

    async def outcome() -> tuple[str, str]:
        found = (await call(world, "GET", "/slack/test", params={"id": token})).json()
        return found["state"], found["error"]

    assert await outcome() == ("waiting", "")
    sent = f"test.{token}"
    message = Message(id=sent, kind="test", at="", namespace="", run="", title="", channels=("slack",))
    request = Request(id=sent, messages=(sent,), since=0.0)
    trying = Outbox(messages=(message,), channels={"slack": ChannelState(request=request, error="no route")})
    keep_outbox(world, trying)
    assert await outcome() == ("waiting", "no route")
    assert (await call(world, "GET")).json()["items"][0]["waiting"] == 1
    keep_outbox(world, Outbox(delivered=(sent,), channels={"slack": ChannelState(error="not allowed")}))
    assert await outcome() == ("failed", "not allowed")
    keep_outbox(world, Outbox(delivered=(sent,), channels={"slack": ChannelState(sent_at=1.0)}))
    assert await outcome() == ("delivered", "")


async def test_nobody_has_more_than_a_few_channels(world: World) -> None:
    answers = [await add(world, f"c{number}") for number in range(17)]
    assert [answer.status_code for answer in answers] == [201] * 16 + [422]
    assert (await add(world, "c1", kinds=["failed"])).status_code == 201, "an existing one is replaced"


async def test_a_run_names_channels_of_its_owner_or_its_team(world: World) -> None:
    """A name that nobody has is refused at submission: the run's messages would arrive nowhere."""
    await add(world, "mine")
    await add(world, "ours", team="team")

    async def submit(*channels: str) -> httpx2.Response:
        body = {"namespace": "team", "spec": {"image": "x:1", "notify": {"channels": channels}}}
        return await world.http.post("/v1/runs", json=body, params={"dryRun": "true"})

    assert (await submit("mine", "ours")).status_code == 200
    refused = await submit("mine", "hers")
    assert refused.status_code == 422
    assert [fault["field"] for fault in refused.json()["faults"]] == ["spec.notify.channels[1]"]
