"""A Web API over a fake API server, called in memory or over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node

from kajitori.api.context import Api
from kajitori.api.queue import state
from kajitori.api.serving.server import ApiServer
from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.web_limits import WebLimits
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Credentials, KubeConfig
from kajitori.kube.connection.retry import NO_RETRY

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that only tests move."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """The fake API server, the mirror of it, and the Web API."""

    kubernetes: FakeKubernetes
    mirror: Mirror
    app: FastAPI
    http: httpx2.AsyncClient
    clock: Clock
    blobs: MemoryBlobs

    @property
    def api(self) -> Api:
        api: Api = self.app.state.kajitori
        return api

    def change(self, group: str = "", **parts: Any) -> None:
        """Replaces parts of the Web API, or of a group of its parts."""
        if group:
            parts = {group: replace(getattr(self.api, group), **parts)}
        self.app.state.kajitori = replace(self.api, **parts)

    async def caught_up(self) -> None:
        """Wait until the mirror shows everything that the fake API server stores."""
        import asyncio

        changed = asyncio.Event()
        unsubscribe = self.mirror.on_change(lambda *_: changed.set())
        try:
            async with asyncio.timeout(60):
                while not self._is_caught_up():
                    changed.clear()
                    if not self._is_caught_up():
                        await changed.wait()
        finally:
            unsubscribe()

    def _is_caught_up(self) -> bool:
        stores: dict[str, Any] = {"runs": self.mirror.runs, "pods": self.mirror.pods}
        for plural, store in stores.items():
            held = {
                key[1:]: item["metadata"]["resourceVersion"]
                for key, item in self.kubernetes.objects.items()
                if key[0] == plural
            }
            if held != {key: item.metadata.resource_version for key, item in store.items()}:
                return False
        nodes = {
            key[2]: item["metadata"]["resourceVersion"]
            for key, item in self.kubernetes.objects.items()
            if key[0] == "nodes"
        }
        return nodes == {name: node.metadata.resource_version for name, node in self.mirror.nodes.items()}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a minute per answer, so that no part is left out on a busy machine."""
    monkeypatch.setattr(state, "ANSWER_SECONDS", 60.0)


@pytest.fixture
async def kubernetes() -> AsyncIterator[FakeKubernetes]:
    async with fake_kubernetes() as fake:
        fake.put("nodes", node("n1"))
        fake.put("nodes", node("g1", gpus=8, gpu_type="h100"))
        fake.put("nodes", node("g2", gpus=8, gpu_type="h100"))
        yield fake


@pytest.fixture
def limits() -> WebLimits:
    """The Web API's limits; a test module may override them."""
    return WebLimits()


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    """The Web API's history, which is empty."""
    made = History(f"sqlite://{tmp_path}/history.db")
    yield made
    await made.close()


@pytest.fixture
async def world(kubernetes: FakeKubernetes, limits: WebLimits, history: History) -> AsyncIterator[World]:
    config = KubeConfig(server=kubernetes.url, credentials=Credentials(token="server"), namespace="team")
    clock, blobs = Clock(), MemoryBlobs()
    async with KubeClient(config, retry=NO_RETRY) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        app = web_app(
            ApiDependencies(
                client=client,
                mirror=mirror,
                policy=PolicyFile(None),
                code=CodeStore(blobs, lambda: CodeLimits(size_bytes=64 << 20)),
                blobs=blobs,
                history=history,
                limits=limits,
                user_client=lambda token: KubeClient(config.with_token(token), retry=NO_RETRY),
                now=lambda: NOW,
                clock=clock,
            )
        )
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"Authorization": "Bearer ada"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://kaji", headers=headers) as http:
            yield World(kubernetes, mirror, app, http, clock, blobs)
        await app.state.kajitori.close()


@pytest.fixture
async def served(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    """The same API behind a real HTTP server, for streams."""
    async with ApiServer(world.app) as server:
        headers = {"Authorization": "Bearer ada"}
        timeout = httpx2.Timeout(20.0)
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=timeout) as http:
            yield http
