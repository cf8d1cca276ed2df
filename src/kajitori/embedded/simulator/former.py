"""Removal of simulated nodes that nothing simulates any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container

from kajitori.embedded.objects import Node
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES


async def remove_former_nodes(client: KubeClient, labels: str, current: Container[str]) -> list[str]:
    """Delete the Nodes with these labels (a selector) that are not among the current names, and return their names.
    Their Pods go with them, so runs there are started again elsewhere."""
    listing = await client.list(NODES, label_selector=labels, type=Node)
    former = [node.metadata.name for node in listing.items if node.metadata.name not in current]

    async def remove(name: str) -> None:
        with contextlib.suppress(NotFound):  # a user has deleted it meanwhile
            await client.delete(NODES, name)

    await asyncio.gather(*map(remove, former))
    return former
