"""Builds a run controller from its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kajitori.blobs.code import CodeStore
from kajitori.blobs.history_outbox import HistoryOutbox
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.questions import Questions
from kajitori.blobs.stores.blobs import Blobs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.policy_keeper import PolicyKeeper
from kajitori.cluster.platform.team_keeper import TeamKeeper
from kajitori.cluster.platform.ticket_key import SigningKey
from kajitori.cluster.view import ClusterView
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.controllers.changes import Changes
from kajitori.controllers.messages.dispatcher import MessageDispatcher
from kajitori.controllers.messages.sending_process import SendingProcess, delivery_rules
from kajitori.controllers.nodes.health import HealthKeeper
from kajitori.controllers.nodes.silent_nodes import NODE_PATIENCE, SilentNodes
from kajitori.controllers.parts import ClusterParts, NodeParts, QueueParts, RecordParts, RunParts
from kajitori.controllers.queue.planning import Planning
from kajitori.controllers.queue.provisioning import Provisioning
from kajitori.controllers.queue.starting import Starter
from kajitori.controllers.queue.trigger import CycleTrigger
from kajitori.controllers.reconciler import Reconciler
from kajitori.controllers.records.history import HistoryKeeper
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.records.memory import MemoryKeeper
from kajitori.controllers.records.results import ResultKeeper
from kajitori.controllers.run_controller import RunController
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
from kajitori.controllers.watching.feed import Feed, Watcher
from kajitori.controllers.watching.idle import IdleWatcher, NodeGpuInspector
from kajitori.controllers.watching.stragglers import StragglerWatcher
from kajitori.controllers.watching.stuck import StuckWatcher
from kajitori.controllers.workqueue import WorkQueue
from kajitori.core.naming import names
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.clock import steady_seconds
from kajitori.kube.events import EventRecorder
from kajitori.monitoring.controller import ControllerMetrics


def run_controller(
    client: KubeClient,
    mirror: Mirror,
    view: ClusterView,
    *,
    namespace: str = LEASE_NAMESPACE,
    kept_logs: KeptLogs | None = None,
    code: CodeStore | None = None,
    history: History | None = None,
    outbox: HistoryOutbox | None = None,
    questions: Questions | None = None,
    watched: Blobs | None = None,
    now: Callable[[], datetime] | None = None,
    node_patience: timedelta = NODE_PATIENCE,
    metrics: ControllerMetrics | None = None,
) -> RunController:
    """Return a run controller for one term. Its `run` begins the term and may be called once.

    `namespace` has the Secret with the key that signs members' Pods and tickets. Without `kept_logs`, logs are lost
    with their Pods. Unused code is deleted from `code`. `history` keeps removed runs, and `outbox` their records while
    its database does not answer. `questions` asks agents for stacks of runs that hang or fail. `watched` keeps the
    watchers' state about running runs for the next leader. `now` is by default the API server's time. Silent nodes
    count as lost after `node_patience`."""
    now, metrics = now or mirror.now, metrics or ControllerMetrics.unread()
    # 1. The parts that all others use: Events, the work queue, statuses, and changes in the cluster.
    events = EventRecorder(client, names.MANAGED_BY, clock=now)
    trigger = CycleTrigger()
    work = WorkQueue(now, trigger.note_done)
    statuses = Statuses(client, mirror, events, now, metrics)
    silent_nodes, orphans = SilentNodes(mirror, now, node_patience), Orphans(client, mirror)
    changes = Changes(mirror, view, work, trigger, statuses, silent_nodes, orphans, now)
    # 2. The parts that start runs: single runs, the queue, and nodes.
    networks = NetworkKeeper(client, changes.note_network)
    provisioning = Provisioning(client, view, changes.note_request)
    key = SigningKey(client, namespace, mirror.use_signing_key)
    starter = Starter(client, mirror, view, statuses, provisioning, networks, key, now)
    planning = Planning(mirror, view, work, trigger, statuses, starter, provisioning, now, metrics)
    cluster = ClusterParts(client=client, mirror=mirror, view=view, events=events, now=now, metrics=metrics)
    runs = RunParts(
        statuses=statuses,
        key=key,
        networks=networks,
        names=NameKeeper(client),
        claims=StartingClaims(client, work, now),
        health=HealthOutputs(client, work),
        budgets=BudgetKeeper(client),
        node_victims=NodeMemoryKills(client),
        orphans=orphans,
        readers=FolderReaders(client, mirror, view, events, now),
    )
    queue = QueueParts(planning=planning, starter=starter, provisioning=provisioning)
    nodes = NodeParts(health=HealthKeeper(client, mirror, view, events, now), silent_nodes=silent_nodes)
    # 3. Records that outlive Pods, telemetry of running runs, and messages.
    stores = _Stores(kept_logs, code, history, outbox, questions, watched)
    records = _record_parts(cluster, work, stores, namespace)
    # 4. The reconciler, and the loop that calls it.
    reconciler = Reconciler(cluster, work, runs=runs, queue=queue, nodes=nodes, records=records)
    keepers = (
        PolicyKeeper(client, lambda: view.policy, view.has_cpu_nodes, steady_seconds),
        TeamKeeper(client, lambda: view.policy.teams, steady_seconds),
    )
    return RunController(
        cluster,
        work,
        changes,
        reconciler,
        runs=runs,
        queue=queue,
        nodes=nodes,
        records=records,
        keepers=keepers,
    )


@dataclass(frozen=True)
class _Stores:
    """The stores of a run controller, as `run_controller` describes them."""

    kept_logs: KeptLogs | None
    code: CodeStore | None
    history: History | None
    outbox: HistoryOutbox | None
    questions: Questions | None
    watched: Blobs | None


def _record_parts(cluster: ClusterParts, work: WorkQueue, stores: _Stores, namespace: str) -> RecordParts:
    """Return the parts for logs, results, memory peaks and messages, and with a history those that watch telemetry."""
    client, mirror, view, now, metrics = cluster.client, cluster.mirror, cluster.view, cluster.now, cluster.metrics
    kept_logs, history, questions = stores.kept_logs, stores.history, stores.questions
    logs = LogKeeper(client, kept_logs, events=cluster.events, metrics=metrics, wake=work.wake) if kept_logs else None
    keeper = feed = idle = stuck = stragglers = evidence = None
    if history is not None:
        keeper = HistoryKeeper(history, mirror, now=now, outbox=stores.outbox, metrics=metrics)
        inspector = NodeGpuInspector(questions, mirror, now) if questions is not None else None
        idle = IdleWatcher(view, now, work.add, inspector)
        if kept_logs is not None and questions is not None:
            evidence = StackTaker(questions, kept_logs.stacks, mirror, now)
        stuck = StuckWatcher(view.specs, lambda: view.policy, work.add, evidence, now)
        stragglers = StragglerWatcher(view.specs, cluster.events, work.add)
        watchers: tuple[Watcher, ...] = (idle, stuck, stragglers)
        feed = Feed(history, mirror, watchers, now, stores.watched)
    messages = MessageDispatcher(
        client,
        mirror,
        view,
        names.messages_namespace(namespace),
        SendingProcess(lambda: delivery_rules(view.policy.notifications, mirror.nodes.values(), client.config.server)),
        kept_logs=kept_logs,
        wake=work.add,
        metrics=metrics,
    )
    return RecordParts(
        messages=messages,
        logs=logs,
        results=ResultKeeper(client, logs, kept_logs.results if kept_logs else None, work.wake),
        peaks=MemoryKeeper(client, mirror, work.add, now),
        code=stores.code,
        history=keeper,
        feed=feed,
        idle=idle,
        stuck=stuck,
        stragglers=stragglers,
        evidence=evidence,
    )
