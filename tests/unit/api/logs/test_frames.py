"""Frames: parts of lines as they are printed, with a cursor for each member."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run

from kajitori.core.formats.rotation_notice import dropped_by_rotation

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
