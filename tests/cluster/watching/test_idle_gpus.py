"""Idle GPUs of a running run: the question survives a killed controller, policy parks, and a resume starts it again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.harness.cluster import Cluster
from tests.harness.platform.receiver import RECEIVED, Receiver, add_channel, receiving

from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.messages.channels import team
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.suspicions import IdleState
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.history.store import History

GPUS = {"cpu": 1, "memory": "1Gi", "gpu": 8}


@pytest.fixture
async def history(cluster: Cluster) -> AsyncIterator[History]:
    cluster.history = History(f"sqlite://{cluster.folder}/history.db")
    yield cluster.history
    await cluster.stop_controllers()
    await cluster.history.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


async def record(cluster: Cluster, history: History, name: str, *, used: float) -> None:
    """Store three hours in which the GPUs of a run were used like this."""
    run = cluster.run(name)
    assert run is not None
    uid, now = run.metadata.uid, int(cluster.mirror.now().timestamp()) // 60 * 60
    band = Band(8, used, used, used, used, used, Place(0, 0), Place(0, 0))
    await history.record_telemetry(
        [Interval(uid, 1, 60, at, 1, {"gpu.used": band}) for at in range(now - 3 * 3600, now - 60, 60)]
    )


async def test_a_run_with_idle_gpus_is_parked_only_after_a_warning(
    cluster: Cluster, history: History, receiver: Receiver
) -> None:
    """The question and the warning come to the team's webhook, once each."""
    cluster.use_policy(notifications=RECEIVED)
    await add_channel(cluster, team(cluster.namespace), receiver.url, ("idle",))
    leader = cluster.start_controller()
    for name in ("idle", "busy", "kept"):
        await cluster.submit(name, resources=GPUS)
    for name in ("idle", "busy", "kept"):
        await cluster.reaches(name, Phase.RUNNING)
        await record(cluster, history, name, used=90.0 if name == "busy" else 0.0)
    await cluster.change("kept", keepIdleUntil=format_time(datetime.now(UTC) + timedelta(days=365)))
    await cluster.until(lambda: cluster.status("kept").keep_limit, "policy limits what kubectl wrote")
    limit = cluster.status("kept").keep_limit
    until = parse_time(limit.until) if limit is not None else None
    assert until is not None and until < datetime.now(UTC) + timedelta(days=7, minutes=1)

    def found(name: str) -> IdleState | None:
        return cluster.status(name).idle

    await cluster.kill_controller(leader)  # the next one looks at once
    leader = cluster.start_controller()
    asked = await cluster.until(lambda: (idle := found("idle")) and idle.asked_at, "its owner is asked")
    await cluster.until(lambda: receiver.got, "its team is asked")
    assert "holds 8 h100 GPUs that nothing uses" in receiver.texts()["idle", "idle"]
    await cluster.kill_controller(leader)
    cluster.use_policy(idleGpus={"park": {"after": "3s", "warning": "2s"}}, notifications=RECEIVED)
    cluster.start_controller()
    parked = await cluster.reaches("idle", Phase.STOPPED)
    assert parked.reason is Reason.PARKED
    assert parked.idle is not None and parked.idle.asked_at == asked, "nobody asked twice"
    warned_at, parked_at = parse_time(parked.idle.warned_at), parse_time(parked.idle.parked_at)
    assert warned_at is not None and parked_at is not None and parked_at - warned_at >= timedelta(seconds=2)
    await cluster.until(lambda: (idle := found("kept")) and idle.since, "it is noted that it is kept")
    kept = found("kept")
    assert kept is not None and not kept.asked_at and cluster.status("kept").phase is Phase.RUNNING
    assert found("busy") is None and cluster.status("busy").phase is Phase.RUNNING

    await cluster.until(lambda: len({one for one, _ in receiver.got}) >= 2, "its team is warned")
    assert {(run, kind) for _, run, kind, _ in receiver.told()} == {("idle", "idle")}
    assert f"will be parked at {parked.idle.park_at}" in receiver.texts()["idle", "idle"]
    assert len({one for one, _ in receiver.got}) == 2

    await cluster.change("idle", resumes=1)
    again = await cluster.reaches("idle", Phase.RUNNING)
    assert again.idle is None and again.attempts == 2
