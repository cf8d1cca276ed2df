"""Figures of nodes over the Web API: reports of agents, and what users with different rights see."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.telemetry.test_routes import MINUTE, described, gang, minute

from kajitori.api.streams.node_figures import NodeWriter
from kajitori.api.streams.telemetry_keeper import TelemetryKeeper
from kajitori.core.telemetry.report import MEDIA_TYPE, MemberMinute, NodeMinute, Report, encode
from kajitori.errors import Unavailable
from kajitori.history.node_figures import NodeRow
from kajitori.history.store import History

PATH = "/v1/nodes/{name}/metrics"
TOLD = "/v1/nodes/g1/metrics"


def of_node(number: int, cores: float, *used: float, **holders: int) -> NodeMinute:
    values = array("f", [cores, 2.0**30]).tobytes()
    names = ("cpu.used", "memory.used"), ("gpu.used",)
    return NodeMinute(number, *names, len(used), values, array("f", used).tobytes(), holders)


async def report(world: World, *minutes: NodeMinute, members: tuple[MemberMinute, ...] = ()) -> None:
    headers = {"Authorization": "Bearer kubelet", "Content-Type": MEDIA_TYPE}
    content = encode(Report(minutes=members, node=minutes))
    answer = await world.http.post("/v1/nodes/g1/telemetry", content=content, headers=headers)
    assert answer.status_code == 204, answer.text


async def told(world: World, token: str = "", **query: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return described(PATH, await world.http.get(TOLD, params=query, headers=headers))


async def test_a_minute_is_written_once_and_read_by_any_server(world: World) -> None:
    """Agents report it twice, perhaps to two servers. A server that starts later gives the same answer."""
    first = world.api.telemetry
    await report(world, of_node(MINUTE - 1, 1.0, 10.0, 90.0), of_node(MINUTE, 2.0, 20.0, 80.0))
    await report(world, of_node(MINUTE, 2.0, 20.0, 80.0), of_node(MINUTE + 1, 4.0, 30.0, 70.0))
    await first.look()
    world.change(telemetry=TelemetryKeeper(None, world.api.stores.history, world.api.now))
    await report(world, of_node(MINUTE, 2.0, 20.0, 80.0))
    await world.api.telemetry.look()
    shown = await told(world)
    assert (shown["gpus"], shown["intervalSeconds"], len(shown["at"]), shown["lastAt"]) == (2, 60, 3, "")
    values = {(each["name"], each.get("gpu")): each["values"] for each in shown["series"]}
    assert values == {
        ("cpu.used", None): [1.0, 2.0, 4.0],
        ("memory.used", None): [2.0**30] * 3,
        ("gpu.used", 0): [10.0, 20.0, 30.0],
        ("gpu.used", 1): [90.0, 80.0, 70.0],
    }
    (one,) = (await told(world, name="gpu.", gpu=1, points=2))["series"]
    assert (one["gpu"], one["values"]) == (1, [90.0, 75.0])
    wrong = (await world.http.get(TOLD, params={"name": "gpu.use"})).json()
    assert (wrong["status"], wrong["code"]) == (422, "Invalid") and "gpu.used" in str(wrong)


async def test_runs_that_held_the_node_have_names_for_those_who_may_read_them(world: World) -> None:
    """The figures themselves are everybody's. Members that are not on the node are nobody's word."""
    (member,) = await gang(world, ranks=1)
    await world.caught_up()
    uid = member["metadata"]["uid"]
    for number in (MINUTE - 3, MINUTE - 2, MINUTE):
        members = (minute(member, number),)
        await report(world, of_node(number, 1.0, 5.0, 6.0, 7.0, **{uid: 0b110, "other": 1}), members=members)
    await report(world, of_node(MINUTE - 1, 1.0, 5.0, 6.0, 7.0))  # late: a newer one was taken
    await world.api.telemetry.look()
    held = (await told(world))["holders"]
    assert [(each["namespace"], each["run"], each["gpus"]) for each in held] == [("team", "bert", [1, 2])] * 2
    assert [each["since"] for each in held] == (await told(world))["at"][::2]
    world.kubernetes.denied |= {("bob", "list", "runs", where) for where in ("", "*")}
    hidden = await told(world, "bob")
    assert [(each["namespace"], each["run"]) for each in hidden["holders"]] == [("", "")] * 2
    assert "bert" not in str(hidden) and len(hidden["series"]) == 5


async def test_an_empty_answer_tells_whether_an_agent_reports(world: World) -> None:
    empty = await told(world)
    assert (empty["at"], empty["series"], empty["lastAt"]) == ([], [], "")
    await report(world, of_node(MINUTE, 1.0))
    await world.api.telemetry.look()
    assert (await told(world, until="30m"))["lastAt"] == (await told(world))["at"][0]
    assert (await world.http.get("/v1/nodes/g9/metrics")).status_code == 404
    await report(world, of_node(MINUTE - 60, 1.0), of_node(MINUTE + 60, 1.0))  # too old, and in the future
    await world.api.telemetry.look()
    assert len((await told(world, since="3h"))["at"]) == 1


async def test_figures_wait_while_the_database_is_away() -> None:
    """Nothing is lost, and nothing is kept without a history."""
    written: list[NodeRow] = []
    failures = [Unavailable("away")]

    async def record(rows: Iterable[NodeRow]) -> None:
        if failures:
            raise failures.pop()
        written.extend(rows)

    history, writer = cast(History, SimpleNamespace(record_node_figures=record)), NodeWriter()
    writer.take("g1", of_node(MINUTE, 3.0), {})
    with pytest.raises(Unavailable):
        await writer.write(history)
    writer.take("g1", of_node(MINUTE + 1, 3.0), {})
    await writer.write(history)
    assert [(row.node, row.minute) for row in written] == [("g1", MINUTE), ("g1", MINUTE + 1)]
    writer.take("g1", of_node(MINUTE + 2, 3.0), {})
    await writer.write(None)
    await writer.write(history)
    assert len(written) == 2
    writer.forget(MINUTE + 3)
    writer.take("g1", of_node(MINUTE, 3.0), {})
    await writer.write(history)
    assert len(written) == 3
