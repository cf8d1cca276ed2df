"""Runs beside each other, over the Web API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.api.fake_kubernetes import run
from tests.unit.api.history.test_history_routes import recorded
from tests.unit.api.telemetry.test_routes import MINUTE, gang, minute, report

from kajitori.history.store import History

if TYPE_CHECKING:
    from tests.unit.api.conftest import World


def named(answer: dict[str, Any], part: str) -> dict[str, tuple[list[str], bool]]:
    return {row["name"]: (row["values"], row["differs"]) for row in answer["rows"] if row["part"] == part}


async def test_runs_are_compared_by_what_they_asked_for_and_what_became_of_them(world: World, history: History) -> None:
    """One of them is known from history alone, by its UID. What neither has is no row."""
    await history.record([recorded("bert")])
    status = {"phase": "Failed", "exitCode": 3, "attempts": 2, "restarts": 1, "reason": "ProgramFailed"}
    args: dict[str, Any] = {"args": ["python3", "train.py", "--lr", "3e-4"], "resources": {"gpu": 8}}
    world.kubernetes.put("runs", run("gpt", **args) | {"status": status})
    await world.caught_up()
    found = (await world.http.get("/v1/compare", params={"run": ["team/uid-bert", "team/gpt"]})).json()
    assert [(each["name"], each["isRemoved"]) for each in found["runs"]] == [("bert", True), ("gpt", False)]
    assert found["runs"][1]["commandLine"].endswith("python3 train.py --lr 3e-4")
    asked, outcome = named(found, "asked"), named(found, "outcome")
    assert asked["--lr"] == (["", "3e-4"], True)
    assert asked["type"] == (["batch", "batch"], False)
    assert "volumes" not in asked
    assert outcome["exit code"] == (["3", "3"], False)
    assert outcome["attempts"] == (["0", "2"], True)
    assert outcome["GPU-hours"][0][0] == "2.667"


async def test_curves_are_medians_of_all_ranks(world: World) -> None:
    """The last ones are rows, too. A run without figures has none."""
    members = await gang(world)
    world.kubernetes.put("runs", run("quiet"))
    for number in (MINUTE - 1, MINUTE):
        losses = [{"loss": 2.0 + rank - (number - MINUTE), "step": 100.0 * (number - MINUTE + 2)} for rank in range(3)]
        await report(world, *(minute(pod, number, training=loss) for pod, loss in zip(members, losses, strict=True)))
        await world.api.telemetry.look()
    await world.caught_up()
    found = (await world.http.get("/v1/compare", params={"run": ["team/bert", "team/quiet"]})).json()
    (loss,) = [figure for figure in found["figures"] if figure["name"] == "train.loss"]
    assert [line["run"] for line in loss["lines"]] == [0]
    assert [(point["attempt"], point["p50"]) for point in loss["lines"][0]["points"]] == [(1, 4.0), (1, 3.0)]
    assert named(found, "figures")["train.loss"] == (["3", ""], True)


async def test_a_run_that_is_missing_hides_no_other(world: World) -> None:
    """The answer says which is missing. Without any run it is an error."""
    world.kubernetes.put("runs", run("gpt"))
    await world.caught_up()
    found = (await world.http.get("/v1/compare", params={"run": ["team/gone", "team/gpt"]})).json()
    assert [each["name"] for each in found["runs"]] == ["gpt"]
    assert found["missing"][0]["run"] == "team/gone"
    assert "there is no run 'gone'" in found["missing"][0]["message"]
    assert (await world.http.get("/v1/compare", params={"run": ["team/gone", "team/lost"]})).status_code == 404


async def test_two_to_four_different_runs_are_compared(world: World) -> None:
    """Each refusal names the field and the way out."""
    for wanted in (["team/a"], [f"team/{name}" for name in "abcde"], ["team/a", "team/a"], ["team/a", "b"]):
        answer = await world.http.get("/v1/compare", params={"run": wanted})
        assert answer.status_code == 422
        assert answer.json()["faults"][0]["field"] == "run"
