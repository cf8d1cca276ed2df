"""Logs of one member and of several: followed over restarts, merged by time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import FakeLog, Object, attempts, pod, run

from kajitori.api.limits import MAX_LOGS
from kajitori.api.logs import connection
from kajitori.api.logs.lines import LINE_LIMIT_BYTES
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.opening import open_blobs
from kajitori.core.words.rotation_notice import dropped_by_rotation

PATH = "/v1/runs/team/bert/logs"


def at(second: float, text: str) -> str:
    return f"2026-11-21T10:00:{second:012.9f}Z {text}"


def put_run(world: World, *, attempt: int = 1, phase: str = "Running", replicas: int = 1) -> Object:
    return world.kubernetes.put("runs", run("bert", replicas=replicas) | {"status": attempts(attempt, phase=phase)})


def put_member(
    world: World, made: Object, log: FakeLog, *, attempt: int = 1, rank: int = 0, phase: str = "Running"
) -> None:
    member = world.kubernetes.put("pods", pod(made, attempt=attempt, rank=rank, phase=phase))
    world.kubernetes.logs["team", member["metadata"]["name"]] = log


async def read(http: httpx2.AsyncClient, **params: Any) -> str:
    response = await http.get(PATH, params=params)
    assert response.status_code == 200, response.text
    return response.text


async def test_lines_of_one_member_are_returned_as_printed(world: World) -> None:
    """Timestamps are added only on request. Empty lines and lines without a timestamp are kept."""
    put_member(world, put_run(world), FakeLog(at(1, "one"), at(2, ""), "unable to read more"))
    await world.caught_up()
    assert await read(world.http) == "one\n\nunable to read more\n"
    assert (await read(world.http, timestamps="true")).splitlines()[0] == at(1, "one")


async def test_tail_and_since_narrow_what_is_read(world: World) -> None:
    """The API server counts whole seconds; the Web API applies the exact time."""
    put_member(world, put_run(world), FakeLog(*(at(second, str(second)) for second in range(10))))
    await world.caught_up()
    assert await read(world.http, tail=2) == "8\n9\n"
    assert await read(world.http, since="2026-11-21T10:00:07.5Z") == "8\n9\n"
    assert await read(world.http, since="2h") == "".join(f"{second}\n" for second in range(10))
    assert (
        world.kubernetes.log_requests[-1]["sinceTime"] == f"{world.api.now() - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    )


async def test_a_member_that_has_not_started_has_no_log_yet(world: World) -> None:
    put_member(world, put_run(world, phase="Starting"), FakeLog(at(1, "x")), phase="Pending")
    await world.caught_up()
    assert await read(world.http) == ""


@pytest.fixture
async def kept(world: World, tmp_path: Path) -> KeptLogs:
    """Stored logs of attempt 1, whose Pods are gone, of a run in its second attempt."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=2, phase="Running", replicas=4)
    put_member(world, made, FakeLog(at(30, "second life")), attempt=2)
    text = "".join(f"{at(second, f'line {second}')}\n" for second in range(1, 6))
    for rank in (0, 2):
        name = MemberLogName("team", made["metadata"]["uid"], 1, rank)
        await kept.keep(name, text.replace("line", f"rank {rank}, line").encode())
    await world.caught_up()
    return kept


async def test_stored_logs_are_read_like_other_logs(world: World, kept: KeptLogs) -> None:
    assert await read(world.http) == "second life\n"
    assert (await read(world.http, attempt=1)).splitlines() == [f"rank 0, line {number}" for number in range(1, 6)]
    assert await read(world.http, attempt=1, rank=2, tail=1) == "rank 2, line 5\n"
    assert await read(world.http, attempt=1, tail=0) == ""
    assert (await read(world.http, attempt=1, since="2026-11-21T10:00:04Z")).startswith("rank 0, line 4\n")
    assert await read(world.http, attempt=1, tail=1, timestamps="true") == at(5, "rank 0, line 5") + "\n"
    assert await read(world.http, attempt=1, tail=1, follow="true") == "rank 0, line 5\n"


