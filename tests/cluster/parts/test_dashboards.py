"""Dashboards and alerts ask for what a real API server, a real etcd, our Web API and our controller expose.

One Prometheus reads them all. The dashboard about traffic is compared with an agent's metrics in tests/unit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.harness.cluster import Cluster
from tests.harness.fixtures import REAL
from tests.harness.servers.real_server import RealServer, free_port
from tests.harness.waiting import until
from tests.harness.web_api import web_api
from tests.helpers.objects.webhook import asked_for_pods
from tests.unit.deploy.test_dashboards import dashboard

from kajitori.cluster.view import ClusterView
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.errors import KajitoriError
from kajitori.kube.resources import PODS
from kajitori.monitoring.alerts import GROUPS
from kajitori.monitoring.controller import LEADING, REQUESTS_AT_A_TIME, ControllerMetrics
from kajitori.monitoring.metrics import new_registry
from kajitori.monitoring.probes import ProbeServer

pytestmark = [
    *REAL,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is missing: apt-get install prometheus"),
]

BOARDS = ("platform.json", "control-plane.json")
ELSEWHERE = {
    "rest_client_rate_limiter_duration_seconds_bucket",  # only clients that limit themselves have it
    "kajitori_agent_read_timestamp_seconds",  # only agents have it
    "kajitori_run_gpu_used_percent",  # only runs with GPUs have it, if agents report
    "kajitori_controller_write_errors_total",  # exists only after the first failure
}
"""Metrics of alerts that are not exposed here."""
GUARANTEES = [{"namespace": "vision", "gpus": 8}]


@contextlib.asynccontextmanager
async def prometheus(folder: Path, jobs: dict[str, dict[str, Any]]) -> AsyncIterator[str]:
    """Run a Prometheus that reads these jobs every second. Yields its URL."""
    scrapes = [{"job_name": name, "scrape_interval": "1s", "scrape_timeout": "1s", **job} for name, job in jobs.items()]
    (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": scrapes}))
    port = free_port()
    options = (f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'tsdb'}")
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", *options, stdout=log, stderr=log
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            await process.wait()


def queries() -> dict[str, str]:
    """Return each query of the dashboards by its panel."""
    return {
        f"{name}: {panel['title']}: {target['refId']}": target["expr"].replace("$__rate_interval", "5s")
        for name in BOARDS
        for panel in dashboard(name)["panels"]
        for target in panel.get("targets", ())
    }


async def without_data(http: aiohttp.ClientSession, url: str, asked: dict[str, str]) -> list[str]:
    """Return the names of the queries whose result is empty or not a number."""
    found = []
    for name, expr in asked.items():
        async with http.get(f"{url}/api/v1/query", params={"query": expr}) as response:
            answer = json.loads(await response.text())
        assert answer["status"] == "success", (name, answer)
        rows = answer["data"]["result"]
        if not any(row["value"][1] != "NaN" or "fsync" in expr for row in rows):  # the tests' etcd never calls fsync
            found.append(name)
    return found


async def test_every_panel_has_data_and_alerts_name_real_metrics(real_server: RealServer, tmp_path: Path) -> None:
    """A panel without data names a metric that another version renamed or that never existed."""
    cluster = Cluster(real_server, tmp_path)
    cluster.use_policy(guarantees=GUARANTEES)
    async with cluster.running(nodes=1), web_api(cluster) as api:
        metrics = ControllerMetrics(new_registry())
        metrics.add_mirror_gauges(lambda: True, lambda: "", cluster.mirror.age_seconds)
        metrics.add_gauge(LEADING, lambda: 1)
        metrics.add_gauge(REQUESTS_AT_A_TIME, lambda: 8)
        stop = asyncio.Event()
        controller = run_controller(
            cluster.client, cluster.mirror, ClusterView(cluster.mirror, cluster.policy), metrics=metrics
        )
        working = asyncio.create_task(controller.run(stop))
        probes = ProbeServer(metrics.registry, host="127.0.0.1", port=0, ready=lambda: "")
        async with (
            probes,
            asked_for_pods(cluster.client, cluster.namespace, tmp_path) as webhook,
            prometheus(tmp_path, jobs(real_server, api.url, probes.url)) as url,
            aiohttp.ClientSession() as http,
        ):
            webhook.refuses = "-"
            missing: list[str] = ["Prometheus"]

            async def all_have_data() -> bool:
                """Make one request of each kind, so that every rate has data, and return whether all queries have
                results."""
                with contextlib.suppress(KajitoriError):
                    await cluster.client.create(PODS, POD, cluster.namespace)
                await cluster.submit(f"run-{secrets.token_hex(4)}", replicas=1)
                with contextlib.suppress(aiohttp.ClientError, ValueError):  # no JSON until Prometheus is ready
                    missing[:] = await without_data(http, url, queries())
                return not missing

            await until(all_have_data, lambda: f"data in {missing}", every=1.0)
            names = {name for group in GROUPS for alert in group.alerts for name in alert.metrics()} - ELSEWHERE
            assert not await without_data(http, url, {name: f"count({name})" for name in sorted(names)})
        stop.set()
        await working


POD = {"metadata": {"generateName": "x-"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}


def jobs(server: RealServer, *ours: str) -> dict[str, dict[str, Any]]:
    """Return Prometheus' jobs: the API server, etcd, and our parts."""
    address = server.config.server.partition("://")[2]
    found: dict[str, dict[str, Any]] = {
        "apiserver": {
            "scheme": "https",
            "tls_config": {"insecure_skip_verify": True},
            "authorization": {"credentials": server.tokens["admin"]},
            "static_configs": [{"targets": [address]}],
        }
    }
    for number, url in enumerate((server.etcd_url, *ours)):
        found[f"part-{number}"] = {"static_configs": [{"targets": [url.partition("://")[2]]}]}
    return found
