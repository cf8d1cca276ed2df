"""Runs that may be preempted and runs that wait for their nodes, described by statuses of Runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from tests.helpers.scenes.queue_scene import MEMBER, NOW, ago, in_queue, mirror_of_nodes, who_starts

from kajitori.cluster.objects import Pod
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.queue.queue import Cycle, Queue, QueueEntry
from kajitori.core.formats.node_lists import compress
from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import PODS
from kajitori.kube.watch import Added, Deleted

AN_HOUR_AGO = ago(hours=1)
GPUS = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: "8"}}
TEMPLATE: dict[str, Any] = {
    "metadata": {},
    "spec": {"containers": [{"name": "main", "resources": GPUS}], "terminationGracePeriodSeconds": 60},
}


class PreemptionScene:
    """Nodes with eight GPUs each, running and waiting runs, and a queue that knows only what the mirror shows."""

    def __init__(self, nodes: int, **policy: Any) -> None:
        self.mirror = mirror_of_nodes(nodes)
        self.policy = PolicyFile(None, without_file=parse_policy(policy))
        self.pods: dict[str, list[Pod]] = {}
        self.waiting: list[QueueEntry] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Replace the queue, as if another controller had become the leader."""
        self.queue = Queue(self.mirror, ClusterView(self.mirror, self.policy))
        for waiting in self.waiting:
            self.queue.wait(waiting)

    def put(
        self, name: str, status: RunStatus, team: str = "team", annotations: dict[str, str] | None = None, **spec: Any
    ) -> RunObject:
        before = self.mirror.runs.get((team, name))
        version = str(int(before.metadata.resource_version) + 1) if before else "1"
        meta = ObjectMeta(
            name=name, namespace=team, uid=f"uid-{name}", resource_version=version, annotations=annotations or {}
        )
        raw = before.spec if before else msgspec.Raw(msgspec.json.encode({"image": "x", **spec}))
        self.mirror.runs[team, name] = run = RunObject(metadata=meta, spec=raw, status=status)
        self.mirror._notify(RUNS, team, name)
        return run

    def runs(self, name: str, *nodes: str, phase: Phase = Phase.RUNNING, team: str = "team", **spec: Any) -> RunStatus:
        """Add a run that has had a member on each of these nodes for an hour; return its status."""
        attempt = Attempt(
            number=1, nodes=compress(nodes), template=template_text(TEMPLATE), created=True, started_at=AN_HOUR_AGO
        )
        members = MemberCounts(total=len(nodes), running=len(nodes))
        status = RunStatus(phase=phase, attempt=attempt, attempts=1, members=members, started_at=AN_HOUR_AGO)
        self.put(name, status, team, **({"priority": "low"} | spec))
        self.pods[name] = []
        for rank, node in enumerate(nodes):
            self.add(name, rank, node, team)
        return status

    def add(self, name: str, rank: int, node: str, team: str = "team", **metadata: Any) -> None:
        owner = {"kind": "Run", "name": name, "uid": f"uid-{name}", "controller": True}
        meta = {"name": f"{name}-1-{rank}", "namespace": team, "uid": f"{name}-{rank}", "ownerReferences": [owner]}
        document = {
            "metadata": meta | metadata,
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": GPUS}]},
            "status": {"phase": "Running"},
        }
        pod = msgspec.convert(document, Pod)
        self.pods[name].append(pod)
        self.mirror.pods[team, pod.metadata.name] = pod
        self.mirror._index(Added(pod))
        self.mirror._notify(PODS, team, pod.metadata.name)

    def sweep(self, name: str, *minutes: int) -> RunStatus:
        """Add a sweep with one member per node, started that many minutes ago; return its status."""
        nodes = [f"n{rank}" for rank in range(len(minutes))]
        status = msgspec.structs.replace(self.runs(name, *nodes), sweep=SweepState())
        self.put(name, status)
        self.ends(name)
        self.pods[name] = []
        for rank, age in enumerate(minutes):
            self.add(name, rank, nodes[rank], creationTimestamp=format_time(NOW - timedelta(minutes=age)))
        return status

    def member_ends(self, name: str, rank: int) -> None:
        """Remove the Pod of a member."""
        (gone,) = (pod for pod in self.pods[name] if pod.member is not None and pod.member.rank == rank)
        self.pods[name].remove(gone)
        del self.mirror.pods["team", gone.metadata.name]
        self.mirror._index(Deleted(gone))
        self.mirror._notify(PODS, "team", gone.metadata.name)

    def ends(self, name: str, team: str = "team") -> None:
        """Remove all Pods of a run."""
        for pod in self.pods.pop(name):
            del self.mirror.pods[team, pod.metadata.name]
            self.mirror._index(Deleted(pod))
            self.mirror._notify(PODS, team, pod.metadata.name)

    def told(self, name: str) -> None:
        """Mark all Pods of a run as being deleted."""
        nodes = [pod.spec.node_name for pod in self.pods[name]]
        self.ends(name)
        self.pods[name] = []
        for rank, node in enumerate(nodes):
            self.add(name, rank, node, deletionTimestamp="2026-11-21T12:00:50Z")

    def waits(
        self,
        name: str,
        ranks: int,
        *,
        priority: int = 0,
        queued_at: str = "2026-11-21T11:00:00Z",
        annotations: dict[str, str] | None = None,
    ) -> None:
        run = self.put(name, RunStatus(queued_at=queued_at), annotations=annotations)
        request = GangRequest(f"team/{name}", MEMBER, tuple(range(ranks)), priority=priority, queued_at=queued_at)
        self.waiting.append(in_queue(PendingRun(run, request)))
        self.queue.wait(self.waiting[-1])

    def plan(self) -> Cycle:
        return self.queue.plan((), NOW)

    def asks(self) -> dict[str, list[str]]:
        return {each.key: [v.key for v in each.victims] for each in self.plan().preemptions.requests}

    def starts(self) -> dict[str, tuple[str, ...]]:
        return who_starts(self.plan())

    def intends(self, name: str, to: str = "urgent", **more: Any) -> Preempted:
        """Return the preemption that is about to be written into a run's status."""
        (request,) = (each for each in self.plan().preemptions.requests if each.key == f"team/{to}")
        waiting = self.mirror.runs["team", to]
        asked = self.queue.preemptions.statuses_for(request, waiting, NOW)["team", name]
        self.queue.preemptions.note_preempting(("team", name), asked)
        return asked
