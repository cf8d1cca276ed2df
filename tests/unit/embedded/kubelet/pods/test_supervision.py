"""Probes and hooks of containers, with real processes."""

from __future__ import annotations

from typing import Any

from tests.unit.embedded.kubelet.conftest import Machine, alive, sh, until


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


def checked_by(script: str, **probe: Any) -> dict[str, Any]:
    """Return the part of a container whose readiness is the result of a script."""
    return {"readinessProbe": {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 0.1, **probe}}


async def test_a_check_may_print_more_than_a_pipe_holds(machine: Machine) -> None:
    """A check such as `curl URL` was told that its output can't be written, and failed."""
    container = checked_by("head -c 300000 /dev/zero && echo fine")
    await machine.cluster.submit("p", *sh("exec sleep 1000"), container=container)
    await until(lambda: machine.cluster.container("p").get("ready"))
    assert not machine.cluster.events("Unhealthy")


async def test_a_check_that_hangs_is_ended_and_has_failed(machine: Machine) -> None:
    """With the processes that it started."""
    pid = machine.root / "pid"
    script = f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait"
    await machine.cluster.submit("p", *sh("exec sleep 999"), container=checked_by(script, timeoutSeconds=0.3))
    await until(lambda: machine.cluster.events("Unhealthy"))
    assert "no answer within" in machine.cluster.events("Unhealthy")[0]
    await until(lambda: not alive(int(pid.read_text())))
    assert not machine.cluster.container("p")["ready"]


async def test_a_container_that_never_was_ready_is_unready_since_the_pod_began(machine: Machine) -> None:
    """Readers tell by this time whether it was healthy before: a first report that came late looked like a failure."""
    await machine.cluster.submit("p", *sh("exec sleep 1000"), container=checked_by("exit 1"))
    status = await machine.phase("p", "Running")
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("False", status["startTime"])


async def test_variables_in_a_check_are_those_of_kubernetes(machine: Machine) -> None:
    """`$(NAME)` is a variable of the container, `$$` is a dollar."""
    container = checked_by("test $(ANSWER) = 42 && test $$(echo x) = x") | {"env": [{"name": "ANSWER", "value": "42"}]}
    await machine.cluster.submit("p", *sh("exec sleep 1000"), container=container)
    await until(lambda: machine.cluster.container("p").get("ready"))


async def test_a_restarted_kubelet_keeps_the_readiness(machine: Machine) -> None:
    """A healthy container was unready until the first check of the new kubelet, so that its run was unhealthy."""
    ready = machine.root / "ready"
    ready.touch()
    container = checked_by(f"test -e {ready}", failureThreshold=1000)
    container["startupProbe"] = container["readinessProbe"]
    await machine.cluster.submit("p", *sh("exec sleep 1000"), container=container)
    await until(lambda: machine.cluster.container("p").get("ready"))
    await machine.stop()
    ready.unlink()
    before = len(machine.cluster.events("Unhealthy"))
    await machine.start()
    await until(lambda: len(machine.cluster.events("Unhealthy")) > before, "the new kubelet has checked")
    assert machine.cluster.container("p")["ready"] and machine.cluster.container("p")["started"]


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
