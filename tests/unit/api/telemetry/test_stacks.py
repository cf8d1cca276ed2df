"""Stacks of a run over the Web API, asked from the nodes of its ranks."""

from __future__ import annotations

import asyncio

import msgspec
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import pod, run
from tests.unit.api.history.test_history_routes import recorded
from tests.unit.api.telemetry.test_routes import RUN, answer_one, described, gang

from kajitori.blobs.logs import KeptLogs
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.hangs.evidence import Evidence, Occasion
from kajitori.core.telemetry.hangs.flight import Flight, GroupState
from kajitori.core.telemetry.hangs.stacks import Detail, Frame, MemberStacks, ProcessStacks, ThreadStack
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.report import Answer
from kajitori.history.store import History


def told(uid: str, function: str) -> MemberStacks:
    thread = ThreadStack("MainThread", (Frame(function, "/code/data.py", 14),))
    return MemberStacks(uid, NOW.timestamp(), (ProcessStacks(7, "python train.py", "S", (thread,)),))


def with_native(member: MemberStacks) -> MemberStacks:
    calls = (Frame("recv", "[libc.so.6]", 0), Frame("ncclSend", "[libnccl.so.2]", 0))
    (process,) = member.processes
    native = (ThreadStack("MainThread", (*calls, *process.threads[0].frames)),)
    return msgspec.structs.replace(member, processes=(msgspec.structs.replace(process, native=native),))


async def test_native_calls_of_a_chosen_rank_are_shown_beside_its_stack(world: World) -> None:
    (pod,) = await gang(world, ranks=1)
    plain = told(pod["metadata"]["uid"], "send")

    async def agent() -> list[str]:
        return [(await answer_one(world, Answer(stacks=(each,)))).detail for each in (plain, with_native(plain))]

    answering = asyncio.create_task(agent())
    asked = await world.http.get(f"{RUN}/stacks", params={"rank": 0, "native": True})
    shown = described("/v1/runs/{namespace}/{name}/stacks", asked)
    assert await answering == [Detail.PLAIN, Detail.NATIVE]
    (process,) = shown["ranks"][0]["processes"]
    assert [len(process[name][0]["frames"]) for name in ("threads", "native")] == [1, 3]


async def test_the_odd_rank_is_named_with_its_node(world: World) -> None:
    pods = await gang(world, ranks=3)
    places = ("barrier", "barrier", "load_batch")
    found = tuple(told(pod["metadata"]["uid"], place) for pod, place in zip(pods, places, strict=True))
    agent = asyncio.create_task(answer_one(world, Answer(stacks=found)))
    shown = described("/v1/runs/{namespace}/{name}/stacks", await world.http.get(f"{RUN}/stacks"))
    question = await agent
    assert (question.stacks, sorted(question.uids)) == (True, sorted(pod["metadata"]["uid"] for pod in pods))
    assert [(each["odd"], each["words"]) for each in shown["groups"]] == [
        (True, "rank 2 on g1 is in load_batch (data.py:14)"),
        (False, "2 ranks (0-1) are in barrier (data.py:14)"),
    ]
    assert [each["nodes"] for each in shown["groups"]] == ["g1", "g1"]
    assert shown["ranks"][2]["processes"][0]["threads"][0]["frames"][0]["function"] == "load_batch"


async def test_stacks_need_the_right_to_run_programs_in_members(world: World) -> None:
    await gang(world, ranks=1)
    world.kubernetes.denied.add(("mallory", "create", "pods/exec", "*"))
    answer = await world.http.get(f"{RUN}/stacks", headers={"Authorization": "Bearer mallory"})
    assert answer.status_code == 403 and "pods/exec" in answer.json()["detail"], answer.text


async def test_an_agent_that_knows_no_stacks_is_named(world: World) -> None:
    await gang(world, ranks=1)
    agent = asyncio.create_task(answer_one(world, Answer()))
    shown = (await world.http.get(f"{RUN}/stacks")).json()
    await agent
    assert (shown["groups"], shown["silent"]) == ([], [0])
    assert "node g1" in shown["trouble"]


async def test_a_rank_that_does_not_run_is_refused(world: World) -> None:
    await gang(world, ranks=1)
    answer = await world.http.get(f"{RUN}/stacks", params={"rank": 5})
    assert answer.status_code == 404 and "rank 5" in answer.json()["detail"], answer.text


