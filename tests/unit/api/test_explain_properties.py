"""`kaji explain` agrees with the controller's next cycle, for random policies, nodes and runs in a mirror without an
API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago, in_queue

from kajitori.api.queue.waiting import explanation_of
from kajitori.api.views.queue import ExplanationView, StepView
from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.queue.pending import PendingRuns
from kajitori.cluster.run_object import RUNS
from kajitori.cluster.runs.stored_runs import member_of_template
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.queue.queue import Cycle, Queue
from kajitori.core.formats.node_lists import compress
from kajitori.core.naming import names
from kajitori.core.placement.planner import occupy_rows, room_of
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_api
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import PODS
from kajitori.kube.watch import Added, Deleted

UNKNOWN = msgspec.UNSET
POOL = {"nodeSelector": {"pool": "spot"}, "node": {"cpu": 16, "memory": "64Gi", "gpu": 8}, "maxNodes": 4}


@dataclass
class Case:
    """Everything the API server holds, as documents. Each scene is built from it and from the steps that have
    happened."""

    policy: dict[str, Any]
    nodes: list[dict[str, Any]]
    running: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    foreign: list[dict[str, Any]]
    gone: set[tuple[str, str]] = field(default_factory=set)
    """Steps that have happened, by kind and name."""

    def after(self, steps: Sequence[StepView]) -> Case:
        case = deepcopy(self)
        case.gone |= {(step.kind, step.name) for step in steps}
        return case

    def scene(self) -> Scene:
        return Scene(self)


class Scene(QueueScene):
    """The mirror of a case, its Web API, and its controller's queue."""

    def __init__(self, case: Case) -> None:
        super().__init__(0, **case.policy)
        self.policy = PolicyFile(None, without_file=parse_policy(case.policy))
        well = {name for kind, name in case.gone if kind in ("cordoned", "broken")}
        for node in case.nodes:
            self.mirror.nodes[node["name"]] = _node(node, well=node["name"] in well)
        self.cluster = ClusterView(self.mirror, self.policy)
        ended = {name for kind, name in case.gone if kind in ("run", "ahead")}
        for waiting in case.waiting:
            self.show_waiting(waiting, stopped=f"{waiting['team']}/{waiting['name']}" in ended)
        for running in case.running:
            self.show_running(running)
        for pod in case.foreign:
            if ("pod", f"ops/{pod['name']}") not in case.gone:
                self.show_foreign(pod)
        for running in case.running:  # only now, since a run that ended early would leave its nodes to the next one
            if f"{running['team']}/{running['name']}" in ended:
                self.run_ends(running["team"], running["name"])
        for kind, name in case.gone:
            if kind == "member":
                self.member_ends(*name.split("/"))

    def show_waiting(self, run: dict[str, Any], *, stopped: bool) -> None:
        status = RunStatus(
            phase=Phase.STOPPED if stopped else Phase.QUEUED,
            queued_at=ago(minutes=run["minutes"]),
            members=MemberCounts(total=1),
        )
        if run["has_nodes_kept"]:
            asked = NodeRequest(
                pool="spot", nodes=4, attempt=1, number=1, state=RequestState.PROVISIONED, first_asked_at=ago(minutes=5)
            )
            status = msgspec.structs.replace(status, node_request=asked)
        self.show(run["name"], status, team=run["team"], owner=run["owner"], **run["spec"])

    def show_running(self, each: dict[str, Any]) -> None:
        template = _template(each["spec"])
        member = member_of_template(_attempt(template), names.GPU_RESOURCE)
        cluster = ClusterView(self.mirror, self.policy)
        state, table = cluster.occupancy.used(), cluster.table()
        for promise in cluster.occupancy.promises():
            occupy_rows(state, promise.member, np.array([table.index[name] for name in promise.nodes]))
        nodes = []
        for name in each["nodes"]:
            row = np.array([table.index[name]])
            if room_of(state, member, np.ones(1, dtype=bool), row)[0]:
                occupy_rows(state, member, row)
                nodes.append(name)
        if not nodes:
            return
        phase = Phase.RUNNING if each["bound"] else Phase.STARTING
        spec = {**each["spec"], "replicas": len(nodes)}
        if each["sweep"]:
            spec = {**spec, "array": f"0-{len(nodes) + each['sweep'] - 1}"}
            del spec["replicas"]
        run = self.runs(
            each["name"],
            compress(nodes),
            since=ago(minutes=each["minutes"]),
            phase=phase,
            template=template,
            team=each["team"],
            owner=each["owner"],
            **spec,
        )
        assert run.status is not None
        status = run.status
        if not each["bound"]:
            self.remove_pods(run.metadata.uid)
        if each["sweep"]:
            total = len(nodes) + each["sweep"]
            counts = MemberCounts(total=total, running=len(nodes) if each["bound"] else 0)
            status = msgspec.structs.replace(status, sweep=SweepState(), members=counts)
        preemptor = each["preempted_for"]
        if (
            preemptor is not None
            and (waiting := self.mirror.runs.get(("red", preemptor))) is not None
            and each["bound"]
        ):
            asked = Preempted(by=f"red/{preemptor}", uid=waiting.metadata.uid, who=preemptor, since=ago(seconds=5))
            if not each["sweep"]:
                status = msgspec.structs.replace(status, preemption=asked)
        self.show(each["name"], status, team=each["team"], owner=each["owner"], **spec)

    def show_foreign(self, foreign: dict[str, Any]) -> None:
        document = {
            "metadata": {"name": foreign["name"], "namespace": "ops"},
            "spec": {"nodeName": foreign["node"], "containers": _containers(foreign["resources"])},
            "status": {"phase": "Running"},
        }
        pod = msgspec.convert(document, Pod)
        self.mirror.pods["ops", foreign["name"]] = pod
        self.mirror._index(Added(pod))

    def remove_pods(self, uid: str, is_removed: Callable[[Pod], bool] = lambda _: True) -> None:
        for pod in [pod for pod in self.mirror.pods.values() if pod.owner_run_uid == uid]:
            if is_removed(pod):
                del self.mirror.pods[pod.metadata.namespace, pod.metadata.name]
                self.mirror._index(Deleted(pod))
                self.mirror._notify(PODS, pod.metadata.namespace, pod.metadata.name)

    def run_ends(self, team: str, name: str) -> None:
        run = self.mirror.runs.get((team, name))
        if run is None or run.status is None:
            return
        self.remove_pods(run.metadata.uid)
        status = msgspec.structs.replace(run.status, phase=Phase.STOPPED)
        self.mirror.runs[team, name] = msgspec.structs.replace(run, status=status)
        self.mirror._notify(RUNS, team, name)

    def member_ends(self, team: str, pod: str) -> None:
        name, _, rank = pod.rsplit("-", 2)
        run = self.mirror.runs[team, name]
        assert run.status is not None and run.status.sweep is not None
        self.remove_pods(run.metadata.uid, lambda shown: shown.metadata.name == pod)
        done = [*run.status.sweep.succeeded.split(","), rank]
        state = SweepState(succeeded=",".join(sorted(filter(None, done), key=int)))
        counts = msgspec.structs.replace(
            run.status.members,
            running=max(0, run.status.members.running - 1),
            succeeded=run.status.members.succeeded + 1,
        )
        status = msgspec.structs.replace(run.status, sweep=state, members=counts)
        run = msgspec.structs.replace(run, status=status)
        self.mirror.runs[team, name] = run
        self.mirror._notify(RUNS, team, name)

    def explains(self) -> dict[str, ExplanationView]:
        """Return the explanation of each waiting run, by `namespace/name`."""

        async def ask() -> dict[str, ExplanationView]:
            client = KubeClient(KubeConfig(server="http://unused"))
            api = web_api(ApiDependencies(client=client, mirror=self.mirror, policy=self.policy, now=lambda: NOW))
            waiting = await api.queue.pending.all(NOW)
            return {run.request.key: await explanation_of(api, run.run) for run in waiting}

        return asyncio.run(ask())

    def cycle(self) -> Cycle:
        """Return the first cycle of a new controller."""
        queue = Queue(self.mirror, self.cluster)
        for pending in asyncio.run(PendingRuns(self.mirror, self.cluster).all(NOW)):
            queue.wait(in_queue(pending))
        return queue.plan((), NOW)

    def preempts_for_other_than(self, key: str) -> bool:
        """Whether nodes are being freed for another run. Its placement may change with everything that ends
        meanwhile."""
        asks = (run.status.preemption for run in self.mirror.runs.values() if run.status is not None)
        return any(asked is not None and asked.by != key for asked in asks)


