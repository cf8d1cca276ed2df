"""Totals of traffic over the Web API: reports of agents, and answers to users."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import msgspec
import pytest
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import run

from kajitori.blobs.traffic import TrafficKeeper
from kajitori.core.traffic.report import Report
from kajitori.core.traffic.totals import Count, RunAccount, Totals

AGENT = "pod.kajitori-agent.kajitori.g1.agent-x.u1"


def report(uid: str = "r1", size: int = 1000, **more: Any) -> Report:
    """Return a report on a run: `size` bytes to the internet, and a tenth of that from storage."""
    totals = {"internet.out": Count(size, 10), "storage.in": Count(size // 10, 1)}
    account = RunAccount("team", "bert", uid, "ada", totals, NOW.timestamp(), 5.0)
    sums: dict[str, Any] = {"runs": (account,), "namespaces": {"team": totals}, "users": {"ada": totals}}
    return Report(life="0" * 16, read_at=NOW.timestamp(), **sums | more)


async def send_report(world: World, sent: Report, *, node: str = "g1", token: str = "admin") -> httpx2.Response:
    return await world.http.post(
        f"/v1/nodes/{node}/traffic",
        content=msgspec.json.encode(sent),
        headers={"Authorization": f"Bearer {token}"},
    )


async def agent_pod(world: World, node: str = "g1", uid: str = "u1") -> None:
    world.kubernetes.put(
        "pods",
        {"metadata": {"name": "agent-x", "namespace": "kajitori-agents", "uid": uid}, "spec": {"nodeName": node}},
    )
    await world.caught_up()


@pytest.mark.parametrize(
    ("token", "node", "status"),
    [
        (AGENT, "g1", 204),
        (AGENT, "g2", 403),
        ("pod.kajitori-agent.kajitori.g2.agent-x.u1", "g2", 403),  # its Pod is on another node
        ("pod.kajitori-agent.kajitori.g1.agent-x.u0", "g1", 403),  # its Pod is gone, and another Pod has its name
        ("pod.kajitori-agent.kajitori..agent-x.u1", "g1", 403),  # a Kubernetes version that does not report the node
        ("pod.default.kajitori.g1.agent-x.u1", "g1", 403),  # another Pod on that node
        ("pod.kajitori-agent.api.g1.agent-x.u1", "g1", 403),  # a token for another audience
        ("kubelet", "g1", 204),
        ("mallory", "g1", 403),
        ("expired", "g1", 401),
        ("", "g1", 401),
    ],
)
async def test_an_agent_reports_only_its_own_node(world: World, token: str, node: str, status: int) -> None:
    """Otherwise only callers who may write that Node's status can report it."""
    await agent_pod(world)
    users = ("mallory", *(name for name in (token,) if name.startswith("pod.")))
    world.kubernetes.denied |= {(user, "patch", "nodes/status", "*") for user in users}
    answer = await send_report(world, report(), node=node, token=token)
    assert answer.status_code == status, answer.text
    assert bool((await world.http.get("/v1/traffic")).json()["items"]) == (status == 204)


async def test_a_token_is_reviewed_once(world: World) -> None:
    await agent_pod(world)
    for _ in range(5):
        assert (await send_report(world, report(), token=AGENT)).status_code == 204
    asked = [path for _, path, _ in world.kubernetes.requests if path.endswith("/tokenreviews")]
    assert len(asked) == 1


async def test_an_invalid_report_and_an_unknown_node_are_refused(world: World) -> None:
    answer = await world.http.post("/v1/nodes/g1/traffic", content=b"{}")
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "body")
    answer = await send_report(world, report(), node="nowhere")
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "node")


async def test_runs_are_listed_by_traffic_over_all_nodes(world: World) -> None:
    """A repeated report counts once. The order is by traffic with the internet, or with another class on request."""
    await send_report(world, report())
    await send_report(world, report())
    await send_report(world, report(size=500), node="g2")
    storage: Totals = {"storage.in": Count(10**6, 10)}
    account = RunAccount("other", "loader", "r2", "bob", storage, NOW.timestamp(), 5.0)
    await send_report(world, report(runs=(account,), users={}, namespaces={"other": storage}), node="n1")
    view = (await world.http.get("/v1/traffic")).json()
    assert [(item["namespace"], item["name"], item["user"]) for item in view["items"]] == [
        ("team", "bert", "ada"),
        ("other", "loader", "bob"),
    ]
    none = {"bytes": 0, "packets": 0, "bytesPerSecond": 0}
    assert view["items"][0]["classes"] == [
        {"name": "internet", "received": none, "sent": {"bytes": 1500, "packets": 20, "bytesPerSecond": 0}},
        {"name": "storage", "received": {"bytes": 150, "packets": 2, "bytesPerSecond": 0}, "sent": none},
    ]
    assert (view["total"], view["orderClass"], view["kept"], view["at"]) == (
        2,
        "internet",
        True,
        "2026-11-21T12:00:00Z",
    )
    assert view["nodes"] == {"counted": 3, "silent": "", "silentCount": 0, "uncountedPods": 0}
    by_storage = (await world.http.get("/v1/traffic", params={"class": "storage"})).json()
    assert [item["name"] for item in by_storage["items"]] == ["loader", "bert"]
    for query, names in (
        ({"by": "user"}, ["ada"]),
        ({"by": "namespace"}, ["team", "other"]),
        ({"by": "node"}, ["g1", "g2", "n1"]),
        ({"namespace": "other"}, ["loader"]),
        ({"namespace": "team", "limit": "5"}, ["bert"]),
        ({"limit": "1"}, ["bert"]),
    ):
        found = (await world.http.get("/v1/traffic", params=query)).json()
        assert [item["name"] for item in found["items"]] == names


