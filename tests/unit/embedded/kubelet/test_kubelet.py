# ruff: noqa: PTH208
"""The kubelet as a whole, with real processes and a fake API server."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kajitori.configuration import private_files
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.machine import detection
from kajitori.embedded.kubelet.machine.cgroup_layout import CgroupLayout, Hierarchy
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.names import ANNOTATION_SERVING_CERTIFICATE
from kajitori.errors import AlreadyExists, Unavailable
from kajitori.kube import resources

from .conftest import BOUND_SECONDS, Machine, sh, until
from .fake_cluster import FakeCluster


async def test_members_find_each_other(machine: Machine) -> None:
    """The name of a fellow Pod becomes its address; until it has one, the Pod waits and says for which Pod."""
    env = [
        {"name": "MASTER_ADDR", "value": "rank0.gang"},
        {"name": "ENDPOINT", "value": "rank0.gang.default.svc:29500"},
    ]
    await machine.cluster.submit("rank1", *sh("echo $MASTER_ADDR $ENDPOINT"), subdomain="gang", container={"env": env})
    await until(
        lambda: machine.cluster.container("rank1").get("state", {}).get("waiting", {}).get("reason") == "WaitingForPeer"
    )
    assert "rank0" in machine.cluster.container("rank1")["state"]["waiting"]["message"]
    await machine.cluster.submit("rank0", *sh("sleep 1000"), subdomain="gang")
    await machine.phase("rank1", "Succeeded")
    assert machine.log("rank1").endswith(" 127.0.0.1 127.0.0.1:29500\n")


async def test_the_node_object_is_written_and_its_lease_renewed(machine: Machine) -> None:
    """Foreign labels are kept."""
    node = machine.cluster.node()
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node"
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0
    await until(lambda: ("leases", "kube-node-lease", "node") in machine.cluster.objects)
    await machine.stop()
    await machine.cluster.patch(resources.NODES, "node", {"metadata": {"labels": {"foreign": "yes"}}})
    await machine.start()
    assert machine.cluster.node()["metadata"]["labels"]["foreign"] == "yes"


async def test_one_kubelet_per_folder(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.0)
    second = Machine(machine.root)
    second.cluster = machine.cluster
    with pytest.raises(Unavailable, match="another kubelet"):
        await second.start()


async def test_one_kubelet_per_node(tmp_path: Path) -> None:
    """A second kubelet of this name, from another folder, would run each Pod once more. It takes over from one that has
    ended, even though their certificates differ."""
    first, second = Machine(tmp_path / "first", lease_interval_seconds=0.05), Machine(tmp_path / "second")
    second.options["lease_interval_seconds"] = 0.2
    second.cluster = first.cluster
    try:
        await first.start()
        pod = await first.cluster.submit("p", *sh("true"))
        with pytest.raises(AlreadyExists, match="another kubelet serves node node already"):
            await second.start()
        await first.phase("p", "Succeeded")
        assert first.cluster.node()["metadata"]["annotations"][ANNOTATION_SERVING_CERTIFICATE] == (
            first.kubelet.node.fingerprint
        )
        first.cluster.vanish("p", pod["metadata"]["namespace"])
        await until(lambda: not first.kubelet.workers)
        await first.stop()
        await second.start()
    finally:
        await first.stop()
        await second.tear_down()


async def test_no_descriptors_are_leaked(machine: Machine) -> None:
    async def round_trip(name: str) -> None:
        await machine.cluster.submit(name, *sh("true"))
        await machine.phase(name, "Succeeded")
        machine.cluster.vanish(name)
        await until(lambda: not machine.kubelet.workers)

    await round_trip("warm-up")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        await round_trip(f"p{number}")
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_the_failure_of_one_pod_does_not_affect_others(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod is tried again, and keeps its resources meanwhile."""
    await machine.cluster.submit("p", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done"))
    await machine.phase("p", "Running")
    [worker] = machine.kubelet.workers.values()
    failed = []

    def broken(now: float) -> Any:
        failed.append(now)
        raise OSError("No space left on device")

    monkeypatch.setattr(worker, "_next_steps", broken)
    worker.wake()
    await until(lambda: failed)
    assert machine.kubelet.workers
    assert machine.kubelet.context.admitted
    monkeypatch.undo()
    (machine.root / "go").touch()
    await machine.phase("p", "Succeeded")


async def test_a_kubelet_that_ends_during_detection_leaves_nothing_behind(tmp_path: Path) -> None:
    """Another part of the process has failed."""
    looks, go_on, made, group = asyncio.Event(), threading.Event(), threading.Event(), tmp_path / "group"
    loop = asyncio.get_running_loop()

    def detect(root: Path, name: str, **_: Any) -> detection.Machine:
        loop.call_soon_threadsafe(looks.set)
        assert go_on.wait(BOUND_SECONDS)
        found = detection.detect(root, name, namespaces=False, cgroups=False)
        group.mkdir()
        made.set()
        return dataclasses.replace(found, cgroups=CgroupLayout((Hierarchy(2, group, frozenset()),)))

    kubelet = Kubelet(FakeCluster(), KubeletSettings("node", tmp_path / "kubelet"), detect=detect)
    task = asyncio.create_task(kubelet.run(asyncio.Event()))
    await looks.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(made.wait, BOUND_SECONDS)
    assert not group.exists()
