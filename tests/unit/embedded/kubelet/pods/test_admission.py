"""Pods that a kubelet admits or refuses, with the resources that they get."""

from __future__ import annotations

from pathlib import Path

from tests.unit.embedded.kubelet.conftest import Machine, sh, until


async def test_a_pod_that_does_not_fit_is_refused(machine: Machine) -> None:
    """The Pod fails with Kubernetes' reason, and nothing is started."""
    first = {"resources": {"requests": {"cpu": "3"}}}
    await machine.cluster.submit("first", *sh("sleep 1000"), container=first)
    await machine.phase("first", "Running")
    await machine.cluster.submit("second", *sh("sleep 1000"), container=first)
    status = await machine.phase("second", "Failed")
    assert status["reason"] == "OutOfcpu"
    assert "requested: 3000, used: 3000, capacity: 4000" in status["message"]
    await machine.cluster.delete("first", 0)
    await until(lambda: machine.cluster.pod("first") is None)
    await machine.cluster.submit("third", *sh("sleep 1000"), container=first)
    await machine.phase("third", "Running")


async def test_unsupported_is_named(machine: Machine) -> None:
    """All fields that plain processes can't support are named at once."""
    container = {"securityContext": {"privileged": True}}
    volumes = [{"name": "v", "nfs": {"server": "s", "path": "/"}}]
    await machine.cluster.submit("p", *sh("true"), container=container, volumes=volumes)
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "Unsupported"
    assert "privileged" in status["message"]
    assert "nfs" in status["message"]


async def test_gpus_are_exclusive_and_remembered(tmp_path: Path) -> None:
    """A kubelet that restarts knows which Pod has which GPU."""
    machine = Machine(tmp_path / "kubelet", gpus=4)
    await machine.start()
    two = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    await machine.cluster.submit("a", *sh("echo $CUDA_VISIBLE_DEVICES; sleep 1000"), container=two)
    await machine.phase("a", "Running")
    await machine.stop()
    await machine.start()
    await machine.cluster.submit("b", *sh("echo $CUDA_VISIBLE_DEVICES; sleep 1000"), container=two)
    await machine.phase("b", "Running")
    await until(lambda: "F" in machine.log("a") and "F" in machine.log("b"))
    assert (machine.log("a").split()[-1], machine.log("b").split()[-1]) == ("0,1", "2,3")
    pod = machine.cluster.pod("b")
    assert pod is not None
    assert pod["metadata"]["annotations"]["kajitori.dev/gpus"] == "2,3"
    assert machine.cluster.node()["status"]["capacity"]["nvidia.com/gpu"] == "4"
    await machine.cluster.submit("c", *sh("true"), container=two)
    assert (await machine.phase("c", "Failed"))["reason"] == "OutOfnvidia.com/gpu"
    await machine.cluster.submit("none", *sh("echo x${CUDA_VISIBLE_DEVICES}x"))
    await machine.phase("none", "Succeeded")
    assert machine.log("none").endswith(" xx\n")
    await machine.tear_down()


async def test_own_path_works_without_namespaces(machine: Machine, tmp_path: Path) -> None:
    """`-v $PWD:$PWD`: a folder at its own path needs no mount."""
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    container = {"volumeMounts": [{"name": "v", "mountPath": str(tmp_path)}], "workingDir": str(tmp_path)}
    await machine.cluster.submit("p", *sh("pwd"), volumes=volumes, container=container)
    await machine.phase("p", "Succeeded")
    assert machine.log("p").endswith(f" {tmp_path}\n")


async def test_other_paths_are_refused_without_namespaces(machine: Machine, tmp_path: Path) -> None:
    """The message says what would work."""
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    container = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    await machine.cluster.submit("p", *sh("true"), volumes=volumes, container=container)
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "MountsUnavailable"
    assert "/data" in status["message"]
    assert "own path" in status["message"]
