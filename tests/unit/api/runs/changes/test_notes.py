"""Notes on runs through the Web API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.history.test_history_routes import recorded

from kajitori.core.naming.names import ANNOTATION_NOTE
from kajitori.core.spec.note import MAX_CHARACTERS, Note, read_note, write_note
from kajitori.history.store import History

PATH = "/v1/runs/team/bert/note"


async def noted(world: World, text: str, *, token: str = "", **more: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = await world.http.post(PATH, json={"text": text} | more, headers=headers)
    return answer.status_code, answer.json()


async def test_of_two_people_who_write_at_once_the_second_one_is_refused(world: World) -> None:
    """A request that is repeated because its answer was lost is not."""
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    code, view = await noted(world, " lr too high,\r\nsee https://wiki/bert \n", token="ana", insteadOf="")
    first = view["note"]
    assert (code, first["text"], first["by"]) == (200, "lr too high,\nsee https://wiki/bert", "ana")
    assert (await noted(world, first["text"], token="ana", insteadOf=""))[0] == 200
    code, problem = await noted(world, "mine", token="bob", insteadOf="")
    assert (code, problem["detail"]) == (409, "ana wrote another note on bert meanwhile")
    code, view = await noted(world, "mine", token="bob", insteadOf=first["at"])
    assert (code, view["note"]["by"]) == (200, "bob")
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert")).json()["note"]["text"] == "mine"
    code, view = await noted(world, "")
    assert (code, view.get("note")) == (200, None)
    code, problem = await noted(world, "again", insteadOf=first["at"])
    assert (code, problem["detail"]) == (409, "the note was removed on bert meanwhile")


@pytest.mark.parametrize("text", ["x" * (MAX_CHARACTERS + 1), "\x1b[31mred", "a\u202eb"])
async def test_a_note_is_a_short_plain_text(world: World, text: str) -> None:
    world.kubernetes.put("runs", run("bert"))
    code, problem = await noted(world, text)
    assert (code, problem["faults"][0]["field"]) == (422, "text")


async def test_those_write_a_note_who_may_change_the_run(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    world.kubernetes.denied.add(("mallory", "patch", "runs", "*"))
    assert (await noted(world, "x", token="mallory"))[0] == 403
    assert (await world.http.post("/v1/runs/team/other/note", json={"text": "x"})).status_code == 404


async def test_the_note_of_a_removed_run_is_kept(world: World, history: History) -> None:
    state = recorded("bert")
    document = msgspec.json.decode(state.run.document)
    document["metadata"]["annotations"][ANNOTATION_NOTE] = write_note(Note("good", "ana", "2026-11-21T11:30:00.5Z"))
    kept = msgspec.structs.replace(state.run, document=msgspec.json.encode(document))
    await history.record([msgspec.structs.replace(state, run=kept)])
    view = (await world.http.get("/v1/history/team/bert")).json()
    assert view["note"] == {"text": "good", "by": "ana", "at": "2026-11-21T11:30:00.5Z"}


@pytest.mark.parametrize("annotation", ["", "text", '{"text": 1}', '{"text": "\\u001b", "by": "", "at": ""}'])
def test_an_annotation_that_kubectl_wrote_in_another_form_is_no_note(annotation: str) -> None:
    assert read_note(annotation) is None
