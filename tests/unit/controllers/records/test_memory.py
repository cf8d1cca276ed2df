"""Memory peaks of members: measured at a limited rate, taken from ended Pods, and written when they matter."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.member_memory import METRICS_PATH
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.controllers.records import memory
from kajitori.controllers.records.memory import MemoryKeeper
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemoryPeak
from kajitori.errors import Forbidden, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import PODS
from kajitori.kube.watch import Added

GI = 2**30
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class MetricsClient:
    """Stands for a client: serves an answer for each path, and records the requested paths."""

    def __init__(self, **served: Any) -> None:
        self.metrics: Any = served.get("metrics", NotFound("no such API"))
        self.nodes: dict[str, Any] = served.get("nodes", {})
        self.paths: list[str] = []

    async def request(self, method: str, path: str, *, params: dict[str, str] | None = None) -> bytes:
        self.paths.append(path)
        answer = self.metrics if path == METRICS_PATH else self.nodes.get(path.split("/")[4], NotFound("no such node"))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


def summary(**held: float) -> dict[str, Any]:
    """Return a kubelet's summary with the memory of these Pods in GiB."""
    pods = [
        {
            "podRef": {"name": name.replace("_", "-"), "namespace": "vision", "uid": f"uid-{name.replace('_', '-')}"},
            "containers": [
                {"name": "sidecar", "memory": {"workingSetBytes": 99 * GI}},
                {"name": "main", "memory": {"time": "2026-11-21T12:00:00Z", "workingSetBytes": int(held[name] * GI)}},
            ],
        }
        for name in held
    ]
    return {"node": {"nodeName": "any"}, "pods": pods}


def metrics(at: str = "2026-11-21T12:00:00Z", **held: str) -> dict[str, Any]:
    """Return a response of the metrics API."""
    items = [
        {
            "metadata": {"name": name.replace("_", "-"), "namespace": "vision"},
            "timestamp": at,
            "containers": [{"name": "main", "usage": {"cpu": "1", "memory": size}}],
        }
        for name, size in held.items()
    ]
    return {"kind": "PodMetricsList", "items": items}


