"""State and helpers that all routes share."""

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
from kajitori.api.serving.intake import UPLOADS_AT_ONCE, UPLOADS_PER_USER, Budget, Questions, Turns
from kajitori.api.start.host_lists import HostLists
from kajitori.api.streams.answers import StreamRegistry
from kajitori.api.streams.event_feed import EventFeeds
from kajitori.api.streams.hub import RunHub
from kajitori.api.traffic.keeper import TrafficKeeper
from kajitori.blobs.blobs import Blobs
from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.health import HealthView
from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.queue.pending import PendingRuns
from kajitori.cluster.queue.preemptions import Preemptions
from kajitori.cluster.view import ClusterView
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.settings import LEASE_NAMESPACE, WebLimits
from kajitori.core.leadership import LeaderState
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
"""Largest share of the time that is spent on working out an answer about the whole cluster, however many ask for it."""

BOARD_SECONDS = 1.0
"""Largest age of such an answer."""

USER_AGENT = "kajitori-api"
"""User agent of requests to the API server in a caller's name."""

_MAX_EXPECTED = 1024


class Leader(Protocol):
    """Knows whether a controller is at work."""

    def state(self) -> LeaderState:
        """Return what is known now."""
        ...

    async def follow(self) -> None:
        """Keep it known until cancelled."""
        ...


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """The parts that a Web API is made of. They belong to the event loop that serves it."""

    client: KubeClient
    """A client with the server's own credentials."""
    mirror: Mirror
    """Nodes, Pods and Runs; the caller starts it."""
    policy: PolicyFile
    """The policy in force."""
    networks: NetworksFile = field(default_factory=lambda: NetworksFile(None))
    """The address registry in force."""
    user_client: Callable[[str], KubeClient] | None = None
    """Returns a client with a caller's token; by default for the same API server."""
    namespace: str = ""
    """Namespace of runs that name none; by default the client's."""
    controller_namespace: str = LEASE_NAMESPACE
    """Namespace of the controllers' Lease and of the key that signs members' tickets."""
    kept_logs: KeptLogs | None = None
    """Logs of Pods that are gone."""
    code: CodeStore | None = None
    """Uploaded code."""
    blobs: Blobs | None = None
    """Keeps the traffic totals over restarts."""
    agent_account: str = names.AGENT_ACCOUNT
    """ServiceAccount of the node agents."""
    leader: Leader | None = None
    """By default a watch of the controllers' Lease."""
    registry: CollectorRegistry | None = None
    """Metrics of this process."""
    limits: WebLimits = field(default_factory=WebLimits)
    """Limits on what callers use."""
    now: Callable[[], datetime] | None = None
    """By default the API server's time."""
    clock: Callable[[], float] = time.monotonic
    awaited: Callable[[], str] = lambda: ""
    """Returns what this server still waits for before it is ready; empty once it is."""
    install_command: str = "kaji controller --kubeconfig FILE, with the kubeconfig of an administrator"
    """The command that creates the definition of runs again, for error messages."""


class Api:
    """The state of one Web API. Nothing in it has to outlive the process."""

    def __init__(self, deps: ApiDependencies) -> None:
        self.client = deps.client
        self.mirror = deps.mirror
        self.policy = deps.policy
        self.networks = deps.networks
        self.kept_logs = deps.kept_logs
        self.code = deps.code
        self.limits = deps.limits
        self.uploads = Turns(UPLOADS_AT_ONCE, UPLOADS_PER_USER)
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
        """Held while the planner answers in a thread. Two at a time would leave no processor for other answers."""
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
        """Close everything that this object made. The parts that it was given stay open."""
        self.break_off()
        self._unsubscribe()
        self.hub.close()
        await self.events.close()
        await self.sessions.close()

    def break_off(self) -> None:
        """End all long answers, because the server shuts down."""
        self.streams.break_off()
        self.host_lists.close()

    def expect(self, run: RunObject) -> None:
        """Measure how long the mirror takes to show a run that was just created."""
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
    """Return the state of the application that serves a connection."""
    api: Api = connection.app.state.kajitori
    return api


async def _api_of(connection: HTTPConnection) -> Api:  # async, because FastAPI calls other functions in threads
    return api_of(connection)


Shared = Annotated[Api, Depends(_api_of)]
"""The state of the Web API, as the parameter of a route."""


def answer(view: object, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(view), status, media_type="application/json")


def describes(
    view: type | None, *, status: int = 200, media_type: str = "application/json"
) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's `responses` of a route that answers with `view` or with a problem."""
    schema = {"$ref": f"#/components/schemas/{view.__name__}"} if view is not None else {"type": "string"}
    problem = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {
        status: {"description": "Success.", "content": {media_type: {"schema": schema}}},
        422: {**problem, "description": "The request is invalid; `faults` lists every fault."},
        "default": {**problem, "description": "Any other error; the request was not carried out."},
    }


class Remembered:
    """A cache of costly answers. The longer an answer took, the longer it is reused: one that takes a millisecond is
    practically as fresh as the mirror, so users see the effect of their last command."""

    def __init__(self, clock: Callable[[], float], share: float, longest_seconds: float) -> None:
        self._clock = clock
        self._share = share
        self._longest_seconds = longest_seconds
        self._known: dict[str, tuple[float, bytes]] = {}
        self._asked: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the cached answer, or a new one from `make`."""
        known = self._known.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        began = self._clock()
        return self._remember(key, make(), began, self._longest_seconds)

    async def ask(self, key: str, make: Callable[[], Awaitable[bytes]], *, longest_seconds: float) -> bytes:
        """Return the cached answer, or a new one from `make`; callers at the same time share one call of `make`."""
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
