"""Calls of functions over the Web API."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run

from kajitori.blobs.logs import KeptLogs

TOKEN = "secret"
SHA256 = hashlib.sha256(TOKEN.encode()).hexdigest()
PATH, WORK = "/v1/runs/team/sq/calls", "/v1/members/calls/team/sq"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
async def ready(world: World) -> World:
    """A run with calls 0 to 3 and two members, of which rank 1 was started twice."""
    status = attempts(2, sweep={}) | {"phase": "Running"}
    made = world.kubernetes.put("runs", run("sq", array="0-1") | {"status": status})
    world.kubernetes.put("pods", pod(made, rank=0, attempt=1))
    world.kubernetes.put("pods", pod(made, rank=1, attempt=2))
    await world.caught_up()
    world.change("stores", logs=KeptLogs(MemoryBlobs()))
    body = {"first": 0, "arguments": [b64(f"a{call}") for call in range(4)], "closed": True, "token": SHA256}
    for _ in range(2):  # the answer to the first was lost
        added = await world.http.post(PATH, json=body)
        assert (added.status_code, added.json()) == (200, {"added": 4, "closed": True, "cancelled": 0, "over": False})
    return world


async def work(world: World, rank: int, *, attempt: int = 1, token: str = TOKEN, **more: Any) -> Any:
    body = {"rank": rank, "attempt": attempt, "process": f"{rank}-{attempt}", **more}
    return await world.http.post(WORK, json=body, headers={"Authorization": f"Bearer {token}"})


async def test_workers_take_calls_and_clients_read_outcomes(ready: World) -> None:
    first = (await work(ready, 0, want=5)).json()
    both = [{"call": 0, "arguments": b64("a0")}, {"call": 1, "arguments": b64("a1")}]
    assert first == {"calls": both, "over": False, "ended": []}
    outcomes = [{"call": call, "kind": "value", "value": b64(f"r{call}")} for call in (0, 1)]
    rest = (await work(ready, 0, outcomes=outcomes, want=5)).json()
    assert [one["call"] for one in rest["calls"]] == [2]
    answer = (await ready.http.get(PATH)).json()
    assert [(one["call"], one["value"]) for one in answer["items"]] == [(0, b64("r0")), (1, b64("r1"))]
    assert (answer["added"], answer["ended"]) == (4, 2)
    assert (await ready.http.get(PATH, params={"after": answer["next"]})).json()["items"] == []


async def test_calls_of_a_member_that_is_gone_are_done_again(ready: World) -> None:
    """Rank 1 has a newer attempt than the one that took them."""
    await work(ready, 1, attempt=1, want=5)
    assert [one["call"] for one in (await work(ready, 0, want=1)).json()["calls"]] == [0]


async def test_calls_that_a_worker_returns_go_to_others(ready: World) -> None:
    """A worker that is busy with a long call asks for none, and hands in what it has."""
    assert [one["call"] for one in (await work(ready, 0, want=9)).json()["calls"]] == [0, 1]
    looked = await work(ready, 0, doing=[0], returned=[1, 3])
    assert looked.json() == {"calls": [], "over": False, "ended": []}
    assert [one["call"] for one in (await work(ready, 1, attempt=2, want=1)).json()["calls"]] == [1]


async def test_only_the_token_of_the_calls_opens_them_to_workers(ready: World) -> None:
    assert (await work(ready, 0, token="another")).status_code == 401
    assert (await ready.http.post("/v1/members/calls/team/nothing", json={})).status_code == 401


async def test_values_over_the_policys_limit_are_refused(ready: World) -> None:
    large = {"call": 0, "kind": "value", "value": b64("x" * (4 << 20) + "x")}
    refused = await work(ready, 0, outcomes=[large], want=0)
    assert refused.status_code == 413
    assert "code.value" in refused.json()["detail"]


async def test_a_cancelled_call_is_neither_done_nor_waited_for(ready: World) -> None:
    """Whoever may create runs cancels calls, without the token. Its worker learns that it has ended."""
    assert [one["call"] for one in (await work(ready, 0, want=2)).json()["calls"]] == [0, 1]
    answer = await ready.http.post(PATH, json={"cancel": [1, 2, 99]})
    assert answer.json() == {"added": 4, "closed": True, "cancelled": 2, "over": False}
    assert (await ready.http.post(PATH, json={"cancel": [1]})).json()["cancelled"] == 0
    assert (await work(ready, 0, doing=[0, 1])).json() == {"calls": [], "over": False, "ended": [1]}
    late = [{"call": call, "kind": "value", "value": b64("r")} for call in (0, 1)]
    rest = (await work(ready, 0, outcomes=late, want=9)).json()
    assert [one["call"] for one in rest["calls"]] == [3], "2 was cancelled before a worker took it"
    seen = [(one["call"], one["kind"]) for one in (await ready.http.get(PATH)).json()["items"]]
    assert seen == [(1, "cancelled"), (2, "cancelled"), (0, "value")]
    assert (await ready.http.post(PATH, json={"cancel": [3]})).json()["over"]
    both = await ready.http.post(PATH, json={"cancel": [1], "closed": True})
    assert (both.status_code, both.json()["faults"][0]["field"]) == (422, "cancel")
    ready.kubernetes.denied.add(("eve", "create", "runs", "team"))
    eve = {"Authorization": "Bearer eve"}
    assert (await ready.http.post(PATH, json={"cancel": [0]}, headers=eve)).status_code == 403


async def test_faults_of_requests_are_named(ready: World) -> None:
    gap = await ready.http.post(PATH, json={"first": 9, "arguments": [b64("x")], "token": SHA256})
    assert (gap.status_code, gap.json()["faults"][0]["field"]) == (422, "first")
    wrong = await ready.http.post(PATH, json={"first": 4, "arguments": ["?"]})
    assert wrong.json()["faults"][0]["field"] == "arguments[0]"


async def test_nothing_of_a_request_with_a_fault_is_done(ready: World) -> None:
    """Beside a faulty field no call is added or cancelled, and no worker is given one."""
    for body, field in (
        ({"arguments": [b64("a4")], "first": 4, "token": SHA256, "close": True}, "close"),
        ({"cancel": ["0"], "first": -1}, "first"),
    ):
        refused = await ready.http.post(PATH, json=body)
        assert refused.status_code == 422 and field in [fault["field"] for fault in refused.json()["faults"]]
    refused = await work(ready, 0, want=1, returned="1")
    assert (refused.status_code, refused.json()["faults"][0]["field"]) == (422, "returned")
    answer = (await ready.http.get(PATH)).json()
    assert (answer["added"], answer["ended"]) == (4, 0)
    assert [one["call"] for one in (await work(ready, 0, want=1)).json()["calls"]] == [0]


async def test_only_who_began_the_calls_adds_more(ready: World) -> None:
    """Arguments are code to those who unpickle them."""
    for token in ("", "0" * 64):
        refused = await ready.http.post(PATH, json={"first": 4, "arguments": [b64("x")], "token": token})
        assert refused.status_code == 403


@pytest.mark.parametrize(
    "asked",
    [
        {"rank": 1 << 70},
        {"attempt": 1 << 70},
        {"outcomes": [{"call": 0, "kind": "item", "part": 1 << 70}]},
        {"outcomes": [{"call": 1 << 70, "kind": "value"}]},
    ],
)
async def test_numbers_that_no_log_can_hold_are_refused(ready: World, asked: dict[str, Any]) -> None:
    """They were bugs of the server: the entry could not be written, nor the answer."""
    body = {"rank": 0, "attempt": 1, "process": "x", **asked}
    answer = await ready.http.post(WORK, json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 422, answer.text
    assert (await ready.http.get(PATH, params={"after": 1 << 70})).status_code == 422
