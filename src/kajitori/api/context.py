"""What the routes share."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from fastapi import Depends
from prometheus_client import CollectorRegistry
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kajitori.api.auth import Sessions
from kajitori.api.logs.slots import MAX_LOGS, Slots
from kajitori.api.problems import MEDIA_TYPE
from kajitori.api.runs.views import RunRenderer
from kajitori.api.serving.intake import UPLOADS_AT_ONCE, UPLOADS_OF_ONE, Budget, Questions, Turns
from kajitori.api.start.host_lists import HostLists
from kajitori.api.streams.answers import StreamRegistry
from kajitori.api.streams.event_feed import EventFeeds
from kajitori.api.streams.hub import RunHub
from kajitori.api.traffic.keeper import TrafficKeeper
from kajitori.blobs.blobs import Blobs
from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.health import HealthView
from kajitori.cluster.outlook import Outlook
from kajitori.cluster.pending import PendingRuns
from kajitori.cluster.preemptions import Preemptions
from kajitori.cluster.view import ClusterView
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.settings import LEASE_NAMESPACE, WebLimits
from kajitori.core.leadership import Standing
from kajitori.core.words import names
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.platform.agents import AgentTokens
from kajitori.kube.platform.leader_watch import LeaderWatch
from kajitori.kube.platform.ticket_key import TicketReader
from kajitori.kube.resources import NODES, RUNS, Resource
from kajitori.monitoring.metrics import ApiMetrics, new_registry

T = TypeVar("T")

BOARD_SHARE = 0.05
"""Answers about the whole cluster cost at most this share of the time, however many ask."""

BOARD_SECONDS = 1.0
"""But they are never older than this."""

USER_AGENT = "kajitori-api"
"""Of requests in a caller's name."""

_MAX_EXPECTED = 1024


class Leader(Protocol):
    """Knows whether a controller is at work."""

    def standing(self) -> Standing:
        """What is known now."""
        ...

    async def follow(self) -> None:
        """Keep it known until cancelled."""
        ...


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """What the Web API is made of. All of it belongs to the event loop that serves the API.

    client: the server's own credentials; mirror: Nodes, Pods and Runs, started by whoever made it; policy: the policy
    in force; networks: the address registry in force, by default an empty one; user_client: a client for a caller's own
    token, by default the same API server with that token; namespace: where runs go that name none, by default the
    client's own; controller_namespace: where the controller keeps the key of members' tickets; kept_logs: logs of Pods
    that are gone; code: what people uploaded; leader: who knows whether a controller is at work, by default a watch of
    the controllers' Lease; limits: what callers may take; now: by default the API server's time; awaited: what has to
    be there before this server is ready, in words, and empty once it is; install_command: what defines runs in the
    cluster anew where somebody has deleted their definition.
    """

    client: KubeClient
    mirror: Mirror
    policy: PolicyFile
    networks: NetworksFile = field(default_factory=lambda: NetworksFile(None))
    user_client: Callable[[str], KubeClient] | None = None
    namespace: str = ""
    controller_namespace: str = LEASE_NAMESPACE
    kept_logs: KeptLogs | None = None
    code: CodeStore | None = None
    blobs: Blobs | None = None
    agent_account: str = names.AGENT_ACCOUNT
    leader: Leader | None = None
    registry: CollectorRegistry | None = None
    limits: WebLimits = field(default_factory=WebLimits)
    now: Callable[[], datetime] | None = None
    clock: Callable[[], float] = time.monotonic
    awaited: Callable[[], str] = lambda: ""
    install_command: str = "kaji controller --kubeconfig FILE, with the kubeconfig of an administrator"


