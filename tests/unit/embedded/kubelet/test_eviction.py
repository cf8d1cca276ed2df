"""Memory pressure of the machine: evictions, and kills by the kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kajitori.cluster.runs.evictions import memory_excess
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.worker import PodWorker

from .conftest import Machine, until


async def test_the_pod_above_its_request_is_evicted_first(machine: Machine) -> None:
    """The Node has the condition of memory pressure for some minutes, also if its clock is set back meanwhile."""
    hold = "a = bytearray(64 << 20); print('up', flush=True); import signal; signal.pause()"
    large = {"resources": {"requests": {"memory": "1Gi"}}}
    await machine.cluster.submit("within", sys.executable, "-I", "-S", "-c", hold, container=large)
    await machine.cluster.submit("above", sys.executable, "-I", "-S", "-c", hold)
    await until(lambda: "up" in machine.log("within") and "up" in machine.log("above"))
    machine.memory_available = 1
    assert await machine.kubelet.relieve()
    status = await machine.phase("above", "Failed")
    assert status["reason"] == "Evicted"
    assert "low on resource: memory" in status["message"]
    excess = memory_excess(status["message"])
    assert excess is not None and excess.used_bytes > 64 << 20 and excess.asked_bytes == 0
    await until(
        lambda: (
            ("MemoryPressure", "True")
            in [(one["type"], one["status"]) for one in machine.cluster.node()["status"]["conditions"]]
        )
    )
    await until(lambda: machine.cluster.node()["spec"]["taints"])
    assert machine.cluster.phase("within") == "Running"
    context = machine.kubelet.context
    machine.memory_available, later = 64 << 30, context.ticks() + machine.kubelet.settings.eviction.pressure_seconds + 1
    context.clock, context.ticks = lambda: 0.0, lambda: later
    assert await machine.kubelet.relieve() is None
    await until(lambda: not machine.cluster.node()["spec"]["taints"])


async def test_a_kill_by_the_machine_has_an_event_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod's status is the same as for its own limit. Here the kubelet still starts the container when it ends."""
    start = PodWorker._start

    async def start_and_see_the_end(worker: PodWorker, slot: Slot) -> float:
        seconds = await start(worker, slot)
        await until(lambda: not slot.running)
        return seconds

    monkeypatch.setattr(PodWorker, "_start", start_and_see_the_end)
    machine = Machine(tmp_path / "kubelet", cgroups=True)
    await machine.start()
    try:
        layout = machine.kubelet.context.machine.cgroups
        if not layout.limits_memory:
            pytest.skip(f"no memory control group: {layout.why_not}")
        for hierarchy in layout.hierarchies:
            if "memory" in hierarchy.controllers:
                file = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
                (hierarchy.path / file).write_text(str(64 << 20))
        limits = {"resources": {"limits": {"memory": "256Mi"}}}
        hog = (sys.executable, "-I", "-S", "-c", "a = bytearray(160 << 20)")
        await machine.cluster.submit("victim", *hog, container=limits)
        await machine.phase("victim", "Failed")
        assert machine.cluster.container("victim")["state"]["terminated"]["reason"] == "OOMKilled"
        await until(lambda: machine.cluster.events("SystemOOM"))
        assert machine.cluster.events("SystemOOM")[0].startswith("System OOM encountered, victim process: main, pid: ")
    finally:
        await machine.tear_down()
