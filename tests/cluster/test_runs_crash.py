"""Parts that are killed at any moment: nothing is lost, nothing is done twice."""

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
from tests.harness.cluster import PATIENCE_SECONDS, POLICY, SIM, Cluster
from tests.harness.part_processes import IMPATIENT, ControllerPart, KubeletPart, ServerPart
from tests.harness.real_server import RealServer, free_port
from tests.helpers.chaos import HERE, Chaos, Parts, Watchman, members_alive, storm

from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.errors import KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.resources import NODES

# A kill costs a quarter of a second of one core: some are done each time, never the same ones; before a release, 200.
KILLS = int(os.environ.get("KAJI_TEST_STORM_KILLS", "16"))
SEED = int(os.environ.get("KAJI_TEST_STORM_SEED", "0")) or random.randrange(1, 1_000_000)
OWN_MACHINE = {"allowRoot": True, "allowPrivilegeEscalation": True, "dropCapabilities": [], "seccompProfile": ""}
SLOW_END = {"annotations": {f"{SIM}ignore-sigterm": "true"}}
"""Members on simulated nodes take all of their grace to end: time for mistakes."""


@dataclass(frozen=True)
class KillableCluster:
    """A cluster whose controller, process kubelet and, where it is the embedded one, API server may be killed."""

    cluster: Cluster
    parts: Parts
    victims: Sequence[tuple[str, ...]]
    """Who may be killed together."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("runs")])])
async def killable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KillableCluster]:
    """Everything is at work but the controller."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY | {"security": OWN_MACHINE, "inject": SLOW_END}))
    async with contextlib.AsyncExitStack() as closing:
        parts = Parts()
        victims: list[tuple[str, ...]] = [("controller",), ("controller",), ("kubelet",)]
        if request.param == "real":
            real: RealServer = request.getfixturevalue("real_control_plane")
            kubeconfig = real.kubeconfig
        else:
            kubeconfig = tmp_path / "cluster" / "kubeconfig"
            closing.callback(parts.kill_all)
            parts.add("server", ServerPart(tmp_path / "cluster", free_port()))
            victims += [("server",), ("server", "controller"), ("server", "controller", "kubelet")]
        client = await closing.enter_async_context(await _client(kubeconfig))
        if request.param == "real":
            closing.push_async_callback(_forget_this_machine, client)
        closing.callback(parts.kill_all)
        closing.push_async_callback(_members_ended, tmp_path / "locks")
        cluster = await closing.enter_async_context(Cluster(client, kubeconfig, tmp_path, watching=IMPATIENT).running())
        kubelet = KubeletSettings(
            "here", tmp_path / "kubelet", labels=HERE, address="127.0.0.1", cgroups=False, namespaces=False
        )
        parts.add("kubelet", KubeletPart(kubeconfig, kubelet))
        await cluster.until(
            lambda: (node := cluster.mirror.nodes.get("here")) and node.is_ready, "this machine is ready"
        )
        await client.patch(NODES, "here", {"spec": {"taints": None}})
        parts.add("controller", ControllerPart(kubeconfig, policy))
        yield KillableCluster(cluster, parts, victims)


async def _forget_this_machine(client: KubeClient) -> None:
    """A kubelet that was still there may have made its Node again."""
    with contextlib.suppress(NotFound):
        await client.delete(NODES, "here")


async def _members_ended(locks: Path) -> None:
    """Where a test failed, the kubelet is still to end what it left."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while members_alive(locks):  # noqa: ASYNC110 - locks tell nobody
                await asyncio.sleep(0.05)


async def _client(kubeconfig: Path) -> KubeClient:
    """A client of a server that may be starting still."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(OSError, KajitoriError):
                client = KubeClient(KubeConfig.from_file(kubeconfig))
                await client.list(NODES)
                return client
            await asyncio.sleep(0.02)


@pytest.mark.timeout(300 + 3 * KILLS)
async def test_killed_at_random_moments_nothing_is_lost_or_done_twice(killable: KillableCluster) -> None:
    """Controller, kubelet and embedded server get SIGKILL in a stream of submissions, failures, stops, resumptions,
    drains and deletions of gangs, services and sweeps: no process of two attempts at once, one end per run, no GPU
    taken twice, no member of a sweep again that has succeeded, nothing acknowledged lost, and not a Pod or process left
    at the end."""
    print(f"KAJI_TEST_STORM_SEED={SEED} KAJI_TEST_STORM_KILLS={KILLS}")
    cluster, over = killable.cluster, asyncio.Event()
    chaos = Chaos(cluster, random.Random(SEED), processes=True)
    with Watchman(cluster, one_writer=True).watching() as watchman:
        stream = asyncio.create_task(chaos.stream(over))
        await storm(cluster, killable.parts, killable.victims, KILLS, random.Random(SEED + 1))
        enough = lambda: chaos.acknowledged > KILLS / 4 and watchman.ends > 0  # noqa: E731
        await cluster.until(enough, "enough was done, and some run ended", seconds=PATIENCE_SECONDS)
        over.set()
        await stream
        assert await chaos.broken_promises() == []
        await chaos.all_end()
        await chaos.all_gone()
    assert watchman.wrong == []
    locks = cluster.folder / "locks"
    assert members_alive(locks) == []
    assert not (locks / "wrong").exists(), (locks / "wrong").read_text()
    print(f"{chaos.acknowledged} acknowledged, {watchman.ends} ends")
