"""What the keeper of NetworkPolicies believes is what the watch told last, not what it wrote itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from kajitori.controllers.networks import NetworkKeeper
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import ObjectMeta, RunObject

RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
RULES = {"policyTypes": ["Egress"], "egress": []}


class Server:
    """Takes what is made; somebody deletes it, and the watch tells of both, before the answer is read."""

    def __init__(self) -> None:
        self.made = 0

    async def create(self, resource: object, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        self.made += 1
        return {**body, "metadata": {**body["metadata"], "uid": "p1", "resourceVersion": str(self.made)}}


async def test_deleted_before_its_making_was_answered() -> None:
    """It is made again at the next look."""
    server = Server()
    keeper = NetworkKeeper(cast(KubeClient, server), lambda key: None)
    keeper._synced = True
    await keeper.ensure(RUN, RULES)
    await keeper.keep(RUN, RULES)
    assert server.made == 2
