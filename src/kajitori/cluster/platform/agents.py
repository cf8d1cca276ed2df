"""Identifies the node of an agent by its token, which the API server verifies.

An agent shows a projected token that its kubelet requested for its Pod, with Kajitori as the only audience, so the API
server itself does not accept it. Kubernetes writes the node into it (from 1.32 on, KEP-4193). The API server reviews a
token when it is first seen, and two or three times in its hour: 7,500 agents cause six reviews a second. The token
names its own end, and the mirror shows whether its Pod still exists.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.core.naming import names
from kajitori.errors import Forbidden, Unauthenticated, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import TOKEN_REVIEWS

AUDIENCE = "kajitori"
REVIEW_SECONDS = 1800.0
"""Longest time for which a review counts; the shortest is half of it, so that not all agents are reviewed at once."""
REJECTED_SECONDS = 10.0
UNANSWERED_SECONDS = 60.0
"""While the API server does not answer, its last review counts until the token ends; the next try comes after this time
at the latest."""
MAX_TOKENS = 20_000
MAX_TOKEN_LENGTH = 16_384

_EXTRA = "authentication.kubernetes.io/"
_HINT = "agents show their own token, projected with audience kajitori, as in deploy/agent.yaml"


@dataclass(frozen=True, slots=True)
class Agent:
    """The identity that a token proves."""

    account: str
    """`namespace/name` of its service account."""
    pod: str
    pod_uid: str
    node: str
    until: float
    """When the token ends, on the reader's clock; infinity if it does not say."""


class AgentTokens:
    """Identifies agents by their tokens. The tokens themselves are not kept."""

    def __init__(
        self,
        client: KubeClient,
        mirror: Mirror,
        account: str = names.AGENT_ACCOUNT,
        clock: Callable[[], float] = time.monotonic,
        *,
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`account` is `namespace/name` of the agents' service account. `now` returns Unix time."""
        self._client = client
        self._mirror = mirror
        self._account = account
        self._clock = clock
        self._now = now
        self._chance = chance
        self._known: OrderedDict[bytes, tuple[float, Agent | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Agent | None]] = {}

    async def require(self, token: str, node: str) -> None:
        """Return if this is the token of the node's agent.

        Raises Unauthenticated if it is no agent's token, Forbidden if it is that of another node or of a deleted Pod,
        Unavailable if the API server does not answer.
        """
        agent = await self.read(token)
        if agent is None:
            raise Unauthenticated("this is not the token of an agent", hint=_HINT)
        if agent.node != node:
            message = f"this is the token of the agent on node {agent.node or '(not in the token)'}, not {node}"
            raise Forbidden(
                message,
                hint="an agent reports for its own node only; Kubernetes 1.32 or newer writes the node into the token",
            )
        if not self._is_there(agent):
            raise Forbidden(f"the Pod {agent.pod} of this token is not on node {node}", hint=_HINT)

    def still_good(self, token: str) -> bool:
        """Return whether an accepted token is still valid: at once, and without a request.

        It is not valid after its end, or when its Pod is gone. If a review is due, it starts in the background, and its
        result counts the next time. While the API server does not answer, the last review counts.
        """
        key = _cache_key(token)
        until, agent = self._known.get(key, (0.0, None))
        if agent is None or agent.until <= self._clock() or not self._is_there(agent):
            return False
        if until <= self._clock() and key not in self._asking:
            self._start_review(key, token)
        return True

    def is_cached(self, token: str) -> bool:
        """Return whether this token needs no review now."""
        return self._known.get(_cache_key(token), (0.0, None))[0] > self._clock()

    async def read(self, token: str) -> Agent | None:
        """Return the agent with this token; None if it is no agent's. Raises Unavailable."""
        if not token or len(token) > MAX_TOKEN_LENGTH:
            return None
        key = _cache_key(token)
        until, known = self._known.get(key, (0.0, None))
        if until > self._clock():
            return known
        return await asyncio.shield(self._asking.get(key) or self._start_review(key, token))

    def _is_there(self, agent: Agent) -> bool:
        pod = self._mirror.pods.get((agent.account.partition("/")[0], agent.pod))
        return pod is not None and pod.metadata.uid == agent.pod_uid and pod.spec.node_name == agent.node

    def _start_review(self, key: bytes, token: str) -> asyncio.Task[Agent | None]:
        asking = self._asking[key] = asyncio.create_task(self._review_token(token))
        asking.add_done_callback(lambda task: self._note_review(key, task))
        return asking

    def _note_review(self, key: bytes, task: asyncio.Task[Agent | None]) -> None:
        del self._asking[key]
        if task.cancelled():
            return
        _, agent = self._known.get(key, (0.0, None))
        if task.exception() is None:
            agent = task.result()
            pause = REJECTED_SECONDS if agent is None else REVIEW_SECONDS * (0.5 + 0.5 * self._chance())
        elif agent is None:
            return
        else:
            pause = UNANSWERED_SECONDS * (0.5 + 0.5 * self._chance())
        until = self._clock() + pause
        self._known[key] = until if agent is None else min(until, agent.until), agent
        self._known.move_to_end(key)
        while len(self._known) > MAX_TOKENS:
            self._known.popitem(last=False)

    async def _review_token(self, token: str) -> Agent | None:
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

        ends = self._clock() + (_end_of(token) - self._now())
        return Agent(self._account, extra("pod-name"), extra("pod-uid"), extra("node-name"), ends)


def _cache_key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _end_of(token: str) -> float:
    """Return when a token ends, as it says itself (`exp` of RFC 7519), in Unix time; infinity if it does not say.

    Use it only for tokens that the API server accepts.
    """
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return math.inf
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else math.inf
