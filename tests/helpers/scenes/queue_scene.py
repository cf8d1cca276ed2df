"""A mirror that is filled by hand with nodes and with runs that wait, run or are over; nothing is watched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.queue.queue import Admitted, Cycle, QueueEntry
from kajitori.core import gang
from kajitori.core.formats.node_lists import compress, expand
from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Ran, template_text
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import PODS
from kajitori.kube.watch import Added, Deleted

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MEMBER = MemberRequest(cpu_millis=1000, memory_bytes=2**30, gpus=8)
GPUS = {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: "8"}
CONTAINERS = [{"name": "main", "resources": {"requests": GPUS, "limits": GPUS}}]
TEMPLATE: dict[str, Any] = {"metadata": {}, "spec": {"containers": CONTAINERS}}


def ago(**span: float) -> str:
    """Return a time before noon, as Kubernetes writes it."""
    return format_time(NOW - timedelta(**span))


def mirror_of_nodes(count: int) -> Mirror:
    """Return a mirror without watches that shows ready nodes n0, n1, … with eight GPUs each."""
    mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110", names.GPU_RESOURCE: "8"}
    for number in range(count):
        document = {
            "metadata": {"name": f"n{number}"},
            "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        mirror.nodes[f"n{number}"] = msgspec.convert(document, Node)
    return mirror


def in_queue(applicant: PendingRun) -> QueueEntry:
    """Return a waiting run as an entry of the controller's queue."""
    run, request = applicant.run, applicant.request
    assert run.status is not None
    life = gang.Run("batch", len(request.ranks), gang.Limits(), run.status, fewest=request.fewest)
    return QueueEntry(run, request, admitted=Admitted(life), status=run.status, version=run.metadata.resource_version)


def who_starts(cycle: Cycle) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the runs that start, by name."""
    return {waiting.key[1]: placement.nodes for waiting, placement in cycle.starts}


class QueueScene:
    """A cluster of nodes n0, n1, … with eight GPUs each. A member takes a whole node."""

    def __init__(self, nodes: int, **policy: Any) -> None:
        self.mirror = mirror_of_nodes(nodes)
        self._made = 0
        self.policy = PolicyFile(None, without_file=parse_policy(policy))
        self.cluster = ClusterView(self.mirror, self.policy)

    def show(self, name: str, status: RunStatus, *, owner: str = "ada", team: str = "team", **spec: Any) -> RunObject:
        """Add a Run to the mirror, or replace it."""
        before = self.mirror.runs.get((team, name))
        version = int(before.metadata.resource_version) + 1 if before is not None else 1
        is_new = before is None or (before.status is not None and before.status.phase.is_final)
        self._made += is_new
        meta = ObjectMeta(
            name=name,
            namespace=team,
            uid=f"uid-{self._made}" if is_new or before is None else before.metadata.uid,
            generation=1,
            resource_version=str(version),
            annotations={names.ANNOTATION_OWNER: owner} if owner else {},
            creation_timestamp=status.queued_at,
        )
        document = {"image": "bert:3", "command": ["train"]} | spec
        run = RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(document)), status=status)
        self.mirror.runs[team, name] = run
        self.mirror._notify(RUNS, team, name)
        return run

    def change(self, run: RunObject, **status: Any) -> RunObject:
        """Show this run with other values in its status."""
        assert run.status is not None
        changed = msgspec.structs.replace(run, status=msgspec.structs.replace(run.status, **status))
        namespace, name = run.metadata.namespace, run.metadata.name
        self.mirror.runs[namespace, name] = changed
        self.mirror._notify(RUNS, namespace, name)
        return changed

    def lose(self, name: str, team: str = "team") -> None:
        """Remove a Run."""
        del self.mirror.runs[team, name]
        self.mirror._notify(RUNS, team, name)

    def finished(self, name: str, *, seconds: int, until: str, members: int = 1, **more: Any) -> RunObject:
        """Add a run that has succeeded."""
        attempt = Attempt(
            number=1,
            nodes=compress([f"n{number}" for number in range(members)]),
            template=template_text(TEMPLATE),
            created=True,
        )
        status = RunStatus(
            phase=Phase.SUCCEEDED,
            attempt=attempt,
            attempts=1,
            members=MemberCounts(total=members, succeeded=members),
            ran=Ran(seconds=seconds, until=until),
            finished_at=until,
        )
        return self.show(name, status, **({} if "array" in more else {"replicas": members}) | more)

    def runs(
        self,
        name: str,
        nodes: str,
        *,
        since: str,
        phase: Phase = Phase.RUNNING,
        template: dict[str, Any] = TEMPLATE,
        **more: Any,
    ) -> RunObject:
        """Add a run on these nodes, with its Pods."""
        attempt = Attempt(
            number=1,
            nodes=nodes,
            template=template_text(template),
            world_size=len(expand(nodes)),
            created=True,
            planned_at=since,
            started_at=since if phase is Phase.RUNNING else "",
        )
        where = gang.node_by_rank(attempt)
        status = RunStatus(
            phase=phase,
            attempt=attempt,
            attempts=1,
            members=MemberCounts(total=len(where), running=len(where)),
            queued_at=since,
            started_at=attempt.started_at,
        )
        ran = more.pop("ran", None)
        run = self.show(name, msgspec.structs.replace(status, ran=ran), **more)
        for rank, node in where.items():
            self.pod(run, rank, node)
        return run

    def pod(self, run: RunObject, rank: int, node: str, *, phase: str = "Running", deleting: str = "") -> None:
        """Add the Pod of a member."""
        owner = {"kind": names.KIND, "name": run.metadata.name, "uid": run.metadata.uid, "controller": True}
        assert run.status is not None and run.status.attempt is not None
        attempt = run.status.attempt
        template = attempt.pod_template
        document = {
            "metadata": {
                "name": f"{run.metadata.name}-1-{rank}",
                "namespace": run.metadata.namespace,
                "ownerReferences": [owner],
                "creationTimestamp": attempt.started_at or attempt.planned_at,
                "deletionTimestamp": deleting,
                "labels": template["metadata"].get("labels", {}),
            },
            "spec": {"nodeName": node, "containers": template["spec"]["containers"]},
            "status": {"phase": phase},
        }
        pod = msgspec.convert(document, Pod)
        self.lose_pod(pod.metadata.name, pod.metadata.namespace)
        self.show_pod(pod)

    def show_pod(self, pod: Pod) -> None:
        """Add a Pod to the mirror, or replace it."""
        self.mirror.pods[pod.metadata.namespace, pod.metadata.name] = pod
        self.mirror._index(Added(pod))
        self.mirror._notify(PODS, pod.metadata.namespace, pod.metadata.name)

    def lose_pod(self, name: str, team: str = "team") -> None:
        """Remove a Pod if it exists."""
        before = self.mirror.pods.pop((team, name), None)
        if before is not None:
            self.mirror._index(Deleted(before))
            self.mirror._notify(PODS, team, name)

    def waits(self, name: str, members: int, *, since: str = "", priority: int = 0, **more: Any) -> PendingRun:
        """Add a run that waits for nodes."""
        since = since or ago(minutes=1)
        ran = more.pop("ran", None)
        status = RunStatus(phase=Phase.QUEUED, queued_at=since, members=MemberCounts(total=members), ran=ran)
        run = self.show(name, status, **more)
        key = f"{run.metadata.namespace}/{name}"
        return PendingRun(run, GangRequest(key, MEMBER, tuple(range(members)), priority=priority, queued_at=since))
