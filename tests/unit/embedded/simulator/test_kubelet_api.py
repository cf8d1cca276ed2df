"""The API of simulated kubelets."""

from __future__ import annotations

import aiohttp
import pytest

from kajitori.embedded.simulator.kubelet_api import KubeletApi


@pytest.mark.parametrize("path", ["exec/ns/p/main", "attach/ns/p/main", "portForward/ns/p"])
async def test_streams_to_simulated_pods_are_refused(path: str) -> None:
    """The answer is 501 without an upgrade, for any protocol."""
    api = KubeletApi(lambda namespace, name: None, lambda node: ())
    port = await api.start("127.0.0.1")
    try:
        headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"https://127.0.0.1:{port}/{path}", headers=headers, ssl=False) as answer,
        ):
            assert answer.status == 501
            assert await answer.text() == "pod p is simulated: it has no processes to work with\n"
    finally:
        await api.stop()
