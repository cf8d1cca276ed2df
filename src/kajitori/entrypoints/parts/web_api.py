"""Builds a Web API from its parts."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from kajitori.api.app import create_app
from kajitori.api.audit import AuditTrail
from kajitori.api.auth import Sessions
from kajitori.api.bindings import BoundNamespaces
from kajitori.api.browsers.renewals import SharedRenewals
from kajitori.api.browsers.sessions import BrowserSessions
from kajitori.api.context import (
    BOARD_SECONDS,
    BOARD_SHARE,
    Api,
    CallerParts,
    Leader,
    MirrorChanges,
    ProcessParts,
    QueueParts,
    Remembered,
    RunParts,
    StartParts,
    StoreParts,
    TableParts,
    TrafficParts,
)
from kajitori.api.history_lag import HistoryLag
from kajitori.api.programs.parts import OpenPort, ProgramParts
from kajitori.api.programs.visits import Visits
from kajitori.api.rendering.runs import RunRenderer
from kajitori.api.requests.limits import MAX_LOGS, UPLOADS_AT_ONCE, UPLOADS_PER_USER, Budget, Questions, Slots, Turns
from kajitori.api.streams.answers import StreamRegistry
from kajitori.api.streams.event_feed import EventFeeds
from kajitori.api.streams.host_lists import HostLists
from kajitori.api.streams.hub import RunHub
from kajitori.api.streams.idle_runs import IdleRuns
from kajitori.api.streams.node_rows import NodeRows
from kajitori.api.streams.queue_rows import QueueRows
from kajitori.api.streams.run_rows import RunRows
from kajitori.api.streams.telemetry_keeper import TelemetryKeeper
from kajitori.blobs.code import CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.traffic import TrafficKeeper
from kajitori.cluster.health import HealthView
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.agents import AgentTokens
from kajitori.cluster.platform.gateway import Admission
from kajitori.cluster.platform.leader_watch import LeaderWatch
from kajitori.cluster.platform.ticket_key import TicketReader
from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.queue.pending import PendingRuns
from kajitori.cluster.queue.preemptions import Preemptions
from kajitori.cluster.view import ClusterView
from kajitori.configuration.networks_file import NetworksFile
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.naming import names
from kajitori.core.protection.token_bucket import Allowances
from kajitori.core.spec.parts import HealthCheck
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.monitoring.metrics import ApiMetrics, new_registry

USER_AGENT = "kajitori-api"
"""User agent of requests to the API server in a caller's name."""


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """The parts of a Web API. They belong to the event loop that serves it."""

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
    """Store for traffic totals, which outlive this process, and for telemetry, which servers share."""
    history: History | None = None
    """Runs that are removed, usage and the audit trail; None: this server has none."""
    agent_account: str = names.AGENT_ACCOUNT
    """ServiceAccount of the node agents."""
    leader: Leader | None = None
    """By default a watch of the controllers' Lease."""
    registry: CollectorRegistry | None = None
    """Metrics of this process."""
    sign_in: SignIn | None = None
    """How people sign in; None: with a token of the cluster."""
    admit: Callable[[str], Awaitable[Admission | None]] | None = None
    """Admits callers by ID tokens that the API server does not know; None: there is no gateway."""
    browser_access: BrowserAccess = field(default_factory=BrowserAccess)
    """Settings of browsers' sessions."""
    shares_cookies: bool = True
    """Whether other servers have the same secret for cookies."""
    open_port: OpenPort | None = None
    """Connects to ports of Pods; by default through the API server."""
    limits: WebLimits = field(default_factory=WebLimits)
    """Limits on what callers use."""
    now: Callable[[], datetime] | None = None
    """By default the API server's time."""
    clock: Callable[[], float] = time.monotonic
    health_of_image: Callable[[str], Awaitable[HealthCheck | None]] | None = None
    """Returns the health check that an image brings; None: no container engine is at hand."""
    awaited: Callable[[], str] = lambda: ""
    """Returns what this server still waits for before it is ready; empty once it is."""
    install_command: str = "kaji controller --kubeconfig FILE, with the kubeconfig of an administrator"
    """The command that creates the definition of runs again, for error messages."""


def web_app(deps: ApiDependencies) -> FastAPI:
    """Return the application of a Web API."""
    return create_app(web_api(deps))


