"""Agents' tokens, an API server that accepts them, and a clock that stands still."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.agents import AUDIENCE, AgentTokens
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient

ACCOUNT = "kajitori/kajitori-agent"
DAY = 1_800_000_000.0
"""The time of day at the clock's zero."""


class Agents:
    """An API server that reviews tokens, the mirror of Pods, and a reader of both."""

    def __init__(self, chance: Callable[[], float] = lambda: 1.0) -> None:
        self.clock = 5_000.0
        self.asked: list[str] = []
        self.revoked: set[str] = set()
        self.opaque: dict[str, str] = {}
        """Tokens that only the API server can read, with their nodes."""
        self.trouble: KajitoriError | None = None
        self.pods: dict[tuple[str, str], Pod] = {}
        mirror, client = SimpleNamespace(pods=self.pods), SimpleNamespace(create=self._create)
        self.tokens = AgentTokens(
            cast(KubeClient, client),
            cast(Mirror, mirror),
            ACCOUNT,
            lambda: self.clock,
            now=lambda: DAY + self.clock,
            chance=chance,
        )

    def token(self, node: str = "n1", life: float = 3_600.0) -> str:
        """Return the token of the agent on a node; create its Pod if necessary."""
        pod = {"metadata": {"namespace": "kajitori", "name": f"agent-{node}", "uid": f"uid-{node}"}}
        self.pods["kajitori", f"agent-{node}"] = msgspec.convert(pod | {"spec": {"nodeName": node}}, Pod)
        said = {"node": node, "exp": int(DAY + self.clock + life)}
        return f"head.{base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip('=')}.signature"

    async def _create(self, _resource: object, review: dict[str, Any]) -> dict[str, Any]:
        token = review["spec"]["token"]
        self.asked.append(token)
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        said: dict[str, Any] = {}
        if token in self.opaque:
            said = {"node": self.opaque[token]}
        elif token.startswith("head."):
            said = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        if token in self.revoked or not said or said.get("exp", 1e12) <= DAY + self.clock:
            return {"status": {"error": "no"}}
        prefix, node = "authentication.kubernetes.io/", said["node"]
        extra = {"pod-name": [f"agent-{node}"], "pod-uid": [f"uid-{node}"], "node-name": [node]}
        user = {
            "username": f"system:serviceaccount:{ACCOUNT.replace('/', ':')}",
            "extra": {prefix + key: value for key, value in extra.items()},
        }
        return {"status": {"authenticated": True, "user": user, "audiences": [AUDIENCE]}}


async def settle() -> None:
    """Wait until all started tasks have ended."""
    for _ in range(5):
        await asyncio.sleep(0)
