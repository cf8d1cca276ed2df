"""Reading runs: lists, pages, names, prefixes, watches and members."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run

from kajitori.api.runs import routes


async def put_run(world: World, name: str, *, created: str = "2026-11-21T10:00:00Z", **more: Any) -> dict[str, Any]:
    document = run(name, **more)
    document["metadata"]["creationTimestamp"] = created
    return world.kubernetes.put("runs", document)


async def names_of(world: World, **params: Any) -> list[str]:
    response = await world.http.get("/v1/runs", params=params)
    assert response.status_code == 200, response.text
    return [item["name"] for item in response.json()["items"]]


async def test_a_run_view_has_spec_with_defaults_and_status_without_the_template(world: World) -> None:
    """The view shows what runs, without the large template that only the controller needs."""
    status = attempts(1, phase="Running", members={"total": 1, "running": 1})
    status["attempt"]["template"] = '{"spec": {"containers": []}}'
    world.kubernetes.put("runs", run("bert", resources={"cpu": 2}) | {"status": status})
    await world.caught_up()
    view = (await world.http.get("/v1/runs/team/bert")).json()
    assert (view["name"], view["namespace"], view["owner"]) == ("bert", "team", "ada")
    assert view["spec"]["resources"]["cpu"] == "2"
    assert view["spec"]["replicas"] == 1
    assert view["status"]["phase"] == "Running"
    assert view["status"]["attempt"]["number"] == 1
    assert "template" not in view["status"]["attempt"]
    assert view["gpus"] == 0


async def test_a_run_view_has_the_gpus_of_all_members(world: World) -> None:
    """The number is that of the list: a gang's members together, or a sweep's that may run at once."""
    world.kubernetes.put("runs", run("gang", resources={"gpu": 8}, replicas=3))
    world.kubernetes.put("runs", run("sweep", resources={"gpu": 2}, array="0-99%4"))
    await world.caught_up()
    rows = (await world.http.get("/v1/runs", params={"fields": "summary"})).json()["items"]
    assert {row["name"]: row["gpus"] for row in rows} == {"gang": 24, "sweep": 8}
    for row in rows:
        assert (await world.http.get(f"/v1/runs/team/{row['name']}")).json()["gpus"] == row["gpus"]


async def test_a_run_without_a_status_is_queued(world: World) -> None:
    world.kubernetes.put("runs", run("bert", replicas=4))
    await world.caught_up()
    status = (await world.http.get("/v1/runs/team/bert")).json()["status"]
    assert status["phase"] == "Queued"
    assert status["reason"] == "NotPlannedYet"
    assert status["members"]["total"] == 4


async def test_an_invalid_spec_is_shown_unchanged(world: World) -> None:
    """It was written with kubectl. Its status has the refusal, and the list still works."""
    world.kubernetes.put("runs", run("odd", repliccas="many"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/odd")).json()["spec"]["repliccas"] == "many"
    assert await names_of(world) == ["odd"]


async def test_pages_are_consistent_while_runs_come_and_go(world: World) -> None:
    """No run is shown twice, and no run that stays is missed."""
    for number in range(7):
        await put_run(world, f"run-{number}", created=f"2026-11-21T10:0{number // 2}:00Z")
    await world.caught_up()
    everything = await names_of(world)
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = (await world.http.get("/v1/runs", params=params)).json()
        seen += [item["name"] for item in page["items"]]
        if "continue" not in page:
            break
        params["continue"] = page["continue"]
        await put_run(world, f"late-{len(seen)}", created="2026-11-21T11:00:00Z")
        world.kubernetes.remove("runs", seen[0]) if len(seen) == 2 else None
        await world.caught_up()
    assert seen == everything
    assert everything[:2] == ["run-6", "run-4"]


async def test_runs_of_one_second_are_ordered_by_submission_time(world: World) -> None:
    """The newest is first, to the microsecond. Runs created with kubectl follow them by name, on any page."""
    for minute, name in ((1, "zoe"), (3, "bert"), (2, "gpt")):
        document = run(name)
        document["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z"
        document["metadata"]["annotations"]["kajitori.dev/submitted-at"] = f"2026-11-21T10:00:00.00000{minute}Z"
        world.kubernetes.put("runs", document)
    for name in ("d", "c"):
        await put_run(world, name)
    await put_run(world, "later", created="2026-11-21T10:00:01Z")
    await world.caught_up()
    everything = ["later", "bert", "gpt", "zoe", "c", "d"]
    assert await names_of(world) == everything
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 1}
    while params.get("continue", "first"):
        page = (await world.http.get("/v1/runs", params=params)).json()
        seen += [item["name"] for item in page["items"]]
        params["continue"] = page.get("continue")
    assert seen == everything


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"owner": "@me"}, ["a", "b"]),
        ({"owner": "grace"}, ["c"]),
        ({"phase": ["Queued", "Failed"]}, ["b", "c"]),
        ({"active": "true"}, ["a", "c"]),
        ({"namespace": "other"}, ["c"]),
        ({"name": "b"}, ["b"]),
        ({"labelSelector": "stage in (train, tune)"}, ["a"]),
        ({"labelSelector": "!stage"}, ["b", "c"]),
    ],
)
async def test_filters_narrow_the_list_of_runs(world: World, params: dict[str, Any], expected: list[str]) -> None:
    """Filters are owner, phase, activity, namespace, name and labels."""
    first = run("a", phase="Running")
    first["metadata"]["labels"] = {"stage": "train"}
    world.kubernetes.put("runs", first)
    world.kubernetes.put("runs", run("b", phase="Failed"))
    world.kubernetes.put("runs", run("c", owner="grace", namespace="other"))
    await world.caught_up()
    assert sorted(await names_of(world, **params)) == expected


async def test_an_invalid_selector_is_refused_with_an_example(world: World) -> None:
    """The message is that of Kubernetes."""
    answer = await world.http.get("/v1/runs", params={"labelSelector": "stage in (train"})
    assert answer.status_code == 422
    fault = answer.json()["faults"][0]
    assert fault["field"] == "labelSelector"
    assert fault["message"] == "unable to parse requirement: found '', expected: ',' or ')'"
    assert "team=vision" in fault["hint"]


async def test_a_name_is_exact_or_a_prefix(world: World) -> None:
    """The run with exactly this name alone, or all runs whose names begin with it."""
    for name in ("bert", "bert-2", "bertha", "gpt"):
        world.kubernetes.put("runs", run(name))
    await world.caught_up()
    assert await names_of(world, name="bert") == ["bert"]
    assert sorted(await names_of(world, name="bert-")) == ["bert-2"]
    assert sorted(await names_of(world, name="ber")) == ["bert", "bert-2", "bertha"]


async def test_an_ambiguous_prefix_lists_the_candidates(world: World) -> None:
    world.kubernetes.put("runs", run("bert-1"))
    world.kubernetes.put("runs", run("bert-2"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert-1")).json()["name"] == "bert-1"
    response = await world.http.get("/v1/runs/team/bert")
    assert response.status_code == 422
    (fault,) = response.json()["faults"]
    assert fault["code"] == "Ambiguous"
    assert "bert-1, bert-2" in fault["message"]


async def test_an_unknown_run_is_not_found(world: World) -> None:
    response = await world.http.get("/v1/runs/team/ghost")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "NotFound"


async def test_a_run_is_found_before_the_mirror_shows_it(world: World) -> None:
    """A user who has just created a run sees it."""
    world.kubernetes.hold_watches = True
    world.kubernetes.put("runs", run("bert"))
    assert ("team", "bert") not in world.mirror.runs
    assert (await world.http.get("/v1/runs/team/bert")).json()["name"] == "bert"


async def test_only_runs_of_readable_namespaces_are_listed(world: World) -> None:
    world.kubernetes.put("runs", run("a"))
    world.kubernetes.put("runs", run("b", namespace="secret"))
    await world.caught_up()
    world.kubernetes.denied |= {
        ("ada", "list", "runs", ""),
        ("ada", "list", "runs", "secret"),
        ("ada", "get", "runs", "secret"),
    }
    assert await names_of(world) == ["a"]
    response = await world.http.get("/v1/runs/secret/b")
    assert response.status_code == 403
    assert "kubectl auth can-i get runs.kajitori.dev -n secret" in response.json()["hint"]
    assert (await world.http.get("/v1/runs", params={"namespace": "secret"})).status_code == 403


async def test_a_watch_shows_every_restart_however_short(world: World, served: httpx2.AsyncClient) -> None:
    """A watch shows changes five times a second, but a program that fails at once restarts more often, and a run that a
    user restarts is Stopped for a moment: its exit code is in no later state."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["status"]["phase"] == "Running"
        for count in (1, 2, 3):
            status = {"phase": "Restarting", "reason": "ProgramFailed", "message": f"exit {count}", "restarts": count}
            world.kubernetes.change("runs", "bert", status=status)
            await world.caught_up()
            world.kubernetes.change("runs", "bert", status={"phase": "Running", "message": "", "restarts": count})
            await world.caught_up()
        world.kubernetes.change("runs", "bert", spec={"resumes": 1}, status={"phase": "Stopped", "exitCode": 5})
        world.kubernetes.change("runs", "bert", status={"phase": "Queued", "exitCode": None, "resumes": 1})
        await world.caught_up()
        world.kubernetes.change("runs", "bert", status={"phase": "Failed", "restarts": 3})
        statuses = [json.loads(line)["status"] async for line in lines if line.strip()]
    assert [status["message"] for status in statuses if status["phase"] == "Restarting"] == [
        "exit 1",
        "exit 2",
        "exit 3",
    ]
    assert [status["exitCode"] for status in statuses if status["phase"] == "Stopped"] == [5]
    assert statuses[-1]["phase"] == "Failed"