async def test_stored_logs_of_several_members_are_merged(world: World, kept: KeptLogs) -> None:
    """Members without a stored log are left out."""
    response = await world.http.get(PATH, params={"attempt": 1, "allRanks": "true", "tail": 1})
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [(line["rank"], line["attempt"], line["line"]) for line in lines] == [
        (0, 1, "rank 0, line 5"),
        (2, 1, "rank 2, line 5"),
    ]


async def test_stored_logs_are_listed_once_for_all_members(
    world: World, kept: KeptLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only logs that exist are read."""
    calls: list[str] = []

    def counted(name: str) -> None:
        real = getattr(kept, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(kept, name, call)

    counted("of_run")
    counted("read")
    await world.http.get(PATH, params={"attempt": 1, "allRanks": "true"})
    assert sorted(calls) == ["of_run", "read", "read"]


async def test_a_missing_log_is_answered_with_the_stored_ones(world: World, kept: KeptLogs) -> None:
    response = await world.http.get(PATH, params={"attempt": 1, "rank": 1})
    assert response.status_code == 404
    assert response.json()["hint"] == "attempt 1 has stored logs of these ranks: 0,2"
    response = await world.http.get(PATH, params={"attempt": 7})
    assert response.status_code == 422
    assert response.json()["faults"][0]["hint"] == "name one of 1 to 2"


async def test_stored_logs_need_the_right_to_read_logs_of_pods(world: World, kept: KeptLogs) -> None:
    world.kubernetes.denied.add(("ada", "get", "pods/log", "team"))
    response = await world.http.get(PATH, params={"attempt": 1})
    assert response.status_code == 403
    assert "pods/log" in response.json()["detail"]


async def test_a_log_deleted_with_its_pod_is_reported_as_gone(world: World) -> None:
    put_run(world, phase="Failed")
    await world.caught_up()
    for params in ({}, {"follow": "true"}):
        response = await world.http.get(PATH, params=params)
        assert response.status_code == 404
        assert "gone with its Pod" in response.json()["detail"]


async def test_an_attempt_that_an_ended_run_never_had_is_refused(world: World) -> None:
    """A run that is active may still have that attempt."""
    put_member(world, put_run(world, phase="Failed"), FakeLog(at(1, "a")), phase="Failed")
    await world.caught_up()
    for params in ({}, {"follow": "true"}):
        response = await world.http.get(PATH, params={"attempt": "2"} | params)
        assert response.status_code == 422
        assert response.json()["faults"][0]["message"] == "bert was started once"


async def test_following_waits_for_the_start_and_goes_on_after_a_restart(
    world: World, served: httpx2.AsyncClient
) -> None:
    """It ends with the run; no line is repeated or lost."""
    made = put_run(world, phase="Starting")
    first, second = FakeLog(at(1, "hello")), FakeLog(at(9, "again"))
    put_member(world, made, first, phase="Pending")
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        put_member(world, made, first)
        assert await anext(lines) == "hello"
        first.print(at(2, "more"))
        assert await anext(lines) == "more"
        first.print(at(3, "last words"))
        first.end()
        world.kubernetes.change("pods", "bert-1-0", status=pod(made, phase="Failed")["status"])
        assert await anext(lines) == "last words"
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        world.kubernetes.remove("pods", "bert-1-0")
        put_member(world, made, second, attempt=2)
        assert await anext(lines) == "again"
        second.end()
        world.kubernetes.change("pods", "bert-2-0", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_a_broken_connection_is_resumed_where_it_ended(world: World, served: httpx2.AsyncClient) -> None:
    """Two lines with the same timestamp are two lines."""
    made = put_run(world)
    log = FakeLog(at(1, "a"), at(1, "b"))
    put_member(world, made, log)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert [await anext(lines), await anext(lines)] == ["a", "b"]
        log.end()  # the connection ends, but the container does not
        log.print(at(1, "c"), at(2, "d"))
        assert [await anext(lines), await anext(lines)] == ["c", "d"]


async def test_the_next_attempt_is_read_from_its_start_though_no_end_was_seen(
    world: World, served: httpx2.AsyncClient
) -> None:
    """Lines of both attempts may have the same timestamp."""
    made = put_run(world)
    first = FakeLog(at(1, "a"))
    put_member(world, made, first)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(1, "b"), at(0, "c")), attempt=2)
        await world.caught_up()
        first.end()
        assert [await anext(lines), await anext(lines)] == ["b", "c"]


async def test_after_the_loss_of_a_node_the_next_attempt_is_read(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection to a dead node does not end by itself; it is given up once the Pod is gone."""
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    made = put_run(world)
    put_member(world, made, FakeLog(at(1, "a")))
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        world.kubernetes.remove("pods", "bert-1-0")
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(2, "b")), attempt=2)
        assert await anext(lines) == "kaji: the end of the log of rank 0 in attempt 1 was lost with node n1"
        assert await anext(lines) == "b"