def pod(rank: int, node: str, phase: str = "Running", **more: Any) -> Pod:
    document = {
        "metadata": {
            "name": f"bert-1-{rank}",
            "namespace": "vision",
            "uid": f"uid-bert-1-{rank}",
            "labels": {
                names.LABEL_RUN: "bert",
                names.LABEL_RUN_UID: "run",
                names.LABEL_ATTEMPT: "1",
                names.LABEL_RANK: str(rank),
            },
            "ownerReferences": [{"kind": "Run", "name": "bert", "uid": "run", "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {"memory": "8Gi"}}}]},
        "status": {"phase": phase, "startTime": more.pop("start_time", "2026-11-21T11:00:00Z"), **more},
    }
    return msgspec.convert(document, Pod)


class Scene:
    """A mirror with one run and its members, changed by the test, and a keeper."""

    def __init__(self, *pods: Pod, phase: Phase = Phase.RUNNING, known: MemoryPeak | None = None) -> None:
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        self.woken: list[tuple[str, str]] = []
        meta = ObjectMeta(name="bert", namespace="vision", uid="run")
        attempt = Attempt(number=1, nodes="n*4096", world_size=4096)
        status = RunStatus(phase=phase, memory=known, attempts=1, attempt=attempt)
        self.run = RunObject(metadata=meta, status=status)
        self.mirror.runs["vision", "bert"] = self.run
        self.keeper = MemoryKeeper(self.mirror_client(), self.mirror, self.woken.append, lambda: NOW)
        for pod in pods:
            self.show(pod)

    def mirror_client(self) -> KubeClient:
        return KubeClient(KubeConfig(server="http://unused"))

    def show(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        self.mirror.pods[key] = pod
        self.mirror._index(Added(pod))
        self.keeper._note(PODS, *key)

    async def ask(self, client: MetricsClient) -> None:
        await self.keeper.ask(cast(KubeClient, client))

    def noted(self, *pods: Pod) -> RunStatus:
        assert self.run.status is not None
        members = [(pod, member) for pod in pods if (member := member_of(pod, {})) is not None]
        return self.keeper.noted(self.run, self.run.status, members)


async def test_one_request_goes_to_each_kubelet_with_running_members() -> None:
    """Two members on one node need one request; ended members need none."""
    scene = Scene(pod(0, "a"), pod(1, "a"), pod(2, "b"), pod(3, "c", "Failed"))
    client = MetricsClient(nodes={"a": summary(bert_1_0=1, bert_1_1=3), "b": summary(bert_1_2=2)})
    await scene.ask(client)
    assert sorted(client.paths[1:]) == [f"/api/v1/nodes/{node}/proxy/stats/summary" for node in ("a", "b")]
    peak = scene.noted().memory
    assert peak is not None
    assert (peak.peak_bytes, peak.rank, peak.node, peak.total_bytes) == (3 * GI, 1, "a", 6 * GI)
    assert scene.woken == [("vision", "bert")]


async def test_the_peak_of_a_member_without_its_labels_is_kept() -> None:
    """Its name and its owner reference identify it."""
    bare = pod(0, "a", "Succeeded", conditions=[{"type": names.CONDITION_MEMORY_PEAK, "message": f"main={2 * GI}"}])
    bare = msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, labels={}))
    scene = Scene(bare)
    assert scene.woken == [("vision", "bert")]
    peak = scene.noted().memory
    assert peak is not None
    assert (peak.peak_bytes, peak.rank) == (2 * GI, 0)


async def test_a_pod_that_is_no_member_adds_nothing_to_the_runs_peak() -> None:
    """Three Pods have the run's owner reference, but another namespace, another attempt, or a rank beyond the run's
    members; the fourth has the right name and label, but no owner reference."""
    condition = [{"type": names.CONDITION_MEMORY_PEAK, "message": f"main={2 * GI}"}]
    ended = pod(0, "a", "Succeeded", conditions=condition)

    def but(**meta: Any) -> Pod:
        return msgspec.structs.replace(ended, metadata=msgspec.structs.replace(ended.metadata, **meta))

    foreign = but(namespace="mallory"), but(name="bert-2-0"), but(name="bert-1-4096"), but(owner_references=())
    scene = Scene(*foreign)
    assert (scene.woken, scene.noted().memory) == ([], None)


async def test_one_request_to_the_metrics_api_covers_all_members() -> None:
    """A kubelet is asked only for a member that the metrics API does not know."""
    scene = Scene(pod(0, "a"), pod(1, "b"))
    client = MetricsClient(metrics=metrics(bert_1_0="2Gi", bert_1_1="1048576Ki", other="9Gi"))
    await scene.ask(client)
    assert client.paths == [METRICS_PATH]
    peak = scene.noted().memory
    assert peak is not None and (peak.peak_bytes, peak.total_bytes) == (2 * GI, 3 * GI)
    scene.show(pod(2, "c"))
    await scene.ask(client)
    assert client.paths[1:] == [METRICS_PATH, "/api/v1/nodes/c/proxy/stats/summary"]


async def test_requests_stop_after_they_were_forbidden() -> None:
    """This holds for both APIs. The keeper tries again much later."""
    scene = Scene(*(pod(rank, f"n{rank}") for rank in range(3)))
    client = MetricsClient(metrics=Forbidden("no"), nodes={f"n{rank}": Forbidden("no") for rank in range(3)})
    await scene.ask(client)
    asked = len(client.paths)
    assert asked <= 1 + memory.AT_ONCE
    await scene.ask(client)
    assert len(client.paths) == asked
    assert scene.noted().memory is None


@pytest.mark.parametrize("answer", [Unavailable("gone"), b"not JSON", b'{"pods": 3}', b"{}"])
async def test_an_invalid_answer_of_a_kubelet_is_ignored(answer: Any) -> None:
    """Answers of other kubelets count."""
    scene = Scene(pod(0, "bad"), pod(1, "good"))
    await scene.ask(MetricsClient(nodes={"bad": answer, "good": summary(bert_1_1=2)}))
    peak = scene.noted().memory
    assert peak is not None and peak.rank == 1


async def test_figures_of_another_pod_of_the_same_name_are_ignored() -> None:
    """A kubelet reports the UID. The metrics API reports only a time, and a new Run may reuse the name of an old
    Pod."""
    scene = Scene(pod(0, "a", start_time="2026-11-21T12:30:00Z"))
    other = summary(bert_1_0=5)
    other["pods"][0]["podRef"]["uid"] = "another"
    await scene.ask(MetricsClient(nodes={"a": other}))
    await scene.ask(MetricsClient(metrics=metrics(bert_1_0="5Gi")))
    assert scene.noted().memory is None


async def test_many_nodes_are_asked_at_a_steady_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cluster takes longer, and causes no higher load on the API server."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    scene = Scene(*(pod(rank, f"n{rank}") for rank in range(memory.UNPACED + 10)))
    await scene.ask(MetricsClient(nodes={f"n{rank}": summary() for rank in range(memory.UNPACED + 10)}))
    assert sum(pauses) == pytest.approx(10 / memory.NODES_PER_SECOND)


async def test_no_request_is_made_for_an_ended_run() -> None:
    client = MetricsClient()
    await Scene(pod(0, "a"), phase=Phase.SUCCEEDED).ask(client)
    assert client.paths == []


def ended(rank: int, *, message: str = "", reason: str = "Completed", exit_code: int = 0) -> Pod:
    conditions = [{"type": names.CONDITION_MEMORY_PEAK, "status": "True", "message": message}] if message else []
    terminated = {"exitCode": exit_code, "reason": reason, "finishedAt": "2026-11-21T12:00:00Z"}
    statuses = [{"name": "main", "state": {"terminated": terminated}}]
    phase = "Failed" if exit_code else "Succeeded"
    return pod(rank, "a", phase, conditions=conditions, containerStatuses=statuses)


def test_the_peak_of_an_ended_pod_is_kept_when_the_pod_is_deleted() -> None:
    """Its run is reconciled, and the peak is known without the Pod."""
    scene = Scene(ended(0, message=f"sidecar=5,main={3 * GI}"))
    assert scene.woken == [("vision", "bert")]
    scene.mirror.pods.clear()
    peak = scene.noted().memory
    assert peak is not None and (peak.peak_bytes, peak.at) == (3 * GI, "2026-11-21T12:00:00Z")


@pytest.mark.parametrize("message", ["main=lots", "main=-1", "main=" + "9" * 40, "", "=", "main"])
def test_an_invalid_memory_condition_of_a_pod_is_ignored(message: str) -> None:
    """Anyone who may write the status of Pods can write anything into it."""
    assert Scene(ended(0, message=message)).noted().memory is None


def test_the_peak_of_an_out_of_memory_kill_is_at_least_the_limit() -> None:
    """A lower figure that was measured before does not count."""
    out = ended(1, message=f"main={GI}", reason="OOMKilled", exit_code=137)
    peak = Scene(out).noted(out).memory
    assert peak is not None and (peak.peak_bytes, peak.rank, peak.ran_out) == (8 * GI, 1, True)


def test_an_out_of_memory_kill_of_a_restarted_container_counts() -> None:
    """The Pod goes on; the end of its last container is still in its status."""
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-21T12:00:00Z"}}
    statuses = [{"name": "main", "state": {"running": {}}, "lastState": last, "restartCount": 1}]
    again = pod(0, "a", containerStatuses=statuses)
    peak = Scene(again).noted(again).memory
    assert peak is not None and (peak.peak_bytes, peak.ran_out) == (8 * GI, True)


async def test_a_peak_that_has_hardly_grown_is_written_when_a_member_ends() -> None:
    """It is not written before: a Run is not written for each page that its members touch (rule 8)."""
    known = MemoryPeak(peak_bytes=GI, total_bytes=GI)
    scene = Scene(pod(0, "a"), known=known)
    await scene.ask(MetricsClient(nodes={"a": summary(bert_1_0=1.01)}))
    assert scene.noted(pod(0, "a")).memory is known
    peak = scene.noted(ended(0)).memory
    assert peak is not None and peak.peak_bytes == int(1.01 * GI)


async def test_peaks_of_a_deleted_run_are_forgotten() -> None:
    scene = Scene(pod(0, "a"))
    await scene.ask(MetricsClient(nodes={"a": summary(bert_1_0=1)}))
    assert scene.keeper._peaks
    scene.mirror.runs.clear()
    await scene.ask(MetricsClient())
    assert not scene.keeper._peaks


async def test_a_slow_metrics_api_is_asked_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer grows with the number of members; requests may take at most a twentieth of the time."""
    scene = Scene(pod(0, "a"))
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        scene.keeper._metrics_seconds = 4.5
        if len(pauses) == 2:
            raise asyncio.CancelledError

    async def ask(client: KubeClient) -> None:
        return None

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(scene.keeper, "ask", ask)
    with pytest.raises(asyncio.CancelledError):
        await scene.keeper.ask_forever(lambda: parse_policy({"memory": {"sampleEvery": "60s"}}))
    assert pauses[:2] == [60, 90]


async def test_policy_sets_the_interval_between_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0 nothing is measured until policy changes."""
    scene, rounds = Scene(), 0
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 6:
            raise asyncio.CancelledError

    async def ask(client: KubeClient) -> None:
        nonlocal rounds
        rounds += 1

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(scene.keeper, "ask", ask)
    seconds = iter(["0s", "0s", *["7s"] * 20])
    with pytest.raises(asyncio.CancelledError):
        await scene.keeper.ask_forever(lambda: parse_policy({"memory": {"sampleEvery": next(seconds)}}))
    assert rounds and pauses[0] == memory.OFF_SECONDS and 7 in pauses
