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

from kajitori.api.answers.file_listings import FileListings
from kajitori.api.answers.problems import MEDIA_TYPE
from kajitori.api.audit import AuditTrail
from kajitori.api.auth import Sessions
from kajitori.api.bindings import BoundNamespaces
from kajitori.api.browsers.sessions import BrowserSessions
from kajitori.api.history_lag import HistoryLag
from kajitori.api.programs.parts import ProgramParts
from kajitori.api.rendering.runs import RunRenderer
from kajitori.api.requests.limits import Budget, Questions, Slots, Turns
from kajitori.api.streams.answers import StreamRegistry
from kajitori.api.streams.attachments import Attachments
from kajitori.api.streams.event_feed import EventFeeds
from kajitori.api.streams.host_lists import HostLists
from kajitori.api.streams.hub import RunHub
from kajitori.api.streams.idle_runs import IdleRuns
from kajitori.api.streams.last_figures import PastFigures
from kajitori.api.streams.node_rows import NodeRows
from kajitori.api.streams.queue_rows import QueueRows
from kajitori.api.streams.run_rows import RunRows
from kajitori.api.streams.telemetry_keeper import TelemetryKeeper
from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.traffic import TrafficKeeper
from kajitori.cluster.health import HealthView
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.platform.agents import AgentTokens
from kajitori.cluster.platform.ticket_key import TicketReader
from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.queue.pending import PendingRuns
from kajitori.cluster.queue.preemptions import Preemptions
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.sign_in import SignIn
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.leadership import LeaderState
from kajitori.core.logs.line_index import RecentIndexes
from kajitori.core.protection.token_bucket import Allowances
from kajitori.core.spec.parts import HealthCheck
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES, Resource
from kajitori.monitoring.metrics import ApiMetrics

T = TypeVar("T")

BOARD_SHARE = 0.05
"""Largest share of the time that is spent on working out an answer about the whole cluster, however many ask for it."""

BOARD_SECONDS = 1.0
"""Largest age of such an answer."""

MAX_FILES = 32
"""Number of files and folders that are read at the same time. Each is a process in a Pod with little memory."""

_MAX_EXPECTED = 1024


class Leader(Protocol):
    """Knows whether a controller is at work."""

    def state(self) -> LeaderState:
        """Return the present state of the leader, as far as it is known."""
        ...

    async def follow(self) -> None:
        """Keep the state up to date until cancelled."""
        ...


