"""Probes and hooks of containers, with real processes."""

from __future__ import annotations

from typing import Any

from tests.unit.embedded.kubelet.conftest import Machine, sh, until


async def test_probes_control_readiness_and_restarts(machine: Machine) -> None:
    """Readiness follows its probe; a failing liveness probe restarts the container."""
    ready, healthy = machine.root / "ready", machine.root / "healthy"
    healthy.touch()
    container: dict[str, Any] = {
        "readinessProbe": {"exec": {"command": ["test", "-e", str(ready)]}, "periodSeconds": 0.1},
        "livenessProbe": {
            "exec": {"command": ["test", "-e", str(healthy)]},
            "periodSeconds": 0.1,
            "failureThreshold": 1,
        },
    }
    await machine.cluster.submit(
        "p", *sh("exec sleep 1000"), restartPolicy="Always", terminationGracePeriodSeconds=1, container=container
    )
    await machine.phase("p", "Running")
    assert not machine.cluster.container("p")["ready"]
    ready.touch()
    await until(lambda: machine.cluster.container("p")["ready"])
    healthy.unlink()
    await until(lambda: machine.cluster.container("p")["restartCount"] >= 1)
    assert machine.cluster.events("Unhealthy")


async def test_hooks_run_after_the_start_and_before_the_end(machine: Machine) -> None:
    """postStart runs beside the program, preStop before SIGTERM."""
    container = {
        "lifecycle": {
            "postStart": {"exec": {"command": ["touch", f"{machine.root}/post"]}},
            "preStop": {"exec": {"command": ["touch", f"{machine.root}/pre"]}},
        }
    }
    script = f"trap '[ -e {machine.root}/pre ] && touch {machine.root}/order; exit' TERM; while :; do sleep 0.05; done"
    await machine.cluster.submit("p", *sh(script), container=container)
    await until((machine.root / "post").exists)
    await machine.cluster.delete("p")
    await until(lambda: machine.cluster.pod("p") is None)
    assert (machine.root / "order").exists()
