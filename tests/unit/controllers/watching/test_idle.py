"""The watcher for idle GPUs: it queues a run for reconciliation only if the run's status is about to change."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kajitori.blobs.questions import Asked, Questions
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.controllers.watching.feed import Round
from kajitori.controllers.watching.idle import FRESH_SECONDS, GpuInspector, IdleWatcher, NodeGpuInspector
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.usage import Holding, Usage
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.idle import Limits
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import GPU, MEMBER
from kajitori.core.telemetry.report import Answer, Series
from kajitori.errors import Unavailable
from kajitori.kube.metadata import ObjectMeta

NOON = 2_000_000_040 - 2_000_000_040 % 60


def run_of(uid: str, *, gpus: int = 8, status: RunStatus | None = None) -> RunObject:
    since = format_time(time_at(NOON))
    usage = Usage(first=1, open=[Holding(attempt=1, ranks="0", gpus=gpus, gpu_type="h100", since=since)])
    given = status or RunStatus(phase=Phase.RUNNING, attempt=Attempt(number=1, nodes="n"), attempts=1, usage=usage)
    spec = msgspec.Raw(msgspec.json.encode({"image": "x"}))
    return RunObject(metadata=ObjectMeta(name=uid, namespace="team", uid=uid), spec=spec, status=given)


def minutes(uid: str, count: int, used: float, *, start: int = 0) -> list[Interval]:
    band = Band(8, used, used, used, used, used, Place(0, 0), Place(0, 0))
    return [Interval(uid, 1, 60, NOON + 60 * number, 1, {"gpu.used": band}) for number in range(start, start + count)]


class Setting:
    def __init__(self, inspector: GpuInspector | None = None, **rules: Any) -> None:
        view = SimpleNamespace(
            policy=parse_policy({"idleGpus": rules}), specs=SimpleNamespace(of=lambda run: read_stored(run.spec))
        )
        self.seconds = float(NOON)
        self.woken: list[str] = []
        self.watcher = IdleWatcher(
            cast(ClusterView, view),
            lambda: datetime.fromtimestamp(self.seconds, UTC),
            lambda key: self.woken.append(key[1]),
            inspector,
        )

    async def see(self, runs: Sequence[RunObject], *fresh: list[Interval], until: int) -> None:
        self.seconds = NOON + 60.0 * until + 100
        found = {each[0].run_uid: each for each in fresh}
        await self.watcher.watch(Round(self.seconds, NOON + 60 * until, {run.metadata.uid: run for run in runs}, found))


async def test_an_idle_run_is_reconciled_and_a_working_one_is_not() -> None:
    setting = Setting()
    idle, busy, none = run_of("idle"), run_of("busy"), run_of("none", gpus=0)
    await setting.see(
        [idle, busy, none], minutes("idle", 130, 0.0), minutes("busy", 130, 90.0), minutes("none", 130, 0.0), until=130
    )
    assert setting.woken == ["idle"]
    status = setting.watcher.noted(idle, idle.current_status)
    assert status.idle is not None and status.idle.asked_at
    asked = run_of("idle", status=status)
    await setting.see([asked, busy], minutes("idle", 1, 0.0, start=130), until=131)
    assert setting.woken == ["idle"], "nothing changed"
    await setting.see([asked, busy], minutes("idle", 1, 80.0, start=131), until=132)
    assert setting.woken == ["idle", "idle"]
    assert setting.watcher.noted(asked, status).idle is None


async def test_a_new_leader_says_the_same_and_an_old_finding_says_nothing() -> None:
    setting = Setting(park={"after": "2h", "warning": "1h"})
    run = run_of("idle")
    await setting.see([run], minutes("idle", 130, 0.0), until=130)
    status = setting.watcher.noted(run, run.current_status)
    asked = run_of("idle", status=status)
    another = Setting(park={"after": "2h", "warning": "1h"})
    await another.see([asked], minutes("idle", 131, 0.0), until=131)
    assert another.woken == []
    another.seconds += FRESH_SECONDS + 3 * 3600
    later = another.watcher.noted(asked, status)
    assert later.idle is not None and later.idle.warned_at and not later.idle.parked_at


async def test_a_new_leader_goes_on_with_what_the_last_one_remembered() -> None:
    """Two idle hours before the change of leaders count. Without a memory it begins anew."""
    before, run = Setting(), run_of("idle")
    await before.see([run], minutes("idle", 119, 0.0), until=119)
    assert before.woken == []
    for state, woken in ((before.watcher.save_state(), ["idle"]), (b"", [])):
        after = Setting()
        after.watcher.restore_state(state)
        await after.see([run], minutes("idle", 5, 0.0, start=119), until=124)
        assert after.woken == woken


async def test_switched_off_it_forgets_what_it_found() -> None:
    setting = Setting()
    run = run_of("idle")
    await setting.see([run], minutes("idle", 130, 0.0), until=130)
    asked = run_of("idle", status=setting.watcher.noted(run, run.current_status))
    off = Setting(enabled=False)
    await off.see([asked], minutes("idle", 130, 0.0), until=130)
    assert off.woken == ["idle"]
    assert off.watcher.noted(asked, asked.current_status).idle is None


def mixed(uid: str, count: int) -> list[Interval]:
    """Minutes in which the first of eight GPUs is idle."""
    band = Band(8, 0.0, 60.0, 95.0, 96.0, 97.0, Place(0, 0), Place(0, 7))
    return [Interval(uid, 1, 60, NOON + 60 * number, 1, {"gpu.used": band}) for number in range(count)]


class Nodes:
    """Answers about single GPUs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answered = asyncio.Event()
        self.fault: Exception | None = None
        self.hang = False

    async def idle_gpus(self, run: RunObject, least_rank: int, limits: Limits) -> tuple[Place, ...] | None:
        self.asked.append(run.metadata.name)
        self.answered.set()
        if self.hang:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return (Place(0, 0),)


