"""Parts are killed at random moments: nothing is lost and nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.harness.cluster import POLICY, SIM, THIS_MACHINE, Cluster
from tests.harness.fixtures import real_server_of
from tests.harness.platform.part_processes import IMPATIENT, ControllerPart, KubeletPart, PartProcesses, ServerPart
from tests.harness.platform.parts import HERE
from tests.harness.servers.kube_server import KubeServer
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, until
from tests.helpers.chaos import Chaos, InvariantChecker, kill_parts, members_alive
from tests.helpers.usage_meter import UsageMeter

from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.errors import NotFound
from kajitori.kube.resources import NODES

# A kill takes a quarter of a second of one core. Each call makes a few, never the same ones; before a release, 200.
KILLS = int(os.environ.get("KAJI_TEST_STORM_KILLS", "16"))
SEED = int(os.environ.get("KAJI_TEST_STORM_SEED", "0")) or random.randrange(1, 1_000_000)
OWN_MACHINE = {"allowRoot": True, "allowPrivilegeEscalation": True, "dropCapabilities": [], "seccompProfile": ""}
SLOW_END = {"annotations": {f"{SIM}ignore-sigterm": "true"}}
"""Members on simulated nodes end only after their whole grace period, so that faults have time to appear."""


@dataclass(frozen=True)
class KillableCluster:
    """A cluster with a controller, a process kubelet and (if embedded) an API server that may be killed."""

    cluster: Cluster
    parts: PartProcesses
    victims: Sequence[tuple[str, ...]]
    """Groups of parts that may be killed together."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("runs")])])
async def killable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KillableCluster]:
    """All parts run; the controller, the kubelet and the embedded server as processes of their own."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY | {"security": OWN_MACHINE, "inject": SLOW_END}))
    async with contextlib.AsyncExitStack() as closing:
        parts = closing.enter_context(PartProcesses())
        victims: list[tuple[str, ...]] = [("controller",), ("controller",), ("kubelet",)]
        server: KubeServer | None = real_server_of(request)
        if server is not None:
            closing.push_async_callback(_forget_this_machine, server)
        else:
            part = ServerPart(tmp_path / "cluster", free_port())
            parts.add("server", part)
            server = await part.started()
            victims += [("server",), ("server", "controller"), ("server", "controller", "kubelet")]
        closing.callback(parts.kill_all)
        closing.push_async_callback(_members_ended, tmp_path / "locks")
        cluster = await closing.enter_async_context(Cluster(server, tmp_path, watching=IMPATIENT).running())
        kubelet = KubeletSettings(
            HERE, tmp_path / "kubelet", labels=THIS_MACHINE, address="127.0.0.1", cgroups=False, namespaces=False
        )
        parts.add("kubelet", KubeletPart(server.kubeconfig, kubelet))
        await cluster.until(lambda: (node := cluster.mirror.nodes.get(HERE)) and node.is_ready, "this machine is ready")
        await cluster.client.patch(NODES, HERE, {"spec": {"taints": None}})
        parts.add("controller", ControllerPart(server.kubeconfig, policy, history=tmp_path / "history.db"))
        yield KillableCluster(cluster, parts, victims)


async def _forget_this_machine(server: KubeServer) -> None:
    """Delete the Node, which a kubelet may have created again before it was killed."""
    async with server.client() as client:
        with contextlib.suppress(NotFound):
            await client.delete(NODES, HERE)


async def _members_ended(locks: Path) -> None:
    """Wait until the kubelet has ended the members, after a failed test."""
    with contextlib.suppress(AssertionError):
        await until(lambda: not members_alive(locks), seconds=5)


@pytest.mark.conformance
@pytest.mark.timeout(300 + 3 * KILLS)
async def test_kills_at_random_moments_lose_and_repeat_nothing(killable: KillableCluster) -> None:
    """The controller, the kubelet and the embedded server get SIGKILL while gangs, services and sweeps are submitted,
    fail, stop, resume, drain and are deleted. Processes of two attempts never run at once, each run ends once, no GPU
    is used twice, no succeeded member of a sweep is repeated, no acknowledged request is lost, and no Pod or process is
    left at the end."""
    print(f"KAJI_TEST_STORM_SEED={SEED} KAJI_TEST_STORM_KILLS={KILLS}")
    cluster, over = killable.cluster, asyncio.Event()
    chaos = Chaos(cluster, random.Random(SEED), processes=True)
    meter = UsageMeter(cluster, cluster.folder / "history.db")
    with InvariantChecker(cluster, one_writer=True).watching() as watchman, meter.watching():
        stream = asyncio.create_task(chaos.stream(over))
        await kill_parts(cluster, killable.parts, killable.victims, KILLS, random.Random(SEED + 1))
        enough = lambda: chaos.acknowledged > KILLS / 4 and watchman.ends > 0  # noqa: E731
        await cluster.until(enough, "enough was done, and some run ended", seconds=PATIENCE_SECONDS)
        over.set()
        await stream
        assert await chaos.broken_promises() == []
        await chaos.all_end()
        used = await meter.agrees()
        await chaos.all_gone()
        await meter.all_removed()
    assert watchman.wrong == []
    locks = cluster.folder / "locks"
    assert members_alive(locks) == []
    assert not (locks / "wrong").exists(), (locks / "wrong").read_text()
    print(f"{chaos.acknowledged} acknowledged, {watchman.ends} ends, {used} s used, 0 s of difference")
