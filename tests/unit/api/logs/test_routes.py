"""Logs of one member and of several, merged by time; parameters and refusals."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run, read

from kajitori.api.logs.lines import LINE_LIMIT_BYTES


async def test_lines_of_one_member_are_returned_as_printed(world: World) -> None:
    """Timestamps are added only on request. Empty lines and lines without a timestamp are kept."""
    put_member(world, put_run(world), FakeLog(at(1, "one"), at(2, ""), "unable to read more"))
    await world.caught_up()
    assert await read(world.http) == "one\n\nunable to read more\n"
    assert (await read(world.http, timestamps="true")).splitlines()[0] == at(1, "one")


async def test_a_last_line_gets_an_end_unless_the_exact_text_is_asked_for(world: World) -> None:
    """So that what a program prints may be a file. The output of the next attempt begins with a new line."""
    made = put_run(world, attempt=2, phase="Failed")
    for attempt in (1, 2):
        log = FakeLog(at(attempt, f"{attempt}a"))
        log.print(at(attempt, f"{attempt}b"), end="")
        log.end()
        put_member(world, made, log, attempt=attempt, phase="Failed")
    await world.caught_up()
    for query in ({}, {"timestamps": "true"}, {"follow": "true"}):
        whole = (await read(world.http, attempt=1, **query)).replace(at(1, ""), "")
        exact = (await read(world.http, attempt=1, exactEnd="true", **query)).replace(at(1, ""), "")
        assert (whole, exact) == ("1a\n1b\n", "1a\n1b")
    assert await read(world.http, fromAttempt=1, follow="true", exactEnd="true") == "1a\n1b\n2a\n2b"


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


async def test_all_members_that_a_run_lacks_are_one_fault(world: World) -> None:
    """A range of ranks once had the same sentence for each of its ranks."""
    put_run(world, replicas=4)
    await world.caught_up()
    response = await world.http.get(PATH, params={"rank": [3, 4, 5, 6]})
    (fault,) = response.json()["faults"]
    assert (fault["value"], fault["message"], fault["hint"]) == ("4-6", "bert has 4 members", "ranks are 0 to 3")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"rank": 7}, "rank"),
        ({"rank": "x"}, "rank[0]"),
        ({"tail": -1}, "tail"),
        ({"since": "yesterday"}, "since"),
        ({"folow": "true"}, "folow"),
        ({"exactEnd": "true", "documents": "true"}, "exactEnd"),
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


async def test_one_output_stream_is_read_alone(world: World) -> None:
    log = FakeLog(at(1, "oops"))
    put_member(world, put_run(world, phase="Succeeded"), log, phase="Succeeded")
    await world.caught_up()
    assert await read(world.http, stream="stderr") == "oops\n"
    assert world.kubernetes.log_requests[-1]["stream"] == "Stderr"
    refused = await world.http.get(PATH, params={"stream": "stderr", "tail": 1})
    assert refused.json()["faults"][0]["field"] == "stream"

    log.is_merged = True
    assert await read(world.http, stream="stdout") == "oops\n"
    assert await read(world.http, stream="stderr") == ""
    assert await read(world.http, stream="stderr", follow="true") == ""
