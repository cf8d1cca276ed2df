"""Telemetry over the Web API: reports of agents, bands over ranks, and single ranks asked from their nodes."""

from __future__ import annotations

import asyncio
from array import array
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.harness.waiting import until
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import pod, run
from tests.unit.api.fake_programs import Object
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.app import openapi_document
from kajitori.api.streams.node_lines import AgentLines
from kajitori.api.streams.telemetry_keeper import TelemetryKeeper
from kajitori.api.telemetry.agents import follow_places
from kajitori.api.telemetry.exposition import ShownRun, exposition
from kajitori.api.telemetry.routes import intervals_of
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import GPU, MEMBER
from kajitori.core.telemetry.report import (
    MAX_ASKED,
    MEDIA_TYPE,
    Answer,
    MemberMinute,
    Question,
    Report,
    SavedCheckpoint,
    Series,
    decode_questions,
    encode,
)
from kajitori.core.usage.lost_time.slices import Mark
from kajitori.history.store import History

MINUTE = int(NOW.timestamp() // 60) - 2
RUN = "/v1/runs/team/bert"


def values(**known: float) -> bytes:
    """A member's values: those that are named, by name with `_` for `.`."""
    return array("f", [known.get(each.name.replace(".", "_"), float("nan")) for each in MEMBER]).tobytes()


def gpu_values(*used: float) -> bytes:
    rows = array("f")
    for percent in used:
        rows.extend(percent if each.name == "gpu.used" else float("nan") for each in GPU)
    return rows.tobytes()


async def gang(world: World, ranks: int = 3, node: str = "g1") -> list[Object]:
    made = world.kubernetes.put("runs", run("bert", replicas=ranks) | {"status": {"phase": "Running", "attempts": 1}})
    pods = [world.kubernetes.put("pods", pod(made, rank=rank, node=node)) for rank in range(ranks)]
    await world.caught_up()
    return pods


def minute(member: Object, number: int = MINUTE, **known: Any) -> MemberMinute:
    meta = member["metadata"]
    gpus = known.pop("gpus", ())
    training = known.pop("training", {})
    named = tuple(f"GPU-{place}" for place in range(len(gpus)))
    about = (meta["namespace"], meta["name"], meta["uid"], number, values(**known))
    return MemberMinute(*about, named, gpu_values(*gpus), training)


async def report(
    world: World, *minutes: MemberMinute, node: str = "g1", token: str = "kubelet", status: int = 204
) -> None:
    answer = await world.http.post(
        f"/v1/nodes/{node}/telemetry",
        content=encode(Report(minutes=minutes)),
        headers={"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE},
    )
    assert answer.status_code == status, answer.text


def described(path: str, answer: httpx2.Response) -> Any:
    """Return the answer, which must fit the OpenAPI document."""
    assert answer.status_code == 200, answer.text
    document = openapi_document()
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert_fits(document, schema, answer.json(), path)
    return answer.json()


async def test_the_hottest_gpu_of_each_node_is_known(world: World) -> None:
    """To callers who may read the runs on it. A newer minute replaces an older one."""
    pods = await gang(world)
    temperatures = {0: (81.4, 60.0), 1: (70.0,), 2: ()}
    for number in (MINUTE, MINUTE + 1):
        made = []
        for rank, celsius in temperatures.items():
            rows = array("f")
            for each in celsius:
                rows.extend(
                    each - MINUTE + number if known.name == "gpu.temperature" else float("nan") for known in GPU
                )
            uuids = tuple(f"GPU-{place}" for place in range(len(celsius)))
            made.append(msgspec.structs.replace(minute(pods[rank], number), gpus=uuids, gpu_values=rows.tobytes()))
        await report(world, *made)
    shown = described("/v1/node-temperatures", await world.http.get("/v1/node-temperatures"))
    assert shown == {"celsius": {"g1": 82}}
    world.kubernetes.denied |= {("bob", "list", "runs", where) for where in ("", "*")}
    others = await world.http.get("/v1/node-temperatures", headers={"Authorization": "Bearer bob"})
    assert others.json() == {"celsius": {}}


async def test_reports_become_bands_with_the_ranks_of_the_extremes(world: World) -> None:
    pods = await gang(world)
    await report(world, *(minute(each, cpu_used=rank + 1.0) for rank, each in enumerate(pods)))
    await world.api.telemetry.look()
    shown = described(
        "/v1/runs/{namespace}/{name}/metrics", await world.http.get(f"{RUN}/metrics", params={"name": "cpu.used"})
    )
    (series,) = shown["series"]
    (point,) = series["points"]
    assert (series["unit"], shown["ranks"], point["count"]) == ("cores", 3, 3)
    assert (point["min"], point["p50"], point["max"]) == (
        {"value": 1.0, "rank": 0},
        2.0,
        {"value": 3.0, "rank": 2},
    )


async def test_a_gpu_that_idles_is_named_by_rank_and_number(world: World) -> None:
    pods = await gang(world, ranks=2)
    await report(world, minute(pods[0], gpus=(99.0, 98.0)), minute(pods[1], gpus=(97.0, 3.0)))
    await world.api.telemetry.look()
    (series,) = (await world.http.get(f"{RUN}/metrics", params={"name": "gpu.used"})).json()["series"]
    assert series["points"][0]["min"] == {"value": 3.0, "rank": 1, "gpu": 1}
    listed = described("/v1/stats", await world.http.get("/v1/stats"))
    assert listed["items"][0]["bands"]["gpu.used"]["count"] == 4


async def test_prometheus_gets_median_and_extremes_with_a_token(world: World) -> None:
    pods = await gang(world)
    await report(world, *(minute(each, cpu_used=rank + 1.0) for rank, each in enumerate(pods)))
    await world.api.telemetry.look()
    text = (await world.http.get("/v1/stats/prometheus")).text
    (most,) = [line for line in text.splitlines() if 'statistic="most"' in line]
    assert most.startswith('kajitori_run_cpu_used_cores{namespace="team",run="bert",run_id="')
    assert most.endswith(',statistic="most"} 3')
    families = [family.name for family in text_string_to_metric_families(text)]
    assert families[:2] == ["kajitori_run_ranks", "kajitori_run_cpu_used_cores"]
    world.kubernetes.denied.add(("mallory", "list", "runs", "*"))
    other = await world.http.get("/v1/stats/prometheus", headers={"Authorization": "Bearer mallory"})
    assert other.status_code == 403
    assert "bert" not in (await world.http.get("/metrics")).text


async def test_members_of_other_nodes_and_strangers_are_left_out(world: World) -> None:
    """An agent reports for its own node only, and the server itself knows which member a Pod is."""
    world.kubernetes.denied.add(("mallory", "patch", "nodes/status", "*"))
    pods = await gang(world, ranks=1, node="g2")
    await report(world, minute(pods[0], cpu_used=1.0))
    stranger = MemberMinute("team", pods[0]["metadata"]["name"], "another uid", MINUTE, values(cpu_used=1.0))
    await report(world, stranger, node="g2", token="admin")
    await report(world, minute(pods[0], cpu_used=1.0), node="g2", token="mallory", status=403)
    await report(world, minute(pods[0], MINUTE - 100, cpu_used=1.0), node="g2", token="admin")
    await world.api.telemetry.look()
    assert (await world.http.get(f"{RUN}/metrics")).json()["series"] == []


async def test_users_who_may_not_read_the_run_get_nothing(world: World) -> None:
    await gang(world)
    world.kubernetes.denied |= {("mallory", verb, "runs", "*") for verb in ("get", "list")}
    for path in ("/metrics", "/stats", "/stats/watch", "/members/0/metrics"):
        answer = await world.http.get(f"{RUN}{path}", headers={"Authorization": "Bearer mallory"})
        assert answer.status_code == 403, path
    listed = await world.http.get("/v1/stats", headers={"Authorization": "Bearer mallory"})
    assert (listed.status_code, listed.json()["items"]) == (200, [])


async def test_the_last_checkpoint_is_kept_when_its_pod_is_gone(world: World, history: History) -> None:
    """A preempted program writes it as the last thing it does. Other ranks, and impossible times, are left out."""
    world.change(telemetry=TelemetryKeeper(None, history, world.api.now))
    async with asyncio.TaskGroup() as tasks:
        follower = tasks.create_task(follow_places(world.api))
        first, second = await gang(world, ranks=2)
        for each in (first, second):
            world.kubernetes.remove("pods", each["metadata"]["name"])
        await world.caught_up()
        follower.cancel()
    now = NOW.timestamp()
    times = {"first": [(now - 30, now - 20), (now - 5000, now - 4000), (now - 10, now + 500)], "second": [(now, now)]}
    saved = [
        SavedCheckpoint(meta["namespace"], meta["name"], meta["uid"], *each)
        for name, member in (("first", first), ("second", second))
        for meta in (member["metadata"],)
        for each in times[name]
    ]
    for node in ("g2", "g1", "g1"):
        content = encode(Report(saved=tuple(saved)))
        headers = {"Authorization": "Bearer kubelet", "Content-Type": MEDIA_TYPE}
        answer = await world.http.post(f"/v1/nodes/{node}/telemetry", content=content, headers=headers)
        assert answer.status_code == 204, answer.text
        await world.api.telemetry.look()
    (marks,) = (await history.marks([first["metadata"]["ownerReferences"][0]["uid"]])).values()
    assert marks == [Mark(1, "saved", int(now - 30), int(now - 20))]


async def test_two_servers_make_the_same_bands(world: World) -> None:
    """One gets the report of rank 0, the other that of rank 1; a third starts after the first was killed."""
    pods = await gang(world, ranks=2)
    api, later = world.api, lambda: NOW + timedelta(seconds=30)
    others = [TelemetryKeeper(world.blobs, None, later) for _ in range(2)]
    await report(world, minute(pods[0], cpu_used=1.0))
    first = api.telemetry
    world.change(telemetry=others[0])
    await report(world, minute(pods[1], cpu_used=5.0))
    for keeper in (first, others[0], first, others[1]):
        await keeper.look()
    uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    found = [keeper.collector.recent(uid, 0, NOW.timestamp()) for keeper in (first, *others)]
    assert [[each.ranks for each in intervals] for intervals in found] == [[2], [2], [2]]
    assert found[0] == found[1] == found[2]
    kept = await api.stores.history.telemetry(uid, 0, int(NOW.timestamp()))  # type: ignore[union-attr]
    assert [(each.ranks, each.bands["cpu.used"].most) for each in kept] == [(2, 5.0)]


async def test_bands_outlive_the_server_that_made_them(world: World) -> None:
    pods = await gang(world, ranks=1)
    await report(world, minute(pods[0], memory_used=7.0))
    await world.api.telemetry.look()
    world.change(telemetry=TelemetryKeeper(None, world.api.stores.history, world.api.now))
    (series,) = (await world.http.get(f"{RUN}/metrics")).json()["series"]
    assert (series["name"], series["points"][0]["p50"]) == ("memory.used", 7.0)


async def answer_one(world: World, answer: Answer, node: str = "g1") -> Question:
    """Do what an agent does: wait for a question, and answer it."""
    headers = {"Authorization": "Bearer kubelet", "Content-Type": MEDIA_TYPE}
    waited = await world.http.get(f"/v1/nodes/{node}/telemetry/questions", params={"hold": 20}, headers=headers)
    assert waited.status_code == 200, waited.text
    (question,) = decode_questions(waited.content)
    path = f"/v1/nodes/{node}/telemetry/answers/{question.id}"
    answered = await world.http.post(path, content=encode(answer), headers=headers)
    assert answered.status_code == 204, answered.text
    assert (await world.http.post(path, content=encode(answer), headers=headers)).status_code == 404
    return question


async def test_agents_requests_are_judged_however_they_are_answered(world: World) -> None:
    """Usual ones do not go through FastAPI's resolution of dependencies; identity and parameters count all the same."""

    async def asked(path: str, token: str = "kubelet", method: str = "GET") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE}
        answer = await world.http.request(
            method, path, headers=headers, content=encode(Report()) if method == "POST" else None
        )
        return answer.status_code, answer.json()["faults"][0]["field"] if answer.status_code == 422 else ""

    report_to, wait_at = "/v1/nodes/{}/telemetry", "/v1/nodes/{}/telemetry/questions"
    assert await asked(wait_at.format("g1") + "?hold=0") == (200, "")
    assert await asked(wait_at.format("g1")) == (200, ""), "the default"
    assert await asked(wait_at.format("g1") + "?hold=99") == (422, "hold")
    assert await asked(wait_at.format("g1") + "?holds=1") == (422, "holds")
    assert await asked(report_to.format("g1") + "?hold=1", method="POST") == (422, "hold")
    for path, method in ((wait_at + "?hold=0", "GET"), (report_to, "POST")):
        assert await asked(path.format("nowhere"), method=method) == (422, "node")
        assert (await asked(path.format("g1"), token="", method=method))[0] == 401


async def test_one_rank_in_full_resolution_comes_from_its_node(world: World) -> None:
    pods = await gang(world, ranks=1)
    times = [NOW.timestamp() - 30, NOW.timestamp() - 15]
    uid = pods[0]["metadata"]["uid"]
    rows = values(cpu_used=1.0) + values(cpu_used=2.0)
    gpus = gpu_values(10.0, 90.0) + gpu_values(11.0, 91.0)
    told = Series(uid, array("d", times).tobytes(), rows, ("A", "B"), gpus, {"loss": [(times[0], 0.5)]})
    agent = asyncio.create_task(answer_one(world, Answer((told,))))
    path = "/v1/runs/{namespace}/{name}/members/{rank}/metrics"
    shown = described(path, await world.http.get(f"{RUN}/members/0/metrics", params={"since": "10m"}))
    assert (await agent).uids == (uid,)
    series = {(each["name"], each.get("gpu")): [s["value"] for s in each["samples"]] for each in shown["series"]}
    assert series == {
        ("train.loss", None): [0.5],
        ("cpu.used", None): [1.0, 2.0],
        ("gpu.used", 0): [10.0, 11.0],
        ("gpu.used", 1): [90.0, 91.0],
    }


@pytest.mark.parametrize(
    ("wanted", "names"),
    [(("loss",), {"train.loss"}), (("gpu.",), {"gpu.used"}), (("loss", "cpu.used"), {"train.loss", "cpu.used"})],
)
async def test_a_quantity_is_wanted_by_the_program_s_own_name(
    world: World, wanted: tuple[str, ...], names: set[str]
) -> None:
    """A program writes `loss`, and the list calls it `train.loss`."""
    pods = await gang(world, ranks=1)
    times = array("d", [NOW.timestamp() - 30]).tobytes()
    told = Series(
        pods[0]["metadata"]["uid"],
        times,
        values(cpu_used=1.0),
        ("A",),
        gpu_values(1.0),
        {"loss": [(NOW.timestamp() - 30, 0.5)]},
    )
    agent = asyncio.create_task(answer_one(world, Answer((told,))))
    answer = await world.http.get(f"{RUN}/members/0/metrics", params={"since": "10m", "name": list(wanted)})
    await agent
    assert {each["name"] for each in answer.json()["series"]} == names


async def test_a_question_reaches_a_node_whose_agent_waits_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the store that the servers share, also while the other server is busy with a minute's bands."""
    pods = await gang(world, ranks=1)
    await report(world, minute(pods[0], cpu_used=1.0))
    world.blobs.time = NOW
    first, second = world.api.telemetry, TelemetryKeeper(world.blobs, None, world.api.now)
    await first.look()
    await second.look()
    uid = pods[0]["metadata"]["uid"]
    told = Answer((Series(uid, array("d", [1.0]).tobytes(), values(cpu_used=3.0)),))
    agent = asyncio.create_task(answer_one(world, told))
    await until(lambda: first.lines.is_connected("g1"))
    asking = asyncio.create_task(second.ask("g1", (uid,), 0.0, fresh=True))
    first._has_others = True  # it has seen reports that the second one received
    monkeypatch.setattr(first, "look", asyncio.Event().wait)
    monkeypatch.setattr(world.blobs, "look_seconds", 0.01)
    running = asyncio.create_task(first.run())
    assert (await asking, (await agent).uids) == (told, (uid,))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [blob.key async for blob in world.blobs.under("telemetry-answers")] == []


async def test_stats_are_live_where_the_node_answers(world: World) -> None:
    pods = await gang(world, ranks=2)
    await report(world, *(minute(each, cpu_used=4.0, training={"step": 7.0}) for each in pods))
    row = array("d", [NOW.timestamp()]).tobytes()
    told = Series(pods[1]["metadata"]["uid"], row, values(cpu_used=9.0))
    agent = asyncio.create_task(answer_one(world, Answer((told,))))
    shown = described("/v1/runs/{namespace}/{name}/stats", await world.http.get(f"{RUN}/stats"))
    await agent
    found = {each["rank"]: (each["values"], each.get("live", False)) for each in shown["ranks"]}
    assert found == {0: ({"train.step": 7.0, "cpu.used": 4.0}, False), 1: ({"cpu.used": 9.0}, True)}
    assert (shown["total"], shown["silent"]) == (2, 1)


def test_prometheus_gets_the_runs_with_the_most_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kajitori.api.telemetry.exposition.MAX_RUNS", 2)
    text = exposition([ShownRun("team", f"run{ranks}", "id", ranks, {}) for ranks in (3, 70, 12)]).decode()
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("kajitori_run_ranks{")] == ["70", "12"]


