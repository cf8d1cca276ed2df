"""A kubelet with an API server restored from a backup: the kubelet's state is newer, and its Pods keep running."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from kajitori.core.naming import names

from .conftest import Machine, until


@pytest.mark.parametrize("meanwhile", ["it runs", "it is started again"])
async def test_statuses_that_the_backup_lacks_are_reported_again(
    machine: Machine, tmp_path: Path, meanwhile: str
) -> None:
    """It is reported whether or not the kubelet saw the restore; the program is the same as before."""
    gate, ready = tmp_path / "gate", {"exec": {"command": ["sh", "-c", f"[ -e {tmp_path}/ready ]"]}}
    probe = {"readinessProbe": {**ready, "periodSeconds": 1, "failureThreshold": 1}}
    script = f"echo $$$$; until [ -e {gate} ]; do sleep 0.02; done"
    await machine.cluster.submit("p", "sh", "-c", script, container=probe)
    await machine.phase("p", "Running")
    backup = copy.deepcopy(machine.cluster.objects)
    (tmp_path / "ready").touch()
    await until(lambda: machine.cluster.container("p")["ready"], "it is ready")
    pid = await machine.logged_pid("p")
    if meanwhile == "it is started again":
        await machine.stop()
    machine.cluster.restore(backup)
    assert not machine.cluster.container("p")["ready"]
    if meanwhile == "it is started again":
        await machine.start()
    await until(lambda: machine.cluster.container("p")["ready"], "it is told again")
    backup = copy.deepcopy(machine.cluster.objects)
    gate.touch()
    await machine.phase("p", "Succeeded")
    machine.cluster.restore(backup)
    await machine.phase("p", "Succeeded")
    conditions = {one["type"] for one in machine.cluster.status("p")["conditions"]}
    assert names.CONDITION_MEMORY_PEAK in conditions
    assert await machine.logged_pid("p") == pid, "nothing was started anew"


async def test_a_node_that_the_backup_lacks_comes_back(machine: Machine) -> None:
    """It comes back with the next renewal of its lease, not only with the next status report minutes later."""
    await until(lambda: ("leases", "kube-node-lease", "node") in machine.cluster.objects)
    machine.cluster.restore({})
    await machine.kubelet.node.renew()
    await until(lambda: ("nodes", "", "node") in machine.cluster.objects, "it is registered again")