async def test_nodes_are_asked_once_an_hour_which_gpus_are_idle() -> None:
    nodes = Nodes()
    setting = Setting(nodes)
    run = run_of("pipeline")
    await setting.see([run], mixed("pipeline", 730), until=730)
    await nodes.answered.wait()
    await setting.watcher._look  # type: ignore[misc]
    assert setting.woken == ["pipeline", "pipeline"]
    status = setting.watcher.noted(run, run.current_status)
    assert status.idle is not None
    assert (status.idle.confirmed, status.idle.places, bool(status.idle.asked_at)) == (1, "0:0", True)
    asked = run_of("pipeline", status=status)
    await setting.see([asked], mixed("pipeline", 731)[730:], until=731)
    assert nodes.asked == ["pipeline"]
    setting.seconds += 3600
    await setting.watcher.close()


async def test_an_answer_of_nodes_counts_for_two_hours() -> None:
    nodes = Nodes()
    setting = Setting(nodes)
    run = run_of("pipeline")
    await setting.see([run], mixed("pipeline", 730), until=730)
    await nodes.answered.wait()
    nodes.hang = True
    for hours, confirmed in ((1, 1), (2, 0)):
        minute = 730 + 60 * hours
        await setting.see([run], mixed("pipeline", minute)[minute - 60 :], until=minute)
        idle = setting.watcher.noted(run, run.current_status).idle
        assert (idle.confirmed if idle is not None else 0) == confirmed
    await setting.watcher.close()


async def test_nodes_of_a_run_that_works_again_are_not_asked() -> None:
    nodes = Nodes()
    nodes.hang = True
    setting = Setting(nodes)
    one, two = run_of("one"), run_of("two")
    await setting.see([one, two], mixed("one", 730), mixed("two", 730), until=730)
    await nodes.answered.wait()
    assert nodes.asked == ["one"], "one run at a time"
    await setting.see([one, two], minutes("two", 5, 90.0, start=730), until=735)
    assert nodes.asked == ["one"]
    await setting.watcher.close()
    nodes.hang = False
    await setting.see([one, two], minutes("two", 5, 90.0, start=735), until=740)
    await asyncio.sleep(0)
    assert nodes.asked == ["one", "one"], "the first question had no answer"
    await setting.see([one, two], minutes("two", 5, 90.0, start=740), until=745)
    await asyncio.sleep(0)
    assert nodes.asked == ["one", "one"]


@pytest.mark.parametrize("fault", [Unavailable("no node answered"), RuntimeError("boom")])
async def test_a_question_that_fails_is_logged_and_confirms_nothing(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nodes = Nodes()
    nodes.fault = fault
    setting = Setting(nodes)
    run = run_of("pipeline")
    await setting.see([run], mixed("pipeline", 730), until=730)
    await nodes.answered.wait()
    await asyncio.sleep(0)
    assert "GPUs of run team/pipeline were not asked for" in caplog.text
    idle = setting.watcher.noted(run, run.current_status).idle
    assert idle is None or not idle.confirmed


async def test_the_looker_reads_the_answers_of_nodes() -> None:
    rows, nan = 4, float("nan")
    values = [used if each.name == "gpu.used" else nan for used in (0.0, 95.0) for each in GPU] * rows
    at, own = array("d", [0.0] * rows).tobytes(), array("f", [nan] * len(MEMBER) * rows).tobytes()
    member = Series("pod-1", at, own, ("GPU-a", "GPU-b"), array("f", values).tobytes(), {})
    seen: list[Asked] = []

    async def ask(asked: Sequence[Asked], seconds: float) -> dict[int, Answer]:
        seen.extend(asked)
        return {0: Answer((member,))}

    def pod_of(rank: int, phase: str = "Running") -> SimpleNamespace:
        return SimpleNamespace(
            member=SimpleNamespace(rank=rank),
            status=SimpleNamespace(phase=phase),
            spec=SimpleNamespace(node_name=f"g{rank}"),
            metadata=SimpleNamespace(uid=f"pod-{rank}"),
        )

    mirror = SimpleNamespace(pods_of_run=lambda run: [pod_of(0), pod_of(1), pod_of(2, "Pending")])
    now = lambda: datetime.fromtimestamp(NOON, UTC)  # noqa: E731
    inspector = NodeGpuInspector(cast(Questions, SimpleNamespace(ask=ask)), cast(Mirror, mirror), now)
    assert await inspector.idle_gpus(run_of("x"), 1, Limits()) == (Place(1, 0),)
    assert [(each.node, each.uids, each.since) for each in seen] == [("g1", ("pod-1",), NOON - 3600)]