async def test_members_are_listed_by_rank_with_their_newest_attempt(world: World) -> None:
    """They come in pages. A Pod of an earlier attempt, or beyond the run's members, is not shown."""
    status = attempts(2, ranks=3, phase="Running")
    made = world.kubernetes.put("runs", run("bert", replicas=3) | {"status": status})
    for rank in (0, 1, 2, 7):
        world.kubernetes.put("pods", pod(made, attempt=2, rank=rank))
    world.kubernetes.put("pods", pod(made, attempt=1, rank=0, phase="Failed"))
    await world.caught_up()
    page = (await world.http.get("/v1/runs/team/bert/members", params={"limit": 2})).json()
    assert [(item["rank"], item["attempt"], item["pod"]) for item in page["items"]] == [
        (0, 2, "bert-2-0"),
        (1, 2, "bert-2-1"),
    ]
    assert page["items"][0]["phase"] == "Running"
    assert page["items"][0]["address"] == "10.0.0.1"
    rest = (await world.http.get("/v1/runs/team/bert/members", params={"continue": page["continue"]})).json()
    assert [item["rank"] for item in rest["items"]] == [2]
    assert "continue" not in rest


async def test_nodes_of_members_from_earlier_attempts_are_shown(world: World) -> None:
    """After a drain the attempt of a service covers only the replaced member; the others stay on their nodes. The same
    is true of sweeps. A gang's attempt names the nodes of all members."""
    replaced = attempts(2, ranks=3, phase="Running")
    replaced["attempt"] |= {"nodes": "n7", "ranks": "1", "worldSize": 3}
    service = world.kubernetes.put("runs", run("web", type="service", replicas=3) | {"status": replaced})
    swept = attempts(2, phase="Running", sweep={"succeeded": "0"})
    swept["attempt"] |= {"nodes": "n10", "ranks": "2", "worldSize": 1}
    sweep = world.kubernetes.put("runs", run("grid", array="0-3") | {"status": swept})
    gang = attempts(2, ranks=3, phase="Running")
    world.kubernetes.put("runs", run("gang", replicas=3) | {"status": gang})
    for attempt, rank, node in ((1, 0, "n5"), (1, 1, "n1"), (2, 1, "n7"), (1, 2, "n5")):
        world.kubernetes.put("pods", pod(service, attempt=attempt, rank=rank, node=node))
    world.kubernetes.put("pods", pod(sweep, rank=0, node="n1", phase="Succeeded"))
    for attempt, rank, node in ((1, 1, "n9"), (2, 2, "n10"), (1, 3, "n9")):
        world.kubernetes.put("pods", pod(sweep, attempt=attempt, rank=rank, node=node))
    await world.caught_up()
    listed = (await world.http.get("/v1/runs")).json()["items"]
    nodes = {run["name"]: run["nodes"] for run in listed}
    assert nodes == {"web": "n[5,7,5]", "grid": "n[9-10]", "gang": "n1*3"}
    world.kubernetes.put("pods", pod(service, attempt=1, rank=0, node="n6"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/web")).json()["nodes"] == "n[6-7,5]", "though the Run is unchanged"


async def read_lines(http: httpx2.AsyncClient, path: str, **params: Any) -> list[str]:
    async with http.stream("GET", path, params=params) as response:
        assert response.status_code == 200
        return [line async for line in response.aiter_lines()]


async def test_a_watch_shows_each_phase_at_once_and_ends_with_the_run(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only changes within a phase are shown after a pause: `kaji run` of a short program waited for three of them."""
    monkeypatch.setattr(routes, "WATCH_INTERVAL_SECONDS", 3600.0)
    world.kubernetes.put("runs", run("bert", phase="Queued"))
    await world.caught_up()
    phases = []
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        async for line in response.aiter_lines():
            phases.append(json.loads(line)["status"]["phase"])
            if phases[-1] == "Queued":
                world.kubernetes.change("runs", "bert", status={"phase": "Running"})
            elif phases[-1] == "Running":
                world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
    assert phases == ["Queued", "Running", "Succeeded"]


async def test_a_watch_ends_when_the_run_is_deleted(world: World, served: httpx2.AsyncClient) -> None:
    """It also ends if another run takes the name at once."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["name"] == "bert"
        world.kubernetes.remove("runs", "bert")
        world.kubernetes.put("runs", run("bert"))
        assert [line async for line in lines] == []


async def test_a_run_can_be_watched_before_the_mirror_shows_it(world: World, served: httpx2.AsyncClient) -> None:
    world.kubernetes.hold_watches = True
    world.kubernetes.put("runs", run("bert"))
    async with served.stream("GET", "/v1/runs/team/bert/watch") as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["status"]["phase"] == "Queued"
        world.kubernetes.change("runs", "bert", status={"phase": "Failed"})
        world.kubernetes.release_watches()
        phases = [json.loads(line)["status"]["phase"] async for line in lines]
    assert phases[-1] == "Failed"


async def test_run_names_for_completion(world: World) -> None:
    """The caller's own runs are offered, or everyone's if the caller has none that fit; common prefixes if there are
    too many."""

    async def offered(**params: Any) -> tuple[list[str], list[str]]:
        found = (await world.http.get("/v1/run-names", params=params)).json()
        return found["names"], found["beginnings"]

    ended = {"status": attempts(1, phase="Succeeded", members={"total": 1})}
    sweep = {"status": attempts(1, phase="Running", members={"total": 9}) | {"sweep": {}}}
    for name, owner, status in (
        ("bert", "ada", ended),
        ("bert-2", "ada", {}),
        ("grid", "ada", sweep),
        ("bertha", "eve", {}),
        ("theirs", "eve", {}),
    ):
        document = run(name) | status
        document["metadata"]["annotations"] = {"kajitori.dev/owner": owner}
        world.kubernetes.put("runs", document)
    await world.caught_up()
    assert await offered() == (["bert", "bert-2", "grid"], [])
    assert await offered(beginning="bert") == (["bert", "bert-2"], [])
    assert await offered(beginning="th") == (["theirs"], [])
    assert await offered(phase="Succeeded") == (["bert"], [])
    assert await offered(started="true") == (["bert", "grid"], [])
    assert await offered(sweep="true") == (["grid"], [])
    assert await offered(beginning="x") == ([], [])
    for number in range(200):
        document = run(f"many-{number}")
        document["metadata"]["annotations"] = {"kajitori.dev/owner": "ada"}
        world.kubernetes.put("runs", document)
    await world.caught_up()
    names, beginnings = await offered(beginning="many")
    assert len(names) + len(beginnings) <= 60
    assert "many-1" in names and "many-10" in beginnings