class Api:
    """The state of one Web API: nothing in it outlives the process, and nothing has to."""

    def __init__(self, deps: ApiDependencies) -> None:
        self.client = deps.client
        self.mirror = deps.mirror
        self.policy = deps.policy
        self.networks = deps.networks
        self.kept_logs = deps.kept_logs
        self.code = deps.code
        self.limits = deps.limits
        self.uploads = Turns(UPLOADS_AT_ONCE, UPLOADS_OF_ONE)
        self.bodies = Budget(deps.limits.body_bytes, deps.limits.body_bytes // 4)
        self.namespace = deps.namespace or deps.client.config.namespace
        self.now = deps.now or deps.mirror.now
        self.clock = deps.clock
        self.awaited = deps.awaited
        self.install_command = deps.install_command
        self.registry = deps.registry or new_registry()
        self.metrics = ApiMetrics(self.registry)
        self.questions = Questions(deps.limits, deps.clock)
        self.sessions = Sessions(deps.user_client or self._user_client, deps.clock, self.questions)
        self.streams = StreamRegistry(self.metrics.open_streams, self.metrics.broken_streams, self.sessions)
        self.cluster = ClusterView(deps.mirror, deps.policy)
        self.pending = PendingRuns(deps.mirror, self.cluster)
        self.outlook = Outlook(deps.mirror, self.cluster)
        self.preemptions = Preemptions(deps.mirror, self.cluster, self.outlook)
        self.health = HealthView(deps.mirror, self.cluster)
        self.asking = asyncio.Lock()
        """Held by whoever asks the planner, in a thread: one at a time, or nobody else would be answered."""
        self.hub = RunHub(deps.mirror)
        self.host_lists = HostLists(deps.mirror, self.hub, deps.clock)
        self.tickets = TicketReader(deps.client, deps.controller_namespace, deps.clock, deps.mirror.believe)
        self.events = EventFeeds(deps.client)
        self.renderer = RunRenderer(self.mirror)
        self.remembered = Remembered(deps.clock, BOARD_SHARE, BOARD_SECONDS)
        self.agents = AgentTokens(deps.client, deps.mirror, deps.agent_account, deps.clock)
        self.leader = deps.leader or LeaderWatch(deps.client, deps.controller_namespace, clock=deps.clock)
        self.traffic = TrafficKeeper(deps.blobs, self.now)
        self.log_slots = Slots(MAX_LOGS)
        self._expected: dict[Key, float] = {}
        self._unsubscribe = deps.mirror.on_change(self._note)

    async def close(self) -> None:
        """Lets go of everything that this made; what it was given stays open."""
        self.break_off()
        self._unsubscribe()
        self.hub.close()
        await self.events.close()
        await self.sessions.close()

    def break_off(self) -> None:
        """Lets go of everybody whose answer would still take long: the server goes down."""
        self.streams.break_off()
        self.host_lists.close()

    def expect(self, run: RunObject) -> None:
        """A run was just made: how long the watch takes to show it is measured."""
        key = (run.metadata.namespace, run.metadata.name)
        if key in self.mirror.runs:
            self.metrics.mirror_lag_seconds.observe(0.0)  # the watch was as quick as the answer
        elif len(self._expected) < _MAX_EXPECTED:
            self._expected[key] = self.clock()

    def _user_client(self, token: str) -> KubeClient:
        return self.client.as_bearer(token, user_agent=USER_AGENT)

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == NODES:
            self.cluster.note_node(name)
        elif resource == RUNS and self._expected:
            written_at = self._expected.pop((namespace, name), None)
            if written_at is not None:
                self.metrics.mirror_lag_seconds.observe(self.clock() - written_at)


def api_of(connection: HTTPConnection) -> Api:
    """The state of the application that a connection belongs to."""
    api: Api = connection.app.state.kajitori
    return api


async def _api_of(connection: HTTPConnection) -> Api:  # one that is not async would get a thread for each request
    return api_of(connection)


Shared = Annotated[Api, Depends(_api_of)]
"""For routes."""


def answer(view: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(view), status, media_type="application/json")


def describes(
    view: type | None, *, status: int = 200, media_type: str = "application/json"
) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: that a route answers this, or a problem."""
    schema = {"$ref": f"#/components/schemas/{view.__name__}"} if view is not None else {"type": "string"}
    problem = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {
        status: {"description": "Done.", "content": {media_type: {"schema": schema}}},
        422: {**problem, "description": "What was sent is wrong; every fault is named."},
        "default": {**problem, "description": "It was not done."},
    }


class Remembered:
    """Answers that are costly to work out. The costlier one is, the longer it is given again: what takes a millisecond
    is as fresh as the mirror for whoever looks what became of his last command."""

    def __init__(self, clock: Callable[[], float], share: float, longest_seconds: float) -> None:
        self._clock = clock
        self._share = share
        self._longest_seconds = longest_seconds
        self._known: dict[str, tuple[float, bytes]] = {}
        self._asked: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """What `make` answered lately, or answers now."""
        known = self._known.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        began = self._clock()
        return self._remember(key, make(), began, self._longest_seconds)

    async def ask(self, key: str, make: Callable[[], Awaitable[bytes]], *, longest_seconds: float) -> bytes:
        """The same for what others are answered beside; who asks meanwhile is given the same answer."""
        async with self._asked[key]:
            known = self._known.get(key)
            if known is not None and self._clock() < known[0]:
                return known[1]
            began = self._clock()
            return self._remember(key, await make(), began, longest_seconds)

    def _remember(self, key: str, body: bytes, began: float, longest_seconds: float) -> bytes:
        ended = self._clock()
        self._known[key] = ended + min((ended - began) / self._share, longest_seconds), body
        return body
