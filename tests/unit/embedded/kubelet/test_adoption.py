"""Pods of a kubelet that was away, lost its records, or could not reach the API server."""

from __future__ import annotations

from .conftest import Machine, alive, sh, until


async def test_adopted_after_the_kubelet_was_away(machine: Machine) -> None:
    """Pods run without a kubelet; the exit code of one that ended meanwhile is reported."""
    await machine.cluster.submit("ends", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done; exit 5"))
    await machine.cluster.submit("runs", *sh("echo $$$$; exec sleep 1000"))
    await machine.phase("ends", "Running")
    await machine.phase("runs", "Running")
    pid = await machine.logged_pid("runs")
    await machine.stop()
    assert alive(pid)
    (machine.root / "go").touch()
    uid = machine.cluster.pod("ends")["metadata"]["uid"]  # type: ignore[index]
    state = machine.root / "pods" / uid / "containers/main/0/state.json"
    await until(lambda: b"exited" in state.read_bytes())
    await machine.start()
    await machine.phase("ends", "Failed")
    assert machine.cluster.container("ends")["state"]["terminated"]["exitCode"] == 5
    assert machine.cluster.container("runs")["restartCount"] == 0
    assert alive(pid)


async def test_deleted_while_the_kubelet_was_away(machine: Machine) -> None:
    """A Pod that vanished meanwhile is ended by the kubelet that finds its processes."""
    await machine.cluster.submit("p", *sh("echo $$$$; exec sleep 1000"))
    await machine.phase("p", "Running")
    pid = await machine.logged_pid("p")
    await machine.stop()
    machine.cluster.vanish("p")
    await machine.start()
    await until(lambda: not alive(pid))


async def test_deleted_before_the_kubelet_saw_it(machine: Machine) -> None:
    """Nothing of a Pod is started that was bound and deleted while the kubelet was away."""
    await machine.stop()
    await machine.cluster.submit("p", *sh("sleep 1000"))
    await machine.cluster.delete("p", grace_seconds=1)
    await machine.start()
    await until(lambda: machine.cluster.pod("p") is None)
    assert not machine.cluster.events("Started")


async def test_an_end_during_an_outage_of_the_api_server_is_reported(machine: Machine) -> None:
    """Once the API server answers."""
    await machine.cluster.submit("p", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done; exit 6"))
    await machine.phase("p", "Running")
    machine.cluster.away = True
    (machine.root / "go").touch()
    uid = machine.cluster.pod("p")["metadata"]["uid"]  # type: ignore[index]
    state = machine.root / "pods" / uid / "containers/main/0/state.json"
    await until(lambda: b"exited" in state.read_bytes())
    machine.cluster.away = False
    await machine.phase("p", "Failed")


async def test_a_node_that_lost_its_record_does_not_restart_pods(machine: Machine) -> None:
    """A Pod that ran before is not started again on a node that lost its record."""
    await machine.stop()
    pod = await machine.cluster.submit("p", *sh(f"touch {machine.root}/again"))
    pod["status"] = {"phase": "Running"}
    machine.cluster._store(("pods", "default", "p"), pod)
    await machine.start()
    assert (await machine.phase("p", "Failed"))["reason"] == "ContainerStatusUnknown"
    assert not (machine.root / "again").exists()


async def test_all_containers_can_be_ended(machine: Machine) -> None:
    """All containers end, whatever their restart policy."""
    await machine.cluster.submit("p", *sh("echo $$$$; exec sleep 1000"), restartPolicy="Always")
    pid = await machine.logged_pid("p")
    await machine.kubelet.end_all(5)
    assert not alive(pid)
    await until(lambda: "terminated" in machine.cluster.container("p")["state"])
    assert machine.cluster.container("p")["restartCount"] == 0