def web_api(deps: ApiDependencies) -> Api:
    """Return the state of a Web API. Close it at the end, if no application does."""
    deps = _with_secret(deps)
    client, mirror, clock = deps.client, deps.mirror, deps.clock
    now, registry = deps.now or mirror.now, deps.registry or new_registry()
    cluster, metrics = ClusterView(mirror, deps.policy), ApiMetrics(registry)
    callers = _caller_parts(deps)
    outlook, hub, queue_rows = Outlook(mirror, cluster), RunHub(mirror), QueueRows(mirror, clock)
    return Api(
        client=client,
        mirror=mirror,
        cluster=cluster,
        policy=deps.policy,
        namespace=deps.namespace or client.config.namespace,
        messages_namespace=names.messages_namespace(deps.controller_namespace),
        now=now,
        health=HealthView(mirror, cluster),
        leader=deps.leader or LeaderWatch(client, deps.controller_namespace, clock=clock),
        changes=MirrorChanges(mirror, cluster, metrics, clock),
        streams=StreamRegistry(metrics.open_streams, metrics.broken_streams, callers.sessions),
        remembered=Remembered(clock, BOARD_SHARE, BOARD_SECONDS),
        audit=AuditTrail(deps.history, now),
        callers=callers,
        tables=TableParts(nodes=NodeRows(mirror, cluster), queue=queue_rows),
        runs=RunParts(
            renderer=RunRenderer(mirror),
            rows=RunRows(mirror),
            rows_with_starts=RunRows(mirror, queue_rows),
            hub=hub,
            events=EventFeeds(client),
            idle=IdleRuns(mirror),
            health_of_image=deps.health_of_image,
        ),
        stores=StoreParts(
            logs=deps.kept_logs, code=deps.code, history=deps.history, history_lag=HistoryLag(deps.history, now)
        ),
        queue=QueueParts(
            pending=PendingRuns(mirror, cluster),
            outlook=outlook,
            preemptions=Preemptions(mirror, cluster, outlook),
            planner=asyncio.Lock(),
        ),
        start=StartParts(
            tickets=TicketReader(client, deps.controller_namespace, clock, mirror.use_signing_key),
            host_lists=HostLists(mirror, hub, clock),
        ),
        traffic=TrafficParts(
            networks=deps.networks,
            keeper=TrafficKeeper(deps.blobs, now),
            agents=AgentTokens(client, mirror, deps.agent_account, clock),
        ),
        telemetry=TelemetryKeeper(deps.blobs, deps.history, now),
        programs=_program_parts(deps),
        process=ProcessParts(
            registry=registry, metrics=metrics, awaited=deps.awaited, install_command=deps.install_command
        ),
    )


def _caller_parts(deps: ApiDependencies) -> CallerParts:
    client, limits = deps.client, deps.limits
    questions = Questions(limits, deps.clock)
    user_client = deps.user_client or (lambda token: client.as_bearer(token, user_agent=USER_AGENT))
    return CallerParts(
        sessions=Sessions(user_client, deps.clock, questions, deps.admit),
        questions=questions,
        bound=BoundNamespaces(client, deps.clock),
        limits=limits,
        bodies=Budget(limits.body_bytes, limits.body_bytes // 4),
        uploads=Turns(UPLOADS_AT_ONCE, UPLOADS_PER_USER),
        logs=Slots(MAX_LOGS),
        sign_in=deps.sign_in,
        browsers=_browser_sessions(deps),
        board=Allowances(limits.board_reads, limits.board_reads_per_address),
    )


def _with_secret(deps: ApiDependencies) -> ApiDependencies:
    """Return the parts with a secret for cookies. If this server has to make one, other servers do not share it."""
    access = deps.browser_access
    if access.cookie_secret:
        return deps
    return replace(deps, browser_access=replace(access, cookie_secret=secrets.token_bytes(32)), shares_cookies=False)


def _browser_sessions(deps: ApiDependencies) -> BrowserSessions:
    return BrowserSessions(deps.sign_in, deps.browser_access, blobs=deps.blobs if deps.shares_cookies else None)


def _program_parts(deps: ApiDependencies) -> ProgramParts:
    access = deps.browser_access
    shared = (
        SharedRenewals(deps.blobs, access.cookie_secret) if deps.blobs is not None and deps.shares_cookies else None
    )
    parts = ProgramParts(
        origins=access.programs,
        page_url=access.public_url,
        visits=Visits(access.cookie_secret, is_first=shared.is_first if shared is not None else None),
        clock=deps.clock,
    )
    return replace(parts, open_port=deps.open_port) if deps.open_port is not None else parts