def in_order(cycle: Cycle) -> list[str]:
    """Return the keys of all waiting runs, in order."""
    return [run.key for run in cycle.plan.queue] if cycle.plan is not None else []


def _node(node: dict[str, Any], *, well: bool) -> Node:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "20"} | ({names.GPU_RESOURCE: "8"} if node["type"] else {})
    labels = {"kajitori.dev/gpu-type": node["type"]} if node["type"] else {}
    created = ago(minutes=1 if node["state"] == "new" else 999)
    ready = "True" if well or node["state"] != "lost" else "False"
    out = [{"key": names.TAINT_UNHEALTHY, "value": "gpu", "effect": "NoSchedule"}]
    document = {
        "metadata": {"name": node["name"], "labels": labels | node["pool"], "creationTimestamp": created},
        "spec": {
            "unschedulable": node["state"] == "cordoned" and not well,
            "taints": out if node["state"] == "unhealthy" and not well else [],
        },
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(document, Node)


def _containers(resources: dict[str, Any]) -> list[dict[str, Any]]:
    amounts = {"cpu": str(resources["cpu"]), "memory": resources["memory"]}
    if resources.get("gpu"):
        amounts[names.GPU_RESOURCE] = str(resources["gpu"])
    return [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    resources = spec["resources"]
    labels = {names.LABEL_WHOLE_NODE: "true"} if resources.get("wholeNode") else {}
    return {"metadata": {"labels": labels}, "spec": {"containers": _containers(resources)}}


def _attempt(template: dict[str, Any]) -> Attempt:
    return Attempt(number=1, nodes="", template=template_text(template))


# ------------------------------------------------------------------------------------------------ random cases

RESOURCES = st.fixed_dictionaries(
    {"cpu": st.sampled_from([1, 6, 12]), "memory": st.sampled_from(["1Gi", "30Gi"])},
    optional={"gpu": st.sampled_from([1, 4, 8]), "wholeNode": st.just(True)},
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 6))
    nodes = [
        {
            "name": f"n{i}",
            "type": draw(st.sampled_from(["", "h100", "h100", "a100"])),
            "state": draw(
                st.sampled_from(["ok", "ok", "ok", "ok", *(["new"] if i else []), "cordoned", "lost", "unhealthy"])
            ),
            "pool": draw(st.sampled_from([{}, {}, {"pool": "spot"}])),
        }
        for i in range(count)
    ]
    # Nodes that came for a run are kept for it from then on, so no other run is on them.
    settled = [node["name"] for node in nodes if node["state"] != "new"] or ["n0"]
    some = st.lists(st.sampled_from(settled), min_size=1, max_size=4)
    types = st.sampled_from(["", "", "h100", "a100"])

    def spec(name: str) -> dict[str, Any]:
        resources = draw(RESOURCES)
        if resources.get("gpu") and (gpu_type := draw(types)):
            resources["gpuType"] = gpu_type
        found = {
            "image": "x",
            "command": [name],
            "resources": resources,
            "priority": draw(st.sampled_from(["low", "normal", "high"])),
        }
        limit = draw(st.sampled_from(["", "", "20m", "2h"]))
        return found | ({"timeLimit": limit} if limit else {})

    waiting = []
    for i in range(draw(st.integers(1, 4))):
        name = f"w{i}"
        size: dict[str, Any] = draw(
            st.one_of(
                st.integers(1, 4).map(lambda n: {"replicas": n}),
                st.integers(2, 4).map(lambda n: {"replicas": n, "minReplicas": n - 1}),
                st.sampled_from([{"array": "0-5"}, {"array": "0-9%2"}]),
            )
        )
        waiting.append(
            {
                "name": name,
                "team": draw(st.sampled_from(["red", "blue"])),
                "owner": draw(st.sampled_from(["ada", "bob"])),
                "minutes": draw(st.integers(1, 90)),
                "has_nodes_kept": draw(st.sampled_from([False, False, False, True])),
                "spec": spec(name) | size,
            }
        )
    running = []
    for i in range(draw(st.integers(0, 5))):
        name, kind = f"r{i}", draw(st.sampled_from(["batch", "batch", "batch", "sweep", "service"]))
        running.append(
            {
                "name": name,
                "team": draw(st.sampled_from(["red", "blue"])),
                "owner": draw(st.sampled_from(["ada", "bob"])),
                "minutes": draw(st.integers(1, 60)),
                "nodes": draw(some),
                "bound": draw(st.sampled_from([True, True, True, False])),
                "sweep": draw(st.integers(1, 3)) if kind == "sweep" else 0,
                "preempted_for": draw(st.sampled_from([None, None, None, *(run["name"] for run in waiting)])),
                "spec": spec(name) | ({"type": "service"} if kind == "service" else {}),
            }
        )
    foreign = [
        {"name": f"f{i}", "node": draw(some)[0], "resources": draw(RESOURCES)} for i in range(draw(st.integers(0, 2)))
    ]
    policy = {
        "queue": {
            "order": draw(st.sampled_from(["length", "fifo", "share"])),
            "reservations": draw(st.sampled_from([True, True, False])),
        },
        "preemption": {"enabled": draw(st.booleans()), "minimumRunTime": "10m"},
        "guarantees": draw(
            st.sampled_from([[], [{"namespace": "red", "gpus": 16}], [{"namespace": "blue", "cpu": 16}]])
        ),
        "gpu": {"cpuRunsOnGpuNodes": draw(st.sampled_from(["never", "whenNoOthers", "always"]))},
        "nodePools": draw(st.sampled_from([{}, {"spot": POOL}])),
    }
    return Case(policy, nodes, running, waiting, foreign)


@settings(deadline=None, max_examples=20, phases=[Stage.generate])  # shrinking a case takes too long
@given(cases())
def test_explanations_agree_with_the_controller(case: Case) -> None:
    """They name the same runs that start or are preempted, and exactly the steps that let the run start in the next
    cycle: with fewer steps it does not start, as long as the order stays the same."""
    scene = case.scene()
    cycle, explanations = scene.cycle(), scene.explains()
    starts = {"/".join(waiting.key) for waiting, _ in cycle.starts}
    preempted = {request.key: {victim.key for victim in request.victims} for request in cycle.preemptions.requests}
    for key, view in explanations.items():
        assert (view.to_free == []) == (key in starts), key
        if key in starts:
            continue
        if not starts:  # otherwise other runs take the nodes in this cycle
            assert set(view.asks or ()) == preempted.get(key, set()), key
        if view.to_free is UNKNOWN or not view.exact or scene.preempts_for_other_than(key):
            continue
        for left_out in (None, *view.to_free):
            after = case.after([step for step in view.to_free if step is not left_out]).scene().cycle()
            if in_order(after) == [key for key in in_order(cycle) if key in in_order(after)]:
                started = {"/".join(waiting.key) for waiting, _ in after.starts}
                assert (key in started) == (left_out is None), (key, view.to_free, left_out)