async def test_lines_lost_with_a_connection_come_from_the_stored_log(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So do lines of an attempt that started and ended while the connection was broken."""
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world)
    put_member(world, made, FakeLog(at(1, "a")))
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        uid = made["metadata"]["uid"]
        await kept.keep(MemberLogName("team", uid, 1, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
        await kept.keep(MemberLogName("team", uid, 2, 0), f"{at(3, 'a short life')}\n".encode())
        world.kubernetes.remove("pods", "bert-1-0")
        world.kubernetes.change("runs", "bert", status=attempts(3, phase="Running"))
        put_member(world, made, FakeLog(at(4, "the third")), attempt=3)
        assert [await anext(lines) for _ in range(3)] == ["last words", "a short life", "the third"]


@pytest.mark.parametrize("params", [{}, {"allRanks": "true"}])
async def test_a_resumed_reader_goes_on_with_the_attempt_it_was_reading(
    world: World, served: httpx2.AsyncClient, tmp_path: Path, params: dict[str, str]
) -> None:
    """That attempt's Pod is gone, and another attempt has started and ended: the stored logs of both come before the
    newest."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=4)
    uid = made["metadata"]["uid"]
    for attempt, lines_said in {1: ["old"], 2: ["seen", "last words"], 3: ["a short life"]}.items():
        content = "".join(
            f"{at(10 - attempt + number, line)}\n" for number, line in enumerate(lines_said)
        )  # clocks differ between nodes
        await kept.keep(MemberLogName("team", uid, attempt, 0), content.encode())
    last = FakeLog(at(1, "the fourth"))
    put_member(world, made, last, attempt=4)
    await world.caught_up()
    resumed: dict[str, Any] = {
        "follow": "true",
        "documents": "true",
        "fromAttempt": "2",
        "since": "2026-11-21T10:00:08.5Z",
    }
    async with served.stream("GET", PATH, params=resumed | params) as response:
        lines = response.aiter_lines()
        documents = [json.loads(await anext(lines)) for _ in range(3)]
        assert [(document["attempt"], document["line"]) for document in documents] == [
            (2, "last words"),
            (3, "a short life"),
            (4, "the fourth"),
        ]
        last.end()
        world.kubernetes.change("pods", "bert-4-0", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_the_log_of_a_member_of_later_attempts_is_returned_once(
    world: World, served: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """Members of sweeps start in any attempt. The Pod is deleted before its end was seen; the rest comes from the
    stored log, and so does an attempt that was missed."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=20)
    uid = made["metadata"]["uid"]
    log = FakeLog(at(1, "a"))
    put_member(world, made, log, attempt=20)
    await world.caught_up()
    params = {"follow": "true", "fromAttempt": "1", "documents": "true"}
    async with served.stream("GET", PATH, params=params) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["line"] == "a"
        log.end()  # as far as the server knows, the Pod is still running
        await kept.keep(MemberLogName("team", uid, 20, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
        await kept.keep(MemberLogName("team", uid, 33, 0), f"{at(1, 'a short life')}\n".encode())
        world.kubernetes.remove("pods", "bert-20-0")
        world.kubernetes.change("runs", "bert", status=attempts(140, phase="Running"))
        put_member(world, made, FakeLog(at(1, "b")), attempt=140)
        documents = [json.loads(await anext(lines)) for _ in range(3)]
        assert [(document["attempt"], document["line"]) for document in documents] == [
            (20, "last words"),
            (33, "a short life"),
            (140, "b"),
        ]


@pytest.mark.parametrize(
    ("params", "expected"),
    [({"fromAttempt": 1, "since": "2026-11-21T10:00:01.5Z"}, ["last words", "b"]), ({}, ["a", "last words", "b"])],
)
async def test_the_stored_log_is_read_if_a_pod_is_deleted_meanwhile(
    world: World, served: httpx2.AsyncClient, tmp_path: Path, params: dict[str, Any], expected: list[str]
) -> None:
    """The server sees the Pod until it asks for its log. A reader that resumes and a new one get all lines."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world)
    uid = made["metadata"]["uid"]
    await kept.keep(MemberLogName("team", uid, 1, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
    world.kubernetes.put("pods", pod(made, phase="Running"))
    await world.caught_up()

    async def deleted() -> None:
        world.kubernetes.remove("pods", "bert-1-0")
        await world.caught_up()

    world.kubernetes.before_no_log = deleted
    async with served.stream("GET", PATH, params={"follow": "true"} | params) as response:
        lines = response.aiter_lines()
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(3, "b")), attempt=2)
        assert [await anext(lines) for _ in expected] == expected


async def test_a_resumed_reader_gets_the_end_of_an_ended_run(world: World, tmp_path: Path) -> None:
    """The run was restarted and stopped meanwhile, and all its Pods are gone."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    uid = put_run(world, attempt=2, phase="Stopped")["metadata"]["uid"]
    for attempt in (1, 2):
        await kept.keep(MemberLogName("team", uid, attempt, 0), f"{at(attempt, f'end of {attempt}')}\n".encode())
    await world.caught_up()
    assert await read(world.http, follow="true", fromAttempt=1) == "end of 1\nend of 2\n"
    assert await read(world.http, follow="true") == "end of 2\n"


async def test_a_member_without_a_log_is_left_out_of_several(world: World) -> None:
    """The answer consists of documents, though only one member is left."""
    put_member(world, put_run(world, replicas=2), FakeLog(at(1, "one")), rank=1)
    world.change("stores", logs=None)
    await world.caught_up()
    response = await world.http.get(PATH, params={"rank": [0, 1]})
    assert [json.loads(line)["line"] for line in response.text.splitlines()] == ["one"]


async def test_a_very_long_line_is_returned_in_pieces(world: World) -> None:
    """Each piece is a document; no character is split."""
    long = "語" * (8 * LINE_LIMIT_BYTES // 3)
    put_member(world, put_run(world), FakeLog(at(1, long), at(2, "short")))
    await world.caught_up()
    lines = (await read(world.http, documents="true")).splitlines()
    *pieces, last, short = [json.loads(line) for line in lines]
    assert pieces and all(piece["goesOn"] for piece in pieces)
    assert "".join(piece["line"] for piece in [*pieces, last]) == long
    assert [("goesOn" in document) for document in (last, short)] == [False, False]


async def test_a_refusal_comes_before_the_answer_begins(world: World) -> None:
    put_member(world, put_run(world), FakeLog())
    await world.caught_up()
    world.kubernetes.denied.add(("ada", "get", "pods/log", "team"))
    for params in ({}, {"follow": "true"}, {"allRanks": "true"}, {"follow": "true", "fromAttempt": "2"}):
        assert (await world.http.get(PATH, params=params)).status_code == 403


Frame = tuple[dict[str, Any], str]


def frames_of(content: bytes) -> list[Frame]:
    """Return the header and the text of each frame that has text."""
    found = []
    while content:
        head, _, content = content.partition(b"\n")
        header = json.loads(head)
        found.append((header, content[: header["size"]].decode()))
        content = content[header["size"] :]
    return [frame for frame in found if frame[1]]


class Frames:
    """Reads the frames of a stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self._chunks = response.aiter_bytes()
        self._rest = b""
        self.cursor = ""

    async def text(self, wanted: str) -> None:
        """Read exactly this text."""
        text_read = ""
        while text_read != wanted:
            assert wanted.startswith(text_read), text_read
            head, newline, rest = self._rest.partition(b"\n")
            header: dict[str, Any] = json.loads(head) if newline else {"size": 1}
            if len(rest) < header["size"]:
                self._rest += await anext(self._chunks)
                continue
            text_read += rest[: header["size"]].decode()
            self.cursor, self._rest = header["cursor"], rest[header["size"] :]


async def test_a_line_is_sent_before_it_is_complete(world: World, served: httpx2.AsyncClient) -> None:
    """A progress bar is redrawn in one line; a resumed reader continues in the middle of it."""
    made = put_run(world)
    log = FakeLog(at(1, "begins"))
    put_member(world, made, log)
    await world.caught_up()
    params: dict[str, Any] = {"follow": "true", "frames": "true"}
    async with served.stream("GET", PATH, params=params) as response:
        frames = Frames(response)
        await frames.text("begins\n")
        log.print(at(2, "\r 10%"), end="")
        await frames.text("\r 10%")
        log.print("\r 20%", end="")
        await frames.text("\r 20%")
    log.print("\r100%")
    async with served.stream("GET", PATH, params=params | {"resume": frames.cursor}) as response:
        again = Frames(response)
        await again.text("\r100%\n")
        log.print(at(3, "more"))
        await again.text("more\n")


async def test_parts_of_a_line_are_documents_with_goes_on(world: World, served: httpx2.AsyncClient) -> None:
    log = FakeLog(at(1, "語"[:1]))
    put_member(world, put_run(world), log)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true", "documents": "true"}) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["line"] == "語"
        log.print(at(2, "10%"), end="")
        assert json.loads(await anext(lines)) == {
            "rank": 0,
            "attempt": 1,
            "time": "2026-11-21T10:00:02.000000000Z",
            "line": "10%",
            "goesOn": True,
        }
        log.print("20%")
        assert json.loads(await anext(lines))["line"] == "20%"


async def test_frames_are_resumed_for_each_member_separately(world: World, served: httpx2.AsyncClient) -> None:
    """In any attempt, no line of a member is repeated or left out."""
    made = put_run(world, attempt=2, replicas=3)
    logs = [FakeLog(at(1, "a0"), at(1, "b0"), at(4, "c0")), FakeLog(at(2, "a1"), at(3, "b1")), FakeLog(at(5, "a2"))]
    for rank, log in enumerate(logs):
        put_member(world, made, log, attempt=2, rank=rank)
        log.ended = True
        world.kubernetes.change("pods", f"bert-2-{rank}", status=pod(made, phase="Succeeded")["status"])
    world.kubernetes.change("runs", "bert", status=attempts(2, phase="Succeeded"))
    await world.caught_up()
    params: dict[str, Any] = {"follow": "true", "frames": "true", "allRanks": "true"}
    first = frames_of((await world.http.get(PATH, params=params)).content)
    assert "".join(text for _, text in first) == "a0\nb0\na1\nb1\nc0\na2\n"
    for read in range(len(first)):
        cursors = {header["rank"]: header["cursor"] for header, _ in first[:read]}
        again = await world.http.get(PATH, params=params | {"resume": list(cursors.values())})
        assert [text for _, text in frames_of(again.content)] == [text for _, text in first[read:]]
    wrong = await world.http.get(PATH, params=params | {"resume": "0.1.soon"})
    assert wrong.json()["faults"][0]["field"] == "resume"


async def test_lines_lost_to_rotation_during_an_outage_are_reported(world: World, served: httpx2.AsyncClient) -> None:
    """Kajitori's kubelet reports the loss and its size itself; another kubelet's log only continues later."""
    made = put_run(world)
    log = FakeLog(at(1, "a"), at(2, "half of a line"))
    put_member(world, made, log)
    await world.caught_up()
    params: dict[str, Any] = {"follow": "true", "frames": "true"}
    async with served.stream("GET", PATH, params=params) as response:
        frames = Frames(response)
        await frames.text("a\nhalf of a line\n")
    world.kubernetes.logs["team", "bert-1-0"] = FakeLog(at(8, "b"))
    gap = (
        "kaji: lines printed between 2026-11-21T10:00:02.000000000Z and 2026-11-21T10:00:08.000000000Z may be missing: "
    )
    async with served.stream("GET", PATH, params=params | {"resume": frames.cursor}) as response:
        again = Frames(response)
        await again.text(f"{gap}node n1 rotated the log\nb\n")
    notice = dropped_by_rotation(1234)
    world.kubernetes.logs["team", "bert-1-0"] = FakeLog(at(7, notice), at(8, "b"))
    async with served.stream("GET", PATH, params=params | {"resume": frames.cursor}) as response:
        again = Frames(response)
        await again.text(f"{notice}\nb\n")


@pytest.mark.parametrize("params", [{}, {"timestamps": "true"}, {"follow": "true"}, {"follow": "true", "tail": "9"}])
async def test_a_missing_beginning_of_a_log_is_reported(world: World, params: dict[str, str]) -> None:
    """The kubelet reads only the newest file of a log that it rotated. A reader of the end does not need to know."""
    log = FakeLog(at(0, "step 900").replace("T10", "T11"), at(1, "step 901").replace("T10", "T11"))
    log.ended = True
    put_member(world, put_run(world, phase="Succeeded"), log, phase="Succeeded")
    await world.caught_up()
    text = await read(world.http, **params)
    notice = "kaji: this log begins 59m after its program started: node n1 may have rotated earlier lines away\n"
    assert text.startswith(notice) == ("tail" not in params), text
    assert text.count("rotated") == ("tail" not in params)
    assert text.removeprefix(notice).count("step 90") == 2


async def test_several_members_are_merged_by_time(world: World) -> None:
    """Each line is a document with rank and attempt; members without a log are left out."""
    made = put_run(world, replicas=4)
    for rank in range(3):
        lines = [at(rank + 3 * number, f"{rank}/{number}") for number in range(5)]
        put_member(world, made, FakeLog(*lines), rank=rank)
    await world.caught_up()
    documents = [json.loads(line) for line in (await read(world.http, allRanks="true")).splitlines()]
    assert [document["time"] for document in documents] == sorted(document["time"] for document in documents)
    assert len(documents) == 15
    assert documents[1] == {"rank": 1, "attempt": 1, "time": "2026-11-21T10:00:01.000000000Z", "line": "1/0"}
    some = await world.http.get(PATH, params={"rank": [0, 2]})
    assert {json.loads(line)["rank"] for line in some.text.splitlines()} == {0, 2}


async def test_following_several_members_ends_with_the_run(world: World, served: httpx2.AsyncClient) -> None:
    """A member that prints nothing does not delay the others."""
    made = put_run(world, replicas=3)
    logs = [FakeLog(), FakeLog(at(1, "one")), FakeLog()]
    for rank, log in enumerate(logs):
        put_member(world, made, log, rank=rank)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"allRanks": "true", "follow": "true"}) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["line"] == "one"
        logs[2].print(at(2, "two"))
        assert json.loads(await anext(lines)) | {"time": ""} == {"rank": 2, "attempt": 1, "time": "", "line": "two"}
        for rank, log in enumerate(logs):
            log.end()
            world.kubernetes.change("pods", f"bert-1-{rank}", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_a_disconnected_reader_frees_all_its_resources(world: World, served: httpx2.AsyncClient) -> None:
    """The connections to the API server are closed, and the slots are free."""
    made = put_run(world, replicas=2)
    logs = [FakeLog(at(1, "a")), FakeLog(at(1, "b"))]
    for rank, log in enumerate(logs):
        put_member(world, made, log, rank=rank)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"allRanks": "true", "follow": "true"}) as response:
        await anext(response.aiter_lines())
        assert [log.open for log in logs] == [1, 1]
    async with asyncio.timeout(60):
        for log in logs:
            await log.left.wait()
    assert world.api.callers.logs.free == MAX_LOGS


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"rank": 7}, "rank"),
        ({"rank": "x"}, "rank[0]"),
        ({"tail": -1}, "tail"),
        ({"since": "yesterday"}, "since"),
        ({"folow": "true"}, "folow"),
    ],
)
async def test_wrong_parameters_are_named(world: World, params: dict[str, Any], field: str) -> None:
    put_run(world)
    await world.caught_up()
    response = await world.http.get(PATH, params=params)
    assert response.status_code == 422
    (fault,) = response.json()["faults"]
    assert fault["field"] == field
    assert fault["hint"] or field in ("rank[0]", "tail")


async def test_too_many_logs_for_one_answer_are_refused(world: World) -> None:
    put_run(world, replicas=1000)
    await world.caught_up()
    response = await world.http.get(PATH, params={"allRanks": "true"})
    assert response.status_code == 422
    assert response.json()["faults"][0]["hint"] == "name ranks: rank=0&rank=1"
