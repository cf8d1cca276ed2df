"""Peaks of memory are measured and kept, culprits and victims are told apart, and members without a limit stay alone on
their nodes. The same on the embedded server and on a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from tests.harness.cluster import Cluster, this_machine
from tests.harness.local_cluster import NODE, LocalCluster
from tests.harness.platform.parts import GPUS
from tests.harness.servers.kube_server import unicast_address

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.members import MemoryPeak
from kajitori.embedded.kubelet.settings import EvictionThresholds

GI = 2**30
OFTEN = {"memory": {"sampleEvery": "1s"}}


def need_a_network(is_real: bool) -> None:
    """Skip the test if this machine has no address but loopback. A real API server refuses a kubelet's loopback
    address."""
    if is_real and unicast_address() == "127.0.0.1":
        pytest.skip(
            "a real API server calls no kubelet at a loopback address, and this machine has no other one: "
            "connect it to a network with a default route"
        )


def peak_of(cluster: Cluster, name: str) -> MemoryPeak:
    peak = cluster.status(name).memory
    return peak or MemoryPeak(peak_bytes=0)


async def test_a_peak_is_kept_over_attempts_and_shown_to_the_next_run(cluster: Cluster) -> None:
    """The kubelets' figures come through the API server's proxy; a restarted controller forgets nothing."""
    need_a_network(cluster.server.is_real)
    cluster.use_policy(**OFTEN)
    task = cluster.start_controller()
    roomy = {"cpu": 1, "memory": "8Gi"}
    await cluster.submit("bert-1", replicas=2, restarts=1, resources=roomy, args=["--seed", "1"])
    await cluster.reaches("bert-1", Phase.RUNNING)
    await cluster.behave("bert-1-1-0", memory="1Gi")
    await cluster.behave("bert-1-1-1", memory="3Gi")
    await cluster.until(lambda: peak_of(cluster, "bert-1").total_bytes == 4 * GI, "the peak of all members")
    peak = peak_of(cluster, "bert-1")
    assert (peak.peak_bytes, peak.rank, peak.attempt, peak.limit_bytes) == (3 * GI, 1, 1, 8 * GI)
    assert peak.node == cluster.nodes_of("bert-1")[1] and peak.at

    await cluster.behave("bert-1-1-0", exit_code="1")
    await cluster.reaches("bert-1", Phase.RUNNING, attempt=2)
    await cluster.kill_controller(task)
    cluster.start_controller()
    await cluster.behave("bert-1-2-0", memory="2Gi")
    await cluster.succeed("bert-1")
    await cluster.reaches("bert-1", Phase.SUCCEEDED)
    assert (peak_of(cluster, "bert-1").peak_bytes, peak_of(cluster, "bert-1").attempt) == (3 * GI, 1)

    await cluster.submit("bert-2", resources={"cpu": 1, "memory": "2Gi"}, args=["--seed", "2"])
    await cluster.reaches("bert-2", Phase.RUNNING)
    findings = {finding.code: finding.message for finding in cluster.status("bert-2").findings}
    assert findings["MemoryBelowPeak"].startswith("earlier runs of this kind peaked at 3Gi a member (bert-1, ")


async def test_culprits_and_victims_are_told_apart(cluster: Cluster) -> None:
    """A member within its request is restarted, and this is not counted. A member above its request ends the run and is
    not moved to another node."""
    cluster.start_controller()
    burst = {"qos": "burstable", "resources": {"cpu": 1, "memory": "4Gi", "memoryRequest": "512Mi"}}
    apart = {
        "cpu": 1,
        "memory": "1Gi",
        "gpu": GPUS,
    }  # if the node of a culprit runs out at that moment, the two cannot be told apart
    await cluster.submit("victim", replicas=2, resources=apart)
    await cluster.submit("evicted", replicas=2)
    await cluster.submit("culprit", replicas=2, restarts=5)
    await cluster.submit("greedy", replicas=2, restarts=5, **burst)
    await asyncio.gather(*(cluster.reaches(name, Phase.RUNNING) for name in ("victim", "evicted", "culprit", "greedy")))
    await asyncio.gather(
        cluster.behave("victim-1-1", oom="node"),
        cluster.behave("evicted-1-1", evict="true", memory="1Gi"),
        cluster.behave("culprit-1-1", oom="true"),
        cluster.behave("greedy-1-1", evict="true", memory="2Gi"),
    )
    for name, reason in (("victim", Reason.NODE_OUT_OF_MEMORY), ("evicted", Reason.EVICTED)):
        status = await cluster.reaches(name, Phase.RUNNING, attempt=2)
        assert (status.restarts, status.interruptions) == (0, 1)
        assert [note.reason for note in status.notable if note.attempt == 1] == [reason.value]
    for name, used in (("culprit", GI), ("greedy", 2 * GI)):
        status = await cluster.reaches(name, Phase.FAILED)
        assert (status.reason, status.attempts) == (Reason.OUT_OF_MEMORY, 1)
        assert status.memory is not None
        assert (status.memory.peak_bytes, status.memory.rank, status.memory.ran_out) == (used, 1, True)
    assert "it used 2Gi and had requested 512Mi" in cluster.status("greedy").message


async def test_members_without_a_memory_limit_stay_alone(cluster: Cluster) -> None:
    """No other run is placed on their nodes, and they are placed on empty nodes. Such a run ends when it may have
    caused an eviction."""
    cluster.use_policy(memoryWithoutLimit="unlimited")
    cluster.start_controller()
    unlimited = {"cpu": 1}
    await cluster.submit("small-1", replicas=3)
    await cluster.reaches("small-1", Phase.RUNNING)
    await cluster.submit("hog-1", replicas=2, restarts=5, resources=unlimited)
    await cluster.submit("hog-2", resources=unlimited)
    for name in ("hog-1", "hog-2"):
        await cluster.reaches(name, Phase.RUNNING)
    await cluster.submit("small-2", replicas=8)
    await cluster.reaches("small-2", Phase.RUNNING)
    small = set(cluster.nodes_of("small-1")) | set(cluster.nodes_of("small-2"))
    hogs = [set(cluster.nodes_of("hog-1")), set(cluster.nodes_of("hog-2"))]
    assert not hogs[0] & hogs[1] and not small & (hogs[0] | hogs[1])
    assert "memory" not in cluster.pods("hog-1")[0].spec.containers[0].resources.limits

    await cluster.behave("hog-1-1-0", evict="true")
    status = await cluster.reaches("hog-1", Phase.FAILED)
    assert (status.reason, status.attempts) == (Reason.EVICTED, 1)
    assert "not carried to another node" in status.message


async def test_a_real_process_reports_its_peak_when_it_ends(cluster: Cluster) -> None:
    """This includes a process that ends before the first sample."""
    async with this_machine(cluster) as selector:
        cluster.start_controller()
        command = [sys.executable, "-I", "-S", "-c", "a = bytearray(96 << 20)"]
        resources = {"cpu": "100m", "memory": "512Mi"}
        await cluster.submit("quick", command=command, resources=resources, nodeSelector=selector)
        await cluster.reaches("quick", Phase.SUCCEEDED)
        peak = await cluster.until(lambda: cluster.status("quick").memory, "the peak")
        assert peak is not None and 96 << 20 < peak.peak_bytes < 256 << 20
        assert (peak.node, peak.limit_bytes, peak.ran_out) == ("here", 512 << 20, False)


class Available:
    """Available memory of a machine: sufficient, except for one answer after `short` is set."""

    def __init__(self) -> None:
        self.short = False

    def __call__(self) -> int:
        short, self.short = self.short, False
        return 0 if short else 64 * GI


async def test_a_machine_short_of_memory_ends_the_culprit_first(cluster: Cluster) -> None:
    """A member above its request ends first and for good. Next time a member within its request ends, and is
    restarted."""
    available = Available()
    often = EvictionThresholds(interval_seconds=0.2, pressure_seconds=0.1)
    async with this_machine(cluster, available_memory=available, eviction=often) as selector:
        cluster.start_controller()
        hold = "a = bytearray(64 << 20); import signal; signal.pause()"
        spec = {"command": [sys.executable, "-I", "-S", "-c", hold], "nodeSelector": selector, "restarts": 0}
        roomy = {"cpu": "100m", "memory": "512Mi"}
        await cluster.submit("within", resources=roomy, **spec)
        await cluster.submit("above", qos="burstable", resources={**roomy, "memoryRequest": "1Mi"}, **spec)
        for name in ("within", "above"):
            await cluster.reaches(name, Phase.RUNNING)
        available.short = True
        status = await cluster.reaches("above", Phase.FAILED)
        assert (status.reason, status.attempts) == (Reason.OUT_OF_MEMORY, 1)
        assert status.memory is not None and status.memory.ran_out
        assert cluster.status("within").attempts == 1
        available.short = True
        status = await cluster.reaches("within", Phase.RUNNING, attempt=2)
        assert (status.restarts, status.interruptions) == (0, 1)
        assert [note.reason for note in status.notable] == [Reason.EVICTED.value]


@pytest.mark.conformance
async def test_kubelets_serve_memory_figures_through_the_api_server(local_cluster: LocalCluster) -> None:
    """Users who may use the proxy can read `/stats/summary` of this machine and of a simulated node."""
    need_a_network(local_cluster.is_real)
    await asyncio.to_thread(_check_figures, local_cluster)


def _check_figures(local_cluster: LocalCluster) -> None:
    summary = json.loads(local_cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))
    assert summary["node"]["nodeName"] == NODE and summary["node"]["memory"]["workingSetBytes"] > 0
    simulated = json.loads(local_cluster.kubectl("get", "--raw", "/api/v1/nodes/gpu-00001/proxy/stats/summary"))
    assert simulated["node"]["nodeName"] == "gpu-00001"
