"""The parts of a run controller, grouped by subject. `entrypoints` makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kajitori.blobs.code import CodeStore
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.view import ClusterView
from kajitori.controllers.messages.dispatcher import MessageDispatcher
from kajitori.controllers.nodes.health import HealthKeeper
from kajitori.controllers.nodes.silent_nodes import SilentNodes
from kajitori.controllers.queue.planning import Planning
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.queue.starting import Starter
from kajitori.controllers.records.history import HistoryKeeper
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.records.memory import MemoryKeeper
from kajitori.controllers.records.results import ResultKeeper
from kajitori.controllers.runs.budgets import BudgetKeeper
from kajitori.controllers.runs.claims import StartingClaims
from kajitori.controllers.runs.health_output import HealthOutputs
from kajitori.controllers.runs.memory_kills import NodeMemoryKills
from kajitori.controllers.runs.network_names import NameKeeper
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.controllers.runs.orphans import Orphans
from kajitori.controllers.runs.readers import FolderReaders
from kajitori.controllers.runs.statuses import Statuses
from kajitori.controllers.watching.evidence import StackTaker
from kajitori.controllers.watching.feed import Feed
from kajitori.controllers.watching.idle import IdleWatcher
from kajitori.controllers.watching.stragglers import StragglerWatcher
from kajitori.controllers.watching.stuck import StuckWatcher
from kajitori.kube.client import KubeClient
from kajitori.kube.events import EventRecorder
from kajitori.monitoring.controller import ControllerMetrics


@dataclass(frozen=True, kw_only=True)
class ClusterParts:
    """The objects that read the cluster, write to it and record Events."""

    client: KubeClient
    mirror: Mirror
    view: ClusterView
    events: EventRecorder
    now: Callable[[], datetime]
    """The API server's time."""
    metrics: ControllerMetrics


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """The objects of one run in the cluster: its status, its Pods, and what belongs to them."""

    statuses: Statuses
    key: SigningKey
    """Signs members and their tickets."""
    networks: NetworkKeeper
    names: NameKeeper
    claims: StartingClaims
    health: HealthOutputs
    budgets: BudgetKeeper
    node_victims: NodeMemoryKills
    orphans: Orphans
    readers: FolderReaders


@dataclass(frozen=True, kw_only=True)
class QueueParts:
    """The runs that wait for nodes, and their start."""

    planning: Planning
    starter: Starter
    provisioning: Provisioning


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """Unhealthy and silent nodes."""

    health: HealthKeeper
    silent_nodes: SilentNodes


@dataclass(frozen=True, kw_only=True)
class RecordParts:
    """Logs, results and memory peaks, which outlive the Pods of members, and uploaded code."""

    logs: LogKeeper | None
    """None if logs are lost with their Pods."""
    results: ResultKeeper
    peaks: MemoryKeeper
    code: CodeStore | None
    """Uploaded code, of which the unused is deleted."""
    messages: MessageDispatcher | None = None
    """None if no messages are sent."""
    history: HistoryKeeper | None = None
    """None if ended runs are forgotten with their objects."""
    feed: Feed | None = None
    """Telemetry of running runs, from history; None without history."""
    idle: IdleWatcher | None = None
    """The feed's view of idle GPUs; None without a feed."""
    stuck: StuckWatcher | None = None
    """Runs that make no progress; None without history."""
    stragglers: StragglerWatcher | None = None
    """Ranks that are slower than their peers; None without history."""
    evidence: StackTaker | None = None
    """Takes stacks of failed gangs before their survivors are ended; None without history or a store."""

    async def close(self) -> None:
        """Cancel what is under way; the next leader repeats it."""
        await self.results.close()
        if self.stuck is not None:
            await self.stuck.close()
        if self.idle is not None:
            await self.idle.close()
        if self.logs is not None:
            await self.logs.close()
