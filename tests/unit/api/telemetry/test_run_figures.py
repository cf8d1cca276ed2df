"""The last figures of runs, which a list of runs shows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.telemetry.test_routes import MINUTE, described, gang, minute, report

from kajitori.api.streams.last_figures import PastFigures, main_figure
from kajitori.core.formats.times import format_time
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.errors import Unavailable
from kajitori.history.store import History

FIGURES = "/v1/run-figures"


async def figures(world: World, user: str = "ada", **params: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {user}"}
    found: dict[str, Any] = described(FIGURES, await world.http.get(FIGURES, params=params, headers=headers))["figures"]
    return found


def interval(uid: str, number: int, attempt: int = 1, seconds: int = 60, **training: float) -> Interval:
    bands = {
        f"train.{name}": Band(1, value, value, value, value, value, Place(0), Place(0))
        for name, value in training.items()
    }
    return Interval(uid, attempt, seconds, number * 60, 1, bands)


async def test_a_running_run_shows_gpu_use_step_and_loss(world: World) -> None:
    """The loss also if the program did not write it in the last minute."""
    pods = await gang(world, ranks=2)
    uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    before = {"loss": 0.5, "lr": 1e-4, "step": 90.0}
    await report(world, *(minute(each, MINUTE - 1, gpus=(50.0,), training=before) for each in pods))
    await report(
        world,
        minute(pods[0], gpus=(99.0, 98.0), training={"step": 100.0}),
        minute(pods[1], gpus=(97.0, 3.0), training={"step": 101.0}),
    )
    await world.api.telemetry.look()
    expected = {"gpu": 98, "leastGpu": 3, "leastRank": 1, "step": 101.0, "name": "loss", "value": 0.5}
    assert await figures(world) == {uid: expected}
    assert await figures(world, uid="other") == {}
    assert await figures(world, owner="nobody") == {}
    world.kubernetes.denied |= {("mallory", "list", "runs", where) for where in ("", "*")}
    assert await figures(world, "mallory") == {}


async def test_an_ended_run_shows_its_last_loss_from_history(world: World, history: History) -> None:
    """It is read once the run has ended for a while, and remembered. While history does not answer, it is missing."""
    status = {"phase": "Succeeded", "attempts": 2, "finishedAt": "2026-11-20T10:00:00Z"}
    just_ended = {"phase": "Succeeded", "attempts": 1, "finishedAt": format_time(NOW)}
    late = world.kubernetes.put("runs", run("late") | {"status": just_ended})["metadata"]["uid"]
    made = world.kubernetes.put("runs", run("old") | {"status": status})
    world.kubernetes.put("runs", run("new") | {"status": {"phase": "Queued"}})
    await world.caught_up()
    uid, number = made["metadata"]["uid"], int(NOW.timestamp() // 60) - 5000
    await history.record_telemetry(
        [
            interval(uid, number, loss=9.0),
            interval(uid, number + 10, 2, loss=0.3, step=7.0),
            interval(uid, number + 11, 2, step=8.0),
        ]
    )
    assert await figures(world) == {uid: {"step": 8.0, "name": "loss", "value": 0.3}}
    await history.record_telemetry([interval(late, number, loss=0.1)])
    assert (await figures(world))[late]["value"] == 0.1, "its last minute arrived after it had ended"

    async def fail(*_: object) -> None:
        raise Unavailable("the database is away")

    history.last_telemetry = fail  # type: ignore[method-assign,assignment]
    assert await figures(world) == {uid: {"step": 8.0, "name": "loss", "value": 0.3}}
    assert await PastFigures().of_runs([world.api.mirror.runs["team", "old"]], history, NOW) == {}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("step", "val_loss", "loss", "accuracy"), "loss"),
        (("step", "train_loss", "val_loss"), "val_loss"),
        (("lr", "accuracy", "step.rate"), "accuracy"),
        (("lr", "grad_norm"), "grad_norm"),
        (("step", "tokens", "tokens.rate", "epoch"), ""),
    ],
)
def test_the_main_figure_tells_how_good_the_training_is(names: tuple[str, ...], expected: str) -> None:
    assert main_figure(names) == expected
