"""The pages of the cluster and of the queue in a browser, with 7,500 nodes.

The nodes and the Pods on them are written objects on a small API server in this process: simulated kubelets of 7,500
nodes would take a minute to start. The Web API is the real one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.harness.chromium import new_page, visit
from tests.harness.web_api import LeaderHere
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node, pod, run

from kajitori.api.queue import state
from kajitori.api.serving.server import ApiServer
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.formats.times import format_time
from kajitori.core.leadership import LeaderState
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Credentials, KubeConfig

if TYPE_CHECKING:
    from playwright.async_api import Page, Position

NODES = 7_500
USED = 6_000
"""Nodes with a member of the run `large`; the run `larger` waits for 2,000 and has to wait for their end."""
REQUESTS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
TEMPLATE = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": REQUESTS}}]}}
WANTS: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 8, "gpuType": "h100"}, "timeLimit": "3h"}


def name_of(number: int) -> str:
    """Return the name of a node; numbers begin at 1."""
    return f"gpu-{number:05d}"


def place_of(number: int) -> dict[str, str]:
    """Return the labels of a node's place: 16 nodes a rack, 2,500 a zone."""
    zone, rack = (number - 1) // 2_500, (number - 1) // 16
    return {"topology.kubernetes.io/zone": f"zone-{zone}", "kajitori.dev/rack": f"rack-{rack}"}


@pytest.fixture
async def large_cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[FakeKubernetes, str]]:
    """The small API server with all objects, and the URL of a Web API for it."""
    monkeypatch.setattr(state, "ANSWER_SECONDS", 60.0)  # no answer lacks a part on a busy machine
    async with fake_kubernetes() as kubernetes:
        for number in range(1, NODES + 1):
            made = node(name_of(number), gpus=8, gpu_type="h100")
            made["metadata"]["labels"] |= place_of(number)
            kubernetes.put("nodes", made)
        now = format_time(datetime.now(UTC))
        attempt = {"number": 1, "nodes": f"gpu-[00001-{USED:05d}]", "created": True, "startedAt": now}
        status = {"phase": "Running", "attempts": 1, "startedAt": now, "members": {"total": USED, "running": USED}}
        status |= {"attempt": attempt | {"template": template_text(TEMPLATE)}}
        large = kubernetes.put("runs", run("large", owner="grace", replicas=USED, **WANTS) | {"status": status})
        for rank in range(USED):
            kubernetes.put("pods", pod(large, rank=rank, node=name_of(rank + 1), gpus=8))
        queued = {"phase": "Queued", "reason": "WaitingForGPU", "queuedAt": now}
        kubernetes.put("runs", run("larger", replicas=2_000, **WANTS) | {"status": queued})
        config = KubeConfig(server=kubernetes.url, credentials=Credentials(token="server"), namespace="team")
        async with KubeClient(config) as client, Mirror(client) as mirror:
            await mirror.wait_synced()
            parts = ApiDependencies(client=client, mirror=mirror, policy=PolicyFile(None), leader=LeaderHere())
            async with ApiServer(web_app(parts)) as server:
                yield kubernetes, server.url


@pytest.fixture
async def page(large_cluster: tuple[FakeKubernetes, str]) -> AsyncIterator[Page]:
    """A page of a browser that sends a user's token with its requests."""
    async with new_page(extra_http_headers={"Authorization": "Bearer ada"}) as page:
        yield page


async def test_7500_nodes_and_their_queue_are_shown(
    large_cluster: tuple[FakeKubernetes, str], page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map has a cell for each node, which the pointer finds and a click opens; the filter and the legend count
    them, also after a change. The timeline shows when a run of thousands of nodes is expected to start, by GPU type and
    by node, and the map which nodes it waits for. The queue says so if no controller is at work."""
    kubernetes, url = large_cluster
    await visit(page, f"{url}/cluster")
    nodes = page.get_by_role("img", name="Map of 7500 nodes")
    await nodes.wait_for()
    await page.get_by_role("button", name=f"Fully used {USED:,}").wait_for()
    await see_one(page)
    await page.get_by_label("Filter").fill("gpu-07")
    counted = page.get_by_role("status")
    await counted.get_by_text("501 of 7500 nodes").wait_for()
    kubernetes.change("nodes", name_of(NODES), namespace="", spec={"unschedulable": True})
    await page.get_by_role("button", name="Takes no work 1").click()
    await counted.get_by_text("1 of 7500 nodes").wait_for()
    await page.get_by_role("button", name="Table").click()
    await page.get_by_role("table", name="Nodes").get_by_role("row").filter(has_text=name_of(NODES)).wait_for()
    await page.get_by_role("link", name="Queue").click()
    await page.get_by_text("1 run waits, 1 run has nodes.").wait_for()
    timeline = page.get_by_role("img", name="Timeline of 2 runs")
    await timeline.wait_for()
    await page.get_by_role("button", name="By node").click()
    await page.get_by_role("button", name="By node", pressed=True).wait_for()
    await timeline.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        await page.keyboard.press(key)
    await page.wait_for_url(re.compile("/queue/team/larger"))
    panel = page.get_by_role("region", name="Run team/larger")
    await panel.get_by_text(re.compile("^team/large ends on ")).wait_for()
    await panel.get_by_role("link", name="Show these nodes on the map").click()
    await counted.get_by_text(f"{USED} of 7500 nodes").wait_for()
    monkeypatch.setattr(LeaderHere, "state", lambda self: LeaderState("gone", 45.0))
    await page.get_by_role("link", name="Queue").click()
    absent = page.get_by_role("alert").filter(has_text="No controller has renewed its lease for 45 s")
    await absent.get_by_text("kaji version").wait_for()


async def see_one(page: Page) -> None:
    """Point at the first cell, below the heading of the first zone, and open its node."""
    place: Position = {"x": 3, "y": 27}
    nodes, name = page.get_by_role("img", name="Map of 7500 nodes"), name_of(1)
    await nodes.hover(position=place)
    await page.locator("strong").get_by_text(name).wait_for()
    await nodes.click(position=place)
    await page.wait_for_url(re.compile(f"/cluster/{name}$"))
    node = page.get_by_role("region", name=f"Node {name}")
    await node.get_by_role("link", name="large").wait_for()
    await node.get_by_role("button", name="Close").click()
