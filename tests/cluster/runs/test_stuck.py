"""A gang that hangs is found without being asked for, on the embedded server and on a real kube-apiserver."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.harness.cluster import Cluster, this_machine
from tests.harness.parts import HERE
from tests.harness.waiting import until
from tests.harness.web_api import web_api

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.gpus import NoGpus
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.opening import open_blobs
from kajitori.blobs.questions import Questions
from kajitori.controllers.watching.feed import SETTLE_SECONDS
from kajitori.core.spec.reasons import Phase
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.entrypoints.parts.telemetry import telemetry
from kajitori.history.store import History

PROGRAM = """
import os, threading, time

def load_batch():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def wait_for_others():
    time.sleep(1000)

load_batch() if os.environ["KAJI_RANK"] == "2" and os.environ["KAJI_ATTEMPT"] == "1" else wait_for_others()
"""


async def test_a_gang_that_hangs_restarts_and_its_stacks_are_kept(cluster: Cluster, tmp_path: Path) -> None:
    """Ten quiet minutes are in history; the next leader finds them, looks twice and restarts the gang."""
    blobs, token = await open_blobs((tmp_path / "blobs").as_uri()), tmp_path / "token"
    cluster.history = history = History(f"sqlite://{tmp_path}/history.db")
    cluster.kept_logs, cluster.questions = KeptLogs(blobs), Questions(blobs)
    async with this_machine(cluster) as here, web_api(cluster, blobs=blobs, kept_logs=cluster.kept_logs) as web:
        first = cluster.start_controller()
        token.write_text(web.token)
        assert cluster.kubelet is not None
        async with telemetry(cluster.kubelet.running_containers, Servers((web.url,), token), HERE, NoGpus()):
            program = {"command": [sys.executable, "-c", PROGRAM], "nodeSelector": here, "grace": "1s"}
            stuck = {"stuckAfter": "3m", "onStuck": "restart", "restarts": 1}
            await cluster.submit("bert", replicas=3, resources={"cpu": 0.1, "memory": "64Mi"}, **program, **stuck)
            await cluster.reaches("bert", Phase.RUNNING)

            async def looked_at() -> bool:
                answer = await web.http.get(f"/v1/runs/{cluster.namespace}/bert/stacks")
                return len(answer.json().get("ranks", ())) == 3

            await until(looked_at, "the node's agent")
            await history.record_telemetry(
                quiet_minutes(
                    cluster.mirror.runs[cluster.namespace, "bert"].metadata.uid, cluster.mirror.now().timestamp()
                )
            )
            await cluster.kill_controller(first)
            cluster.start_controller()

            async def restarted() -> Any:
                found = cluster.mirror.runs[cluster.namespace, "bert"].status
                again = found is not None and found.attempts == 2 and found.phase is Phase.RUNNING
                return found if again else None

            status = await until(restarted, "the second attempt")
            assert (status.restarts, status.stuck, status.setback.reason) == (1, None, "Stuck")
            assert "seem to wait for rank 2 on" in status.setback.message
            assert list(status.avoid_nodes.values()) == [1], "the node of the odd rank"
            kept = await web.kaji("why", "--attempt", "1", "bert")
            assert "It is stuck" in kept.stdout and "load_batch" in kept.stdout and "2 ranks (0-1)" in kept.stdout
            events = await web.kaji("events", "bert")
            assert "Stuck" in events.stdout
    await history.close()


def quiet_minutes(run_uid: str, now: float) -> list[Interval]:
    """Return ten minutes of three ranks that print nothing, the last of which has just settled."""
    last = int(now - SETTLE_SECONDS) // 60 * 60 - 60

    def minute(number: int) -> Interval:
        age = Band(3, 600.0, 600.0, 600.0, 600.0, 600.0, Place(0), Place(2))
        return Interval(run_uid, 1, 60, last - 60 * number, 3, {"output.age": age})

    return [minute(number) for number in range(10)]
