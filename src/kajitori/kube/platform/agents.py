"""Which node an agent speaks for: its token says so, and the API server that the token is good.

Agents show a token of their own, which their kubelet has made for their Pod and for Kajitori alone (a projected one
with this audience): shown to the API server itself it opens nothing. Kubernetes writes the node into it (from 1.32 on,
KEP-4193). The API server is asked when a token is first seen and two or three times in its hour: 7,500 agents are six
questions a second. When it ends, it says itself; that its Pod is still there, the mirror shows.
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

from kajitori.core.words import names
from kajitori.errors import Forbidden, Unauthenticated, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.resources import TOKEN_REVIEWS

AUDIENCE = "kajitori"
KNOWN_SECONDS = 1800.0
"""After this at most the API server is asked again, and half of it at least: not about all agents at once."""
UNKNOWN_SECONDS = 10.0
UNANSWERED_SECONDS = 60.0
"""While the API server does not answer, what it has said of a token counts, to the token's own end; it is asked again
after this at most."""
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
    until: float
    """By the reader's clock: when the token ends, as it says; infinity where it does not say."""


class AgentTokens:
    """Tells agents' tokens from others. The tokens themselves are not kept."""

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
        """account: `namespace/name` of the service account that agents have. now: the time of day, in Unix time."""
        self._client = client
        self._mirror = mirror
        self._account = account
        self._clock = clock
        self._now = now
        self._chance = chance
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
        if not self._is_there(agent):
            raise Forbidden(f"the Pod {agent.pod} of this token is not on node {node}", hint=_HINT)

    def still_good(self, token: str) -> bool:
        """Whether a token that was accepted is to be accepted on: at once, and at no cost.

        Not after its end, nor when its Pod is gone. Where it is time to ask the API server again, that is begun; what
        it answers counts the next time. While it does not answer, what it said before does.
        """
        key = _key(token)
        until, agent = self._known.get(key, (0.0, None))
        if agent is None or agent.until <= self._clock() or not self._is_there(agent):
            return False
        if until <= self._clock() and key not in self._asking:
            self._begin(key, token)
        return True

    def remembers(self, token: str) -> bool:
        """Whether the API server need not be asked about this token now."""
        return self._known.get(_key(token), (0.0, None))[0] > self._clock()

    async def read(self, token: str) -> Agent | None:
        """Whose token this is; None where it is no agent's. Raises Unavailable."""
        if not token or len(token) > MOST_TOKEN_LENGTH:
            return None
        key = _key(token)
        until, known = self._known.get(key, (0.0, None))
        if until > self._clock():
            return known
        return await asyncio.shield(self._asking.get(key) or self._begin(key, token))

    def _is_there(self, agent: Agent) -> bool:
        pod = self._mirror.pods.get((agent.account.partition("/")[0], agent.pod))
        return pod is not None and pod.metadata.uid == agent.pod_uid and pod.spec.node_name == agent.node

    def _begin(self, key: bytes, token: str) -> asyncio.Task[Agent | None]:
        asking = self._asking[key] = asyncio.create_task(self._ask(token))
        asking.add_done_callback(lambda task: self._asked(key, task))
        return asking

    def _asked(self, key: bytes, task: asyncio.Task[Agent | None]) -> None:
        del self._asking[key]
        if task.cancelled():
            return
        _, agent = self._known.get(key, (0.0, None))
        if task.exception() is None:
            agent = task.result()
            pause = UNKNOWN_SECONDS if agent is None else KNOWN_SECONDS * (0.5 + 0.5 * self._chance())
        elif agent is None:
            return
        else:
            pause = UNANSWERED_SECONDS * (0.5 + 0.5 * self._chance())
        until = self._clock() + pause
        self._known[key] = until if agent is None else min(until, agent.until), agent
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

        ends = self._clock() + (_end_of(token) - self._now())
        return Agent(self._account, extra("pod-name"), extra("pod-uid"), extra("node-name"), ends)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _end_of(token: str) -> float:
    """When a token ends, as it says itself (`exp` of RFC 7519), in Unix time; infinity where it says nothing. To be
    believed only of tokens that the API server takes."""
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return math.inf
    end = said.get("exp") if isinstance(said, dict) else None
    return float(end) if isinstance(end, int | float) else math.inf
