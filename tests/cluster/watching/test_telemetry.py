"""Members are watched from their node, on the embedded server and on a real kube-apiserver with the process kubelet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.harness.cluster import Cluster, this_machine
from tests.harness.platform.parts import HERE
from tests.harness.waiting import until
from tests.harness.web_api import web_api
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.gpus.readings import NoGpus
from kajitori.core.spec.reasons import Phase
from kajitori.entrypoints.parts.telemetry import telemetry

PROGRAM = """
import json, os, time
with open(os.environ["KAJI_METRICS"], "a", buffering=1) as metrics:
    for step in range(100000):
        print(json.dumps({"step": step, "loss": 0.25 + int(os.environ["KAJI_RANK"])}), file=metrics)
        print("kaji-metrics:", json.dumps({"tokens_total": 100 * step}), flush=True)
        time.sleep(0.1)
"""


async def test_each_rank_is_asked_from_its_node(cluster: Cluster, tmp_path: Path) -> None:
    """The answer has the resources that processes use, the file of figures, and figures in the log; `kaji` shows them
    too."""
    async with this_machine(cluster) as here, web_api(cluster, blobs=MemoryBlobs()) as web:
        cluster.start_controller()
        token = tmp_path / "token"
        token.write_text(web.token)
        assert cluster.kubelet is not None
        servers = Servers((web.url,), token)
        async with telemetry(cluster.kubelet.running_containers, servers, HERE, NoGpus()):
            program = {"command": [sys.executable, "-c", PROGRAM], "nodeSelector": here}
            await cluster.submit("bert", replicas=2, resources={"cpu": 0.2, "memory": "128Mi"}, **program)
            await cluster.reaches("bert", Phase.RUNNING)

            async def figures() -> list[dict[str, Any]]:
                path = f"/v1/runs/{cluster.namespace}/bert/stats"
                ranks = (await web.http.get(path)).json()["ranks"]
                found = [each["values"] for each in ranks if each.get("live")]
                wanted = {"cpu.used", "memory.used", "train.loss", "train.tokens_total", "output.age"}
                return found if len(found) == 2 and all(wanted <= each.keys() for each in found) else []

            values = await until(figures, "figures of both ranks")
            assert [each["train.loss"] for each in values] == [0.25, 1.25]
            assert all(each["memory.used"] > 1 << 20 for each in values)
            listed = await web.kaji("metrics", "--rank", "1", "--list", "bert", "train.loss")
            assert listed.stdout.splitlines()[1].split()[:2] == ["train.loss", "1.25"]