async def test_why_names_the_rank_of_a_run_that_stands_still(world: World) -> None:
    """Suspected by its rhythm, and stuck because no process moved between two looks."""
    pods = await gang(world, ranks=2)
    run_uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    first = int(NOW.timestamp()) // 60 * 60 - 40 * 60

    def interval(number: int) -> Interval:
        age = 5.0 if number < 20 else 60.0 * (number - 19)
        output = Band(2, age, age, age, age, age, Place(0), Place(0))
        return Interval(run_uid, 1, 60, first + 60 * number, 2, {"output.age": output})

    assert world.api.stores.history is not None
    await world.api.stores.history.record_telemetry([interval(number) for number in range(40)])
    stacks = [told(pod["metadata"]["uid"], f"f{rank}") for rank, pod in enumerate(pods)]
    for rank, entered in enumerate((8, 7)):
        flight = Flight(rank, NOW.timestamp(), (GroupState("0", "default_pg", entered, "all_reduce", entered == 7),))
        stacks[rank] = msgspec.structs.replace(stacks[rank], flights=(flight,))
    answer = Answer(stacks=tuple(stacks))

    async def agent() -> None:
        for _ in range(2):
            await answer_one(world, answer)
        question = await answer_one(world, Answer(stacks=(with_native(stacks[1]),)))
        assert question.detail == Detail.NATIVE

    answering = asyncio.create_task(agent())
    shown = described("/v1/runs/{namespace}/{name}/why", await world.http.get(f"{RUN}/why"))
    await answering
    assert shown["verdict"] == "suspected", "it may have gone on since the newest minute"
    assert shown["words"][0].startswith("It may be stuck: no rank has shown progress for 20m")
    assert shown["words"][1].startswith("None of its processes moved between two looks")
    stuck = {"since": "2026-01-01T00:00:00Z", "verdict": "stuck", "attempt": 1}
    world.kubernetes.change("runs", "bert", status={"stuck": stuck})
    await world.caught_up()
    answering = asyncio.create_task(agent())
    shown = described("/v1/runs/{namespace}/{name}/why", await world.http.get(f"{RUN}/why"))
    await answering
    assert shown["verdict"] == "stuck"
    assert shown["words"][0].startswith("It is stuck: no rank has shown progress for 20m, and neither")
    assert shown["words"][1] == "Rank 0 on g1 is in f0 (data.py:14)."
    assert shown["words"][3] == "Rank 1 on g1, below its program: recv [libc.so.6], called by ncclSend [libnccl.so.2]."
    late = "rank 1 on g1 has not entered all_reduce #8 of default_pg; rank 0 waits there."
    assert (shown["words"][-1], shown["late"]) == (f"PyTorch's flight recorder: {late}", [1])


async def test_why_names_the_rank_that_slows_the_gang(world: World) -> None:
    pods = await gang(world, ranks=4)
    run_uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    first = int(NOW.timestamp()) // 60 * 60 - 20 * 60
    bands = {"cpu.used": Band(4, 0.5, 0.5, 0.5, 0.8, 0.95, Place(0), Place(2))}
    assert world.api.stores.history is not None
    await world.api.stores.history.record_telemetry(
        [Interval(run_uid, 1, 60, first + 60 * number, 4, bands) for number in range(20)]
    )
    shown = (await world.http.get(f"{RUN}/why", params={"look": False})).json()
    assert shown["verdict"] == "unknown"
    assert shown["words"][1].startswith("Rank 2 on g1 has been slower than its peers since ")
    assert shown["words"][1].endswith(
        "(cpu.used 0.95 cores, median of 4 ranks 0.50 cores, in 15 of the last 15 minutes)."
    )


async def test_why_says_that_a_service_is_not_judged(world: World) -> None:
    """Not that it may be a service: the server knows it."""
    made = run("bert", type="service", ports=[{"port": 80}])
    made = world.kubernetes.put("runs", made | {"status": {"phase": "Running", "attempts": 1}})
    world.kubernetes.put("pods", pod(made, node="g1"))
    await world.caught_up()
    shown = (await world.http.get(f"{RUN}/why", params={"look": False})).json()
    assert shown["words"] == ["Its progress is not judged: it is a service."]


