"""Run controllers as they are put together."""

from __future__ import annotations

import asyncio

from tests.helpers.scenes.queue_scene import mirror_of_nodes

from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig


async def test_a_controller_whose_term_is_over_follows_the_mirror_no_more() -> None:
    """A process that leads again and again would otherwise do the work of all earlier terms at each change."""
    mirror = mirror_of_nodes(1)
    view = ClusterView(mirror, PolicyFile(None))
    followers = len(mirror._callbacks)
    async with KubeClient(KubeConfig(server="http://127.0.0.1:1")) as client:
        for _ in range(2):
            term = asyncio.create_task(run_controller(client, mirror, view).run(asyncio.Event()))
            await asyncio.sleep(0)
            assert len(mirror._callbacks) > followers
            term.cancel()
            await asyncio.gather(term, return_exceptions=True)
            assert len(mirror._callbacks) == followers