async def test_an_agent_that_asks_again_ends_its_wait_before() -> None:
    """Its connection broke, and the server has not noticed."""
    lines = AgentLines()
    first = asyncio.create_task(lines.wait("g1", 60.0))
    await asyncio.sleep(0)
    second = asyncio.create_task(lines.wait("g1", 60.0))
    async with asyncio.timeout(5):
        assert await first == ()
    assert lines.is_connected("g1"), "the second wait goes on"
    lines.close()
    assert await second == ()


@pytest.mark.parametrize(("here", "stored"), [(2, 3), (3, 2)])
async def test_an_interval_is_taken_from_where_more_ranks_are_known(here: int, stored: int) -> None:
    """History lacks late ranks until it is written again; this server lacks what came before its start."""

    async def telemetry(*_: object) -> list[Interval]:
        return [Interval("uid", 1, 60, 600, stored, {})]

    collector = SimpleNamespace(recent=lambda *_: [Interval("uid", 1, 60, 600, here, {})])
    stores = SimpleNamespace(history=SimpleNamespace(telemetry=telemetry))
    api = cast(Any, SimpleNamespace(telemetry=SimpleNamespace(collector=collector), stores=stores))
    subject = cast(Any, SimpleNamespace(metadata=SimpleNamespace(uid="uid")))
    (found,) = await intervals_of(api, subject, 0.0, 1000.0)
    assert found.ranks == 3


