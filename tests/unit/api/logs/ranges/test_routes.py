"""Windows of logs and searches by the Web API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs

LINES = [at(second, f"line {second}") for second in range(1, 31)]


@pytest.fixture
async def run(world: World, tmp_path: Path) -> KeptLogs:
    """A run in its second attempt, with the log of its first one in the store."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=2, replicas=2)
    put_member(world, made, FakeLog(*LINES), attempt=2)
    name = MemberLogName("team", made["metadata"]["uid"], 1, 0)
    await kept.keep(name, "".join(f"{at(second, f'old {second}')}\n" for second in range(1, 31)).encode())
    await world.caught_up()
    return kept


async def window(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get(f"{PATH}/window", params=params)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [line["line"] for line in found["lines"]]


@pytest.mark.parametrize(("attempt", "word", "live"), [(1, "old", None), (2, "line", True)])
async def test_a_log_is_read_from_its_end_to_its_beginning(
    world: World, run: KeptLogs, attempt: int, word: str, live: bool | None
) -> None:
    """The log of a Pod and a stored one are read in the same way."""
    found = await window(world, attempt=attempt, limit=12)
    assert (found.get("live"), found["atEnd"], found["attempt"]) == (live, True, attempt)
    lines = texts(found)
    while "before" in found:
        found = await window(world, attempt=attempt, limit=12, before=found["before"])
        lines = texts(found) + lines
    assert lines == [f"{word} {second}" for second in range(1, 31)]


@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_window_begins_at_a_line_or_a_time(world: World, run: KeptLogs, attempt: int) -> None:
    by_line = await window(world, attempt=attempt, line=4, limit=2)
    by_time = await window(world, attempt=attempt, since="2026-11-21T10:00:04Z", limit=2)
    assert by_line["lines"] == by_time["lines"]
    assert (by_line["first"], [text.split()[1] for text in texts(by_line)]) == (4, ["4", "5"])
    assert by_line["lines"][0]["time"].startswith("2026-11-21T10:00:04")
    later = await window(world, attempt=attempt, after=by_line["after"], limit=100)
    assert (len(later["lines"]), later["atEnd"]) == (25, True)
    assert (await window(world, attempt=attempt, to=by_line["after"], limit=2))["lines"] == by_line["lines"]


async def test_a_window_has_one_place(world: World, run: KeptLogs) -> None:
    response = await world.http.get(f"{PATH}/window", params={"line": 4, "since": "10m", "before": "0.1"})
    assert response.status_code == 422
    assert [fault["field"] for fault in response.json()["faults"]] == ["since", "line"]
    response = await world.http.get(f"{PATH}/window", params={"before": "nonsense"})
    assert response.json()["faults"][0]["message"] == "is no cursor of a log"


async def test_long_lines_are_cut(world: World, run: KeptLogs) -> None:
    world.kubernetes.logs["team", "bert-2-0"].print(at(40, "x" * 100_000))
    found = await window(world, limit=1)
    assert (len(found["lines"][0]["line"]), found["lines"][0]["cut"]) == (16 * 1024, True)


async def search(world: World, **params: Any) -> list[dict[str, Any]]:
    response = await world.http.get(f"{PATH}/search", params=params)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.parametrize(("attempt", "word"), [(1, "old"), (2, "line")])
async def test_a_search_names_lines_that_a_window_shows(world: World, run: KeptLogs, attempt: int, word: str) -> None:
    *found, state = await search(world, text=f"{word.upper()} 2", ignoreCase="true", attempt=attempt, limit=2)
    assert [(each["line"], each["number"]) for each in found if "line" in each] == [
        (f"{word} 2", 2),
        (f"{word} 20", 20),
    ]
    assert (state["matches"], state["done"], "next" in state) == (11, True, False)
    cursor = [each for each in found if "line" in each][1]["cursor"]
    around = await window(world, attempt=attempt, at=cursor, limit=4)
    assert texts(around) == [f"{word} {second}" for second in (18, 19, 20, 21)]


async def test_a_search_ignores_the_case_of_all_letters(world: World, run: KeptLogs) -> None:
    """And takes a dot for a dot."""
    world.kubernetes.logs["team", "bert-2-0"].print(at(40, "эпоха 3.5: обучение идёт"))
    for text, lines in (("ОБУЧЕНИЕ ИДЁТ", 1), ("Эпоха 3.5", 1), ("ЭПОХА 3.6", 0), ("эпоха 3 5", 0)):
        *_, state = await search(world, text=text, ignoreCase="true", attempt=2)
        assert (state["matches"], state["done"]) == (lines, True), text


async def test_a_search_by_an_expression_is_refused_if_it_is_none(world: World, run: KeptLogs) -> None:
    """In the words of its syntax."""
    *found, state = await search(world, text="^LINE 2$", regex="true", ignoreCase="true", attempt=2)
    assert ([each["line"] for each in found if "line" in each], state["matches"]) == (["line 2"], 1)
    response = await world.http.get(f"{PATH}/search", params={"text": "(", "regex": "true"})
    assert response.status_code == 422
    assert "is no regular expression: missing ): (" in response.text


async def test_members_without_a_log_are_left_out_of_a_search(world: World, run: KeptLogs) -> None:
    states = [each for each in await search(world, text="line 30", allRanks="true") if each.get("done")]
    assert [(state["rank"], state["matches"]) for state in states] == [(0, 1)]
    response = await world.http.get(f"{PATH}/search", params={"rank": 1})
    assert response.status_code == 404
    assert response.json()["detail"] == "bert has no log of rank 1"
    assert (await window(world, rank=1))["missing"] == "bert has no log of rank 1"


async def test_parts_of_logs_need_the_right_to_read_logs_of_pods(world: World, run: KeptLogs) -> None:
    world.kubernetes.denied.add(("ada", "get", "pods/log", "team"))
    for route in ("window", "search"):
        response = await world.http.get(f"{PATH}/{route}", params={"attempt": 1})
        assert response.status_code == 403