async def test_why_shows_no_code_without_the_right_to_it(world: World) -> None:
    await gang(world, ranks=1)
    world.kubernetes.denied.add(("mallory", "create", "pods/exec", "*"))
    shown = (await world.http.get(f"{RUN}/why", headers={"Authorization": "Bearer mallory"})).json()
    assert (shown["verdict"], shown.get("groups", [])) == ("unknown", [])
    assert "pods/exec" in shown["words"][1]


async def test_why_shows_what_was_kept_of_an_attempt(world: World) -> None:
    pods = await gang(world, ranks=1)
    run_uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    missing = await world.http.get(f"{RUN}/why", params={"attempt": 1})
    assert missing.status_code == 404, missing.text
    logs = KeptLogs(world.blobs)
    world.change("stores", logs=logs)
    kept = Evidence(Occasion.END, NOW.timestamp(), "member 1: exit code 3", {0: told("p0", "f")}, {0: "g1", 1: "g2"})
    await logs.stacks.keep("team", run_uid, 1, kept)
    shown = described("/v1/runs/{namespace}/{name}/why", await world.http.get(f"{RUN}/why", params={"attempt": 1}))
    assert shown["words"][0].endswith(", before its members were ended: member 1: exit code 3.")
    assert shown["words"][1:] == ["Rank 0 on g1 is in f (data.py:14).", "The agents of 1 ranks did not answer."]
    assert shown["keptAttempts"] == [1]
    shown = (await world.http.get(f"{RUN}/why", params={"look": False})).json()
    assert shown["keptAttempts"] == [1], "a running run names them as well"
    missing = await world.http.get(f"{RUN}/why", params={"attempt": 7})
    assert missing.status_code == 404 and missing.json()["hint"] == "attempts with stacks: 1"
    world.kubernetes.denied.add(("mallory", "create", "pods/exec", "*"))
    as_mallory = {"Authorization": "Bearer mallory"}
    refused = await world.http.get(f"{RUN}/why", params={"attempt": 1}, headers=as_mallory)
    assert refused.status_code == 403


async def test_whole_stacks_that_were_kept_are_shown_of_a_removed_run(world: World, history: History) -> None:
    """With all nodes of a group. They need the same right as stacks of running processes."""
    await history.record([recorded("bert")])
    logs = KeptLogs(world.blobs)
    world.change("stores", logs=logs)
    ranks = {rank: told(f"p{rank}", "load" if rank == 1 else "barrier") for rank in range(4)}
    nodes = {rank: f"g{rank}" for rank in range(5)}
    kept = Evidence(Occasion.STUCK, NOW.timestamp(), "It is stuck.", ranks, nodes)
    await logs.stacks.keep("team", "uid-bert", 2, kept)
    removed = "/v1/runs/team/uid-bert"
    why = described("/v1/runs/{namespace}/{name}/why", await world.http.get(f"{removed}/why"))
    assert why["keptAttempts"] == [2]
    why = (await world.http.get(f"{removed}/why", params={"attempt": 2})).json()
    assert [(each["ranks"], each["nodes"]) for each in why["groups"]] == [([1], "g1"), ([0, 2, 3], "g[0,2-3]")]
    asked = await world.http.get(f"{removed}/stacks", params={"attempt": 2, "rank": 2})
    shown = described("/v1/runs/{namespace}/{name}/stacks", asked)
    (member,) = shown["ranks"]
    assert (member["rank"], member["node"], member["processes"][0]["command"]) == (2, "g2", "python train.py")
    assert (shown["attempt"], shown.get("silent", [])) == (2, [])
    shown = (await world.http.get(f"{removed}/stacks", params={"attempt": 2})).json()
    assert ([each["rank"] for each in shown["ranks"]], shown["silent"]) == ([0, 1, 2, 3], [4])
    missing = await world.http.get(f"{removed}/stacks", params={"attempt": 2, "rank": 4})
    assert missing.status_code == 404 and missing.json()["hint"] == "ranks with stacks: 0-3"
    missing = await world.http.get(f"{removed}/stacks", params={"attempt": 1})
    assert missing.status_code == 404 and missing.json()["hint"] == "attempts with stacks: 2"
    world.kubernetes.denied.add(("mallory", "create", "pods/exec", "*"))
    as_mallory = {"Authorization": "Bearer mallory"}
    refused = await world.http.get(f"{removed}/stacks", params={"attempt": 2}, headers=as_mallory)
    assert refused.status_code == 403, refused.text
