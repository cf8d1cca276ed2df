"""Which node an agent speaks for: its token says so, and the API server that the token is good.

Agents show a token of their own, which their kubelet has made for their Pod and for Kajitori alone (a projected one
with this audience): shown to the API server itself it opens nothing. Kubernetes writes the node into it (from 1.32 on,
KEP-4193). The API server is asked once for each token, some forty minutes of an agent's life; that its Pod is still
there, the mirror shows.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kajitori.core import names
from kajitori.errors import Forbidden, Unauthenticated, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror import Mirror
from kajitori.kube.resources import TOKEN_REVIEWS

AUDIENCE = "kajitori"
KNOWN_SECONDS = 3600.0
"""Kubelets replace a token before its hour is over."""
UNKNOWN_SECONDS = 10.0
MOST_TOKENS = 20_000
MOST_TOKEN_LENGTH = 16_384

_EXTRA = "authentication.kubernetes.io/"
_HINT = "agents show their own token, projected with audience kajitori, as in deploy/agent.yaml"


@dataclass(frozen=True, slots=True)
class Agent:
    """Whose token it is."""

    account: str
    """`namespace/name` of its service account."""
    pod: str
    pod_uid: str
    node: str


class AgentTokens:
    """Tells agents' tokens from others. The tokens themselves are not kept."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        account: str = names.AGENT_ACCOUNT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """account: `namespace/name` of the service account that agents have."""
        self._client = client
        self._mirror = mirror
        self._account = account
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Agent | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Agent | None]] = {}

    async def require(self, token: str, node: str) -> None:
        """Returns where this is the token of the node's agent.

        Raises Unauthenticated where it is no agent's, Forbidden where that of another node, or of a Pod that is gone;
        Unavailable where the API server does not answer.
        """
        agent = await self.read(token)
        if agent is None:
            raise Unauthenticated("this is not the token of an agent", hint=_HINT)
        if agent.node != node:
            said = f"this is the token of the agent on node {agent.node or '(not told by this Kubernetes)'}, not {node}"
            raise Forbidden(said, hint="an agent speaks for its own node; Kubernetes 1.32 or newer tells which")
        pod = self._mirror.pods.get((agent.account.partition("/")[0], agent.pod))
        if pod is None or pod.metadata.uid != agent.pod_uid or pod.spec.node_name != node:
            raise Forbidden(f"the Pod {agent.pod} of this token is not on node {node}", hint=_HINT)

    async def read(self, token: str) -> Agent | None:
        """Whose token this is; None where it is no agent's. Raises Unavailable."""
        if not token or len(token) > MOST_TOKEN_LENGTH:
            return None
        key = hashlib.sha256(token.encode()).digest()
        until, known = self._known.get(key, (0.0, None))
        if until > self._clock():
            return known
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(token))
            asking.add_done_callback(lambda task: self._asked(key, task))
        return await asyncio.shield(asking)

    def _asked(self, key: bytes, task: asyncio.Task[Agent | None]) -> None:
        del self._asking[key]
        if task.cancelled() or task.exception() is not None:
            return
        agent = task.result()
        self._known[key] = self._clock() + (UNKNOWN_SECONDS if agent is None else KNOWN_SECONDS), agent
        self._known.move_to_end(key)
        while len(self._known) > MOST_TOKENS:
            self._known.popitem(last=False)

    async def _ask(self, token: str) -> Agent | None:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "metadata": {},
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        try:
            answer = await self._client.create(TOKEN_REVIEWS, review)
        except (Forbidden, Unauthenticated) as error:
            hint = "whoever runs it has to let its account create tokenreviews, as deploy/rbac.yaml does"
            raise Unavailable(f"this server may not ask whose a token is: {error.message}", hint=hint) from error
        status: dict[str, Any] = answer.get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
            return None
        if user.get("username") != f"system:serviceaccount:{self._account.replace('/', ':')}":
            return None

        def extra(name: str) -> str:
            return str(next(iter((user.get("extra") or {}).get(_EXTRA + name) or ()), ""))

        return Agent(self._account, extra("pod-name"), extra("pod-uid"), extra("node-name"))
