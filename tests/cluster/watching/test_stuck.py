"""A gang that hangs is found without being asked for, on the embedded server and on a real kube-apiserver."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.harness.cluster import POLICY, Cluster, this_machine
from tests.harness.platform.parts import HERE
from tests.harness.platform.receiver import RECEIVED, add_channel, receiving
from tests.harness.waiting import until
from tests.harness.web_api import web_api

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.gpus.readings import NoGpus
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.questions import Questions
from kajitori.blobs.stores.opening import open_blobs
from kajitori.controllers.watching import evidence
from kajitori.controllers.watching import feed as feeds
from kajitori.controllers.watching.feed import Feed
from kajitori.core.messages.channels import team
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.entrypoints.parts.telemetry import telemetry
from kajitori.history.store import History

AHEAD_SECONDS = 120
"""Minutes up to this far in the future count as measured: a look counts only after telemetry of its time has come."""
PROGRAM = """
import os, sys, threading, time

def load_batch():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def wait_for_others():
    time.sleep(1000)

def fail_when_told():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.1)
    sys.exit(3)

does = {("2", "1"): load_batch, ("1", "2"): fail_when_told}
does.get((os.environ["KAJI_RANK"], os.environ["KAJI_ATTEMPT"]), wait_for_others)()
"""


async def test_stacks_of_a_gang_that_hangs_and_then_fails_are_kept(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten quiet minutes are in history. The next leader finds them, looks twice, tells the team and restarts the gang.
    Then a member fails, and the others are looked at before they are ended."""
    blobs, token = await open_blobs((tmp_path / "blobs").as_uri()), tmp_path / "token"
    cluster.history = history = History(f"sqlite://{tmp_path}/history.db")
    start = POLICY["start"] | {"restartGrace": "10s"}  # time for stacks, also on a busy machine
    has_read, look = asyncio.Event(), Feed.look

    async def noted_look(feed: Feed) -> None:
        await look(feed)
        has_read.set()

    monkeypatch.setattr(Feed, "look", noted_look)
    monkeypatch.setattr(feeds, "SETTLE_SECONDS", -AHEAD_SECONDS)
    monkeypatch.setattr(evidence, "PAUSES_SECONDS", (0.5,))
    cluster.kept_logs, cluster.questions = KeptLogs(blobs), Questions(blobs)
    async with (
        receiving() as receiver,
        this_machine(cluster, rules={"start": start, "notifications": RECEIVED}) as here,
        web_api(cluster, blobs=blobs, kept_logs=cluster.kept_logs) as web,
    ):
        await add_channel(cluster, team(cluster.namespace), receiver.url, ("stuck",))
        controller = cluster.start_controller()
        token.write_text(web.token)
        assert cluster.kubelet is not None
        async with telemetry(cluster.kubelet.running_containers, Servers((web.url,), token), HERE, NoGpus()):
            program = {
                "command": [sys.executable, "-c", PROGRAM, str(tmp_path / "fail")],
                "nodeSelector": here,
                "grace": "10s",
            }
            stuck = {"stuckAfter": "3m", "onStuck": "restart", "restarts": 2}
            await cluster.submit("bert", replicas=3, resources={"cpu": 0.1, "memory": "64Mi"}, **program, **stuck)
            await cluster.reaches("bert", Phase.RUNNING)

            async def looked_at() -> bool:
                answer = await web.http.get(f"/v1/runs/{cluster.namespace}/bert/stacks")
                return len(answer.json().get("ranks", ())) == 3

            await until(looked_at, "the node's agent")

            async def next_leader(attempt: int, output_age: float) -> asyncio.Task[None]:
                """Kill the leader; the next one finds ten minutes of this attempt in history."""
                await cluster.kill_controller(controller)
                uid, now = cluster.mirror.runs[cluster.namespace, "bert"].metadata.uid, cluster.mirror.now().timestamp()
                await history.record_telemetry(ten_minutes(uid, attempt, now, output_age))
                has_read.clear()
                started = cluster.start_controller()
                await has_read.wait()
                return started

            async def runs_again(attempts: int) -> RunStatus | None:
                found = cluster.mirror.runs[cluster.namespace, "bert"].status
                return found if found and (found.attempts, found.phase) == (attempts, Phase.RUNNING) else None

            controller = await next_leader(1, 600.0)
            status = await until(lambda: runs_again(2), "the second attempt")
            assert status is not None and (status.restarts, status.stuck) == (1, None)
            assert status.setback is not None and status.setback.reason == "Stuck"
            assert "seem to wait for rank 2 on" in status.setback.message
            assert list(status.avoid_nodes.values()) == [1], "the node of the odd rank"
            kept = await web.kaji("why", "--attempt", "1", "bert")
            await cluster.until(lambda: len(receiver.about("stuck")) == 1, "the team is told")
            assert "It is stuck" in kept.stdout and "load_batch" in kept.stdout and "2 ranks (0-1)" in kept.stdout

            controller = await next_leader(2, 5.0)
            (tmp_path / "fail").touch()
            await until(lambda: runs_again(3), "the third attempt")
            kept = await web.kaji("why", "--attempt", "2", "bert")
            assert "before its members were ended: member 1: exit code 3" in kept.stdout
            assert "2 ranks (0,2) are in wait_for_others" in kept.stdout
    await history.close()


def ten_minutes(run_uid: str, attempt: int, now: float, output_age: float) -> list[Interval]:
    """Return ten minutes of three ranks whose last output is this old. The last one ends a minute from now or later."""
    last = int(now + AHEAD_SECONDS) // 60 * 60 - 60
    age = Band(3, output_age, output_age, output_age, output_age, output_age, Place(0), Place(2))
    return [Interval(run_uid, attempt, 60, last - 60 * number, 3, {"output.age": age}) for number in range(10)]