class Remembered:
    """A cache of costly answers. The longer an answer took, the longer it is reused: one that takes a millisecond is
    practically as fresh as the mirror, so users see the effect of their last command."""

    def __init__(self, clock: Callable[[], float], share: float, longest_seconds: float) -> None:
        self._clock = clock
        self._share = share
        self._longest_seconds = longest_seconds
        self._cached: dict[str, tuple[float, bytes]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the cached answer, or a new one from `make`."""
        cached = self._cached.get(key)
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        began = self._clock()
        return self._remember(key, make(), began, self._longest_seconds)

    async def ask(self, key: str, make: Callable[[], Awaitable[bytes]], *, longest_seconds: float) -> bytes:
        """Return the cached answer, or a new one from `make`; callers at the same time share one call of `make`."""
        async with self._locks[key]:
            cached = self._cached.get(key)
            if cached is not None and self._clock() < cached[0]:
                return cached[1]
            began = self._clock()
            return self._remember(key, await make(), began, longest_seconds)

    def _remember(self, key: str, body: bytes, began: float, longest_seconds: float) -> bytes:
        ended = self._clock()
        self._cached[key] = ended + min((ended - began) / self._share, longest_seconds), body
        return body


class MirrorChanges:
    """Reads each Node anew as it changes, and measures how long the mirror takes to show new runs."""

    def __init__(self, mirror: Mirror, cluster: ClusterView, metrics: ApiMetrics, clock: Callable[[], float]) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._lag = metrics.mirror_lag_seconds
        self._clock = clock
        self._expected: dict[Key, float] = {}
        self.close = mirror.on_change(self._note)

    def expect(self, run: RunObject) -> None:
        """Measure how long the mirror takes to show a run that was just created."""
        key = (run.metadata.namespace, run.metadata.name)
        if key in self._mirror.runs:
            self._lag.observe(0.0)  # the watch was as quick as the answer
        elif len(self._expected) < _MAX_EXPECTED:
            self._expected[key] = self._clock()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == NODES:
            self._cluster.note_node(name)
        elif resource == RUNS and self._expected:
            written_at = self._expected.pop((namespace, name), None)
            if written_at is not None:
                self._lag.observe(self._clock() - written_at)


@dataclass(frozen=True, kw_only=True)
class CallerParts:
    """The callers, and the limits on their use of this server."""

    sessions: Sessions
    questions: Questions
    """Checks of unknown tokens."""
    bound: BoundNamespaces
    """Namespaces in which RoleBindings name a caller."""
    limits: WebLimits
    bodies: Budget
    """Memory for request bodies."""
    uploads: Turns
    logs: Slots
    """Logs that are read at the same time."""
    sign_in: SignIn | None
    """How people sign in; None: with a token of the cluster."""
    browsers: BrowserSessions
    """Sessions of browsers."""
    board: Allowances
    """Reads of the public board without sign-in, by address."""


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """Runs as they are shown and followed."""

    renderer: RunRenderer
    log_indexes: RecentIndexes = field(default_factory=RecentIndexes)
    """Lines of logs that kubelets hold."""
    files: Slots = field(default_factory=lambda: Slots(MAX_FILES, "files"))
    """Files of checkpoints that are read at the same time."""
    listings: FileListings = field(default_factory=lambda: FileListings(time.monotonic))
    """Names in large folders of checkpoints, between the pages of their lists."""
    rows: RunRows
    rows_with_starts: RunRows
    """The same rows with the expected starts of waiting runs, for those who ask for them."""
    hub: RunHub
    events: EventFeeds
    idle: IdleRuns
    """Open questions about idle GPUs."""
    past_figures: PastFigures = field(default_factory=PastFigures)
    """Last figures of runs that do not run now."""
    attachments: Attachments = field(default_factory=Attachments)
    """Connections to the programs of runs."""
    health_of_image: Callable[[str], Awaitable[HealthCheck | None]] | None = None
    """Returns the health check of an image; None if this server cannot read images."""


@dataclass(frozen=True, kw_only=True)
class TableParts:
    """Rows of the pages about the cluster, and their changes."""

    nodes: NodeRows
    queue: QueueRows


@dataclass(frozen=True, kw_only=True)
class StoreParts:
    """The store's parts, which outlive Pods and runs; each is None without a store."""

    logs: KeptLogs | None
    """Logs of Pods that are deleted."""
    code: CodeStore | None
    """Uploaded code."""
    history: History | None = None
    """Runs that are removed, usage and the audit trail."""
    history_lag: HistoryLag


@dataclass(frozen=True, kw_only=True)
class QueueParts:
    """The waiting runs, and the planner's answers about them."""

    pending: PendingRuns
    outlook: Outlook
    preemptions: Preemptions
    planner: asyncio.Lock
    """Held while the planner answers in a thread. Two at a time would leave no processor for other answers."""


@dataclass(frozen=True, kw_only=True)
class StartParts:
    """Answers that members ask for as they start."""

    tickets: TicketReader
    host_lists: HostLists


@dataclass(frozen=True, kw_only=True)
class TrafficParts:
    """Addresses of the network, and the traffic that agents report."""

    networks: NetworksFile
    keeper: TrafficKeeper
    agents: AgentTokens


@dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """This process, as operators see it."""

    registry: CollectorRegistry
    metrics: ApiMetrics
    awaited: Callable[[], str]
    """Returns a text that says what this server waits for before it is ready; empty once it is ready."""
    install_command: str
    """The command that creates the definition of runs again, for error messages."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """The state of one Web API. Nothing in it has to outlive the process."""

    client: KubeClient
    """A client with the server's own credentials."""
    mirror: Mirror
    cluster: ClusterView
    policy: PolicyFile
    namespace: str
    """Namespace of runs that name none."""
    messages_namespace: str
    """Namespace of channels and outboxes."""
    now: Callable[[], datetime]
    health: HealthView
    leader: Leader
    changes: MirrorChanges
    streams: StreamRegistry
    remembered: Remembered
    audit: AuditTrail
    callers: CallerParts
    runs: RunParts
    tables: TableParts
    stores: StoreParts
    queue: QueueParts
    start: StartParts
    traffic: TrafficParts
    telemetry: TelemetryKeeper
    programs: ProgramParts
    process: ProcessParts

    async def close(self) -> None:
        """Close everything that listens or is connected, except client and mirror."""
        self.break_off()
        self.changes.close()
        self.runs.hub.close()
        self.runs.rows.close()
        self.runs.rows_with_starts.close()
        self.tables.nodes.close()
        self.tables.queue.close()
        self.runs.idle.close()
        await self.runs.events.close()
        await self.runs.attachments.close()
        await self.programs.connections.close()
        await self.callers.sessions.close()

    def break_off(self) -> None:
        """End all long answers, because the server shuts down."""
        self.streams.break_off()
        self.start.host_lists.close()
        self.telemetry.lines.close()


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


def describes_table(view: type, table: type, *, tagged: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's `responses` of a list that answers with `view`, or with `table` if `fields=summary` asks for it.

    tagged: whether the route answers 304 to a caller that has the present version.
    """
    responses = describes(view)
    schemas = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in (view, table)]
    responses[200]["content"]["application/json"]["schema"] = {"anyOf": schemas}
    if tagged:
        responses[304] = {"description": "Nothing has changed since the answer with the tag in `If-None-Match`."}
    return responses


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
