"""The processes of a member over the Web API: listed, and sent signals. The member's commands run on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run

from kajitori.api.runs.members import commands, processes
from kajitori.core.telemetry.processes import Process, read_processes


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as program:
        yield program
        program.kill()


@pytest.fixture
def trapping() -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with 7 when it gets USR1."""
    command = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        yield program
        program.kill()


async def put_member(world: World, replicas: int = 1) -> None:
    world.kubernetes.runs_programs = True
    made = world.kubernetes.put("runs", run("bert", replicas=replicas) | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    await world.caught_up()


async def send(world: World, pid: int, signal: str = "TERM", token: str = "ada") -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return await world.http.post("/v1/runs/team/bert/signal", json={"pid": pid, "signal": signal}, headers=headers)


async def test_a_process_is_listed_and_gets_a_signal(world: World, sleeping: subprocess.Popen[bytes]) -> None:
    await put_member(world)
    answer = await world.http.get("/v1/runs/team/bert/processes")
    assert answer.status_code == 200, answer.text
    listed = {each["pid"]: each for each in answer.json()["items"]}
    assert listed[sleeping.pid]["command"] == "sleep 1000"
    sent = await send(world, sleeping.pid)
    assert (sent.status_code, sent.json()) == (200, {"rank": 0, "pid": sleeping.pid, "signal": "TERM"})
    assert sleeping.wait(10) == -15


@pytest.mark.usefixtures("sleeping")
async def test_a_process_that_is_not_the_members_gets_no_signal(world: World) -> None:
    """A member without PIDs of its own could reach process 1 of its machine."""
    await put_member(world)
    refused = await send(world, 1, "CONT")
    assert (refused.status_code, "rank 0 of bert has no process 1 now" in refused.text) == (409, True)
    assert (await send(world, 1, "SEGV")).status_code == 422


async def test_the_program_of_a_member_gets_a_signal(
    world: World, trapping: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is gone is named in the answer; the others get it. A rank that the run never has is refused."""

    def of_member(output: str) -> list[Process]:
        """Leave out the servers of other tests, which are older processes of this one."""
        return [process for process in read_processes(output) if process.pid == trapping.pid]

    monkeypatch.setattr(processes, "read_processes", of_member)
    await put_member(world, replicas=8)
    path, body = "/v1/runs/team/bert/signal-programs", {"signal": "USR1", "ranks": "0,7"}
    sent = await world.http.post(path, json=body)
    assert sent.status_code == 200, sent.text
    assert trapping.wait(10) == 7
    first, gone = sent.json()["items"]
    assert (first["rank"], first["pid"], gone["rank"]) == (0, trapping.pid, 7)
    assert "no member of rank 7" in gone["error"]
    wrong = await world.http.post(path, json={"signal": "USR1", "ranks": "x"})
    assert (wrong.status_code, wrong.json()["faults"][0]["field"]) == (422, "ranks")
    never = await world.http.post(path, json={"signal": "USR1", "ranks": "0,8-9"})
    (fault,) = never.json()["faults"]
    assert (never.status_code, fault["field"], fault["value"]) == (422, "ranks", "8-9")
    assert (fault["message"], fault["hint"]) == ("bert has 8 members", "ranks are 0 to 7")
    other = await world.http.post(path, json={"signal": "USR1"}, headers={"If-Match": '"another"'})
    assert other.status_code == 404
    world.kubernetes.put("runs", run("waits", phase="Queued"))
    await world.caught_up()
    waits = await world.http.post("/v1/runs/team/waits/signal-programs", json={"signal": "USR1"})
    assert (waits.status_code, "none of its members is running" in waits.text) == (409, True)


async def test_it_takes_the_right_to_run_programs(world: World) -> None:
    await put_member(world)
    world.kubernetes.denied.add(("reader", "create", "pods/exec", "team"))
    assert (await send(world, 1, token="reader")).status_code == 403
    programs = "/v1/runs/team/bert/signal-programs"
    headers = {"Authorization": "Bearer reader"}
    assert (await world.http.post(programs, json={"signal": "HUP"}, headers=headers)).status_code == 403
    headers = {"Authorization": "Bearer reader"}
    assert (await world.http.get("/v1/runs/team/bert/processes", headers=headers)).status_code == 403


async def test_an_image_without_a_shell_and_a_paused_member_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a paused member, a program stands that echoes and does not end."""
    await put_member(world)
    monkeypatch.setattr(processes, "LOOK", "exit 126")
    answer = await world.http.get("/v1/runs/team/bert/processes")
    assert (answer.status_code, answer.json()["hint"]) == (503, "this needs /bin/sh and head in the image")
    world.kubernetes.runs_programs = False
    monkeypatch.setattr(commands, "ANSWER_SECONDS", 0.05)
    answer = await world.http.get("/v1/runs/team/bert/processes")
    assert (answer.status_code, answer.json()["hint"]) == (503, "its processes may be paused or hang")