async def test_traffic_of_runs_needs_the_right_to_list_them(world: World) -> None:
    """This holds for deleted runs, too; sums of namespaces, users and nodes are open to all. No answer holds the UID of
    a run."""
    account = RunAccount("other", "loader", "secret-uid", "bob", {"internet.out": Count(7, 1)}, NOW.timestamp(), 5.0)
    sent = report(runs=(*report().runs, account), namespaces={"other": account.totals}, users={"bob": account.totals})
    await send_report(world, sent)
    world.kubernetes.denied |= {("eve", "list", "runs", namespace) for namespace in ("", "other")}
    eve = {"Authorization": "Bearer eve"}

    async def shown(headers: dict[str, str], **query: str) -> tuple[list[str], int]:
        answer = await world.http.get("/v1/traffic", params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "secret-uid" not in answer.text
        return [item["name"] for item in answer.json()["items"]], answer.json().get("hidden", 0)

    assert await shown({}) == (["bert", "loader"], 0)
    assert await shown(eve) == (["bert"], 1)
    assert await shown(eve, namespace="team") == (["bert"], 0)
    refused = await world.http.get("/v1/traffic", params={"namespace": "other"}, headers=eve)
    assert (refused.status_code, refused.json()["code"]) == (403, "Forbidden")
    assert await shown(eve, by="namespace") == (["other"], 0)
    assert await shown(eve, by="user") == (["bob"], 0)
    for group in ("user", "namespace", "node"):
        answer = await world.http.get("/v1/traffic", params={"by": group, "namespace": "team"})
        assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "namespace")


async def test_an_invalid_row_of_a_report_is_left_out(world: World) -> None:
    """The owner of one run has 1,025 characters."""
    forged = RunAccount("team", "evil", "r9", "x" * 1025, {"internet.out": Count(9, 1)}, NOW.timestamp(), 5.0)
    answer = await send_report(world, report(runs=(forged, *report().runs), users={"x" * 1025: forged.totals}))
    assert answer.status_code == 204
    assert [item["name"] for item in (await world.http.get("/v1/traffic")).json()["items"]] == ["bert"]


async def test_an_unknown_class_is_refused(world: World) -> None:
    """A class that policy no longer names is known if traffic was counted for it."""
    await send_report(world, report())
    answer = await world.http.get("/v1/traffic", params={"class": "internt"})
    assert (answer.status_code, answer.json()["faults"][0]["hint"]) == (422, "did you mean internet?")
    assert (await world.http.get("/v1/traffic", params={"class": "storage"})).status_code == 200


async def test_the_traffic_of_a_run_is_listed_by_node(world: World) -> None:
    made = world.kubernetes.put("runs", run("bert"))
    world.kubernetes.put("runs", run("silent"))
    await world.caught_up()
    await send_report(world, report(made["metadata"]["uid"]))
    await send_report(world, report(made["metadata"]["uid"], 3000), node="g2")
    view = (await world.http.get("/v1/runs/team/bert/traffic")).json()
    assert view["run"]["classes"][0]["sent"]["bytes"] == 4000
    assert [(item["name"], item["classes"][0]["sent"]["bytes"]) for item in view["items"]] == [
        ("g2", 3000),
        ("g1", 1000),
    ]
    silent = (await world.http.get("/v1/runs/team/silent/traffic")).json()
    assert (silent["run"]["name"], silent["run"]["classes"], silent["items"]) == ("silent", [], [])
    world.kubernetes.denied.add(("eve", "get", "runs", "*"))
    answer = await world.http.get("/v1/runs/team/bert/traffic", headers={"Authorization": "Bearer eve"})
    assert answer.status_code == 403


async def test_nodes_without_recent_reports_are_named(world: World) -> None:
    """They never reported, or not for a while; their earlier reports still count."""
    await send_report(world, report(uncounted_pods=3))
    nodes = (await world.http.get("/v1/traffic")).json()["nodes"]
    assert nodes == {"counted": 1, "silent": "g2,n1", "silentCount": 2, "uncountedPods": 3}
    world.change(now=lambda: NOW + timedelta(minutes=6))
    view = (await world.http.get("/v1/traffic")).json()
    assert view["nodes"] == {"counted": 0, "silent": "g[1-2],n1", "silentCount": 3, "uncountedPods": 0}
    assert view["items"][0]["classes"][0]["sent"]["bytes"] == 1000


async def test_servers_share_reports_through_the_blob_store(world: World) -> None:
    """A server without a store says that it keeps nothing."""
    await send_report(world, report())
    here = TrafficKeeper(world.blobs, world.api.now)
    world.change("traffic", keeper=here)
    assert here.traffic.runs == {}
    await send_report(world, report())
    await here.sync()
    world.change("traffic", keeper=TrafficKeeper(world.blobs, world.api.now))
    await world.api.traffic.keeper.sync()
    view = (await world.http.get("/v1/traffic")).json()
    assert (view["items"][0]["classes"][0]["sent"]["bytes"], view["kept"]) == (1000, True)
    world.change("traffic", keeper=TrafficKeeper(None, world.api.now))
    await world.api.traffic.keeper.sync()
    assert (await world.http.get("/v1/traffic")).json()["kept"] is False
