"""Labels of a run are changed after it was submitted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

LABELS = "/v1/runs/team/bert/labels"


async def test_lists_find_a_run_by_its_new_labels(world: World) -> None:
    """Other labels, and the labels of its Pods, stay. The row of the list has them, and the change is in the audit
    trail."""
    made = run("bert", labels={"stage": "draft"})
    made["metadata"]["labels"] = {"stage": "draft", "old": "1", "kept": "2"}
    world.kubernetes.put("runs", made)
    world.kubernetes.put("runs", run("plain"))
    await world.caught_up()
    answer = await world.http.post(LABELS, json={"set": {"stage": "final"}, "remove": ["old", "absent"]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["labels"] == {"stage": "final", "kept": "2"}
    assert answer.json()["spec"]["labels"] == {"stage": "draft"}
    await world.caught_up()
    for params in ({"search": "STAGE=final"}, {"labelSelector": "stage=final"}):
        found = (await world.http.get("/v1/runs", params={"fields": "summary"} | params)).json()["items"]
        assert [(row["name"], row["labels"]) for row in found] == [("bert", {"stage": "final", "kept": "2"})]
    (plain,) = (await world.http.get("/v1/runs", params={"fields": "summary", "search": "plain"})).json()["items"]
    assert "labels" not in plain and plain["image"]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "set", "nothing to change"),
        ({"set": {"a b": "x"}}, "set", "a b"),
        ({"set": {"a": "x y"}}, "set", "x y"),
        ({"set": {"kajitori.dev/run": "x"}}, "set", "reserved"),
        ({"remove": ["app.kubernetes.io/name"]}, "remove", "reserved"),
        ({"set": {"a": "x"}, "remove": ["a"]}, "remove", "at once"),
        ({"set": {f"a{number}": "x" for number in range(64)}}, "set", "more than 64"),
    ],
)
async def test_what_cannot_be_a_label_is_refused_by_name(
    world: World, body: dict[str, Any], field: str, words: str
) -> None:
    made = run("bert")
    made["metadata"]["labels"] = {"has": "one"}
    world.kubernetes.put("runs", made)
    await world.caught_up()
    answer = await world.http.post(LABELS, json=body)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["faults"]
    assert fault["field"].startswith(field) and words in fault["message"] + str(fault.get("value"))


async def test_it_needs_the_right_to_change_the_run(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    world.kubernetes.denied.add(("mallory", "patch", "runs", "*"))
    await world.caught_up()
    headers = {"Authorization": "Bearer mallory"}
    assert (await world.http.post(LABELS, json={"set": {"a": "b"}}, headers=headers)).status_code == 403
    assert (await world.http.post("/v1/runs/team/none/labels", json={"set": {"a": "b"}})).status_code == 404