async def test_values_of_the_attempt_before_are_not_shown(world: World) -> None:
    (member,) = await gang(world, ranks=1)
    await report(world, minute(member, cpu_used=4.0))
    changed = run("bert", replicas=1) | {"status": {"phase": "Running", "attempts": 2}}
    world.kubernetes.put("runs", changed | {"metadata": world.kubernetes.objects["runs", "team", "bert"]["metadata"]})
    await world.caught_up()
    shown = (await world.http.get(f"{RUN}/stats", params={"live": "false"})).json()
    assert (shown["attempt"], [each["values"] for each in shown["ranks"]]) == (2, [])


async def test_many_members_of_a_node_are_asked_for_in_parts(world: World) -> None:
    """So that an answer is no larger than bodies may be. What an agent tells about other Pods is left out."""
    pods = await gang(world, ranks=MAX_ASKED + 1)
    row = array("d", [NOW.timestamp()]).tobytes()
    series = [
        Series(each["metadata"]["uid"], row, values(cpu_used=9.0)) for each in (*pods, {"metadata": {"uid": "x"}})
    ]

    lines, parts = world.api.telemetry.lines, list[int]()
    asking = asyncio.create_task(world.http.get(f"{RUN}/stats"))
    async with asyncio.timeout(10):
        while sum(parts) < len(pods):
            for question in await lines.wait("g1", 5.0):
                parts.append(len(question.uids))
                lines.settle("g1", question.id, Answer(tuple(series)))
        shown = (await asking).json()
    assert [each["rank"] for each in shown["ranks"] if each.get("live")] == list(range(MAX_ASKED + 1))
    assert sorted(parts) == [1, MAX_ASKED]


@pytest.mark.parametrize(
    ("params", "field"),
    [({"since": "yesterday"}, "since"), ({"name": "cpu.usd"}, "name"), ({"points": "0"}, "points")],
)
async def test_wrong_parameters_are_named(world: World, params: dict[str, str], field: str) -> None:
    pods = await gang(world, ranks=1)
    await report(world, minute(pods[0], cpu_used=4.0))
    await world.api.telemetry.look()
    answer = await world.http.get(f"{RUN}/metrics", params=params)
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, field)


async def test_a_body_that_is_no_report_is_refused(world: World) -> None:
    headers = {"Authorization": "Bearer kubelet", "Content-Type": MEDIA_TYPE}
    answer = await world.http.post("/v1/nodes/g1/telemetry", content=b"\xc1", headers=headers)
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "body")
