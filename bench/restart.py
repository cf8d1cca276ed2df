"""How fast a broken gang stands again, beside a bare script that does nothing but replace the Pods.

    python -m bench.restart            a gang of 1,000 whole-node members on 1,100 simulated nodes, five rounds
    python -m bench.restart --small    40 members on 50 nodes, two rounds

A real kube-apiserver with etcd on this machine (see tests/helpers/real_cluster.py); `kaji sim` in a process of its own
plays the kubelets: Pods go Running and, told to end, end at once. Each round measures, in turns:

    ours      one member of a running gang fails: from the moment our mirror shows it until all Pods of the next attempt
              are bound. The failure is judged, the old members are ended and waited for, placement and template are
              stored, a member is tried with a dry run, then the new Pods are created on their nodes
    bare      the same Pods without an owner: from the same moment until the script has deleted the old ones by
              collection, seen them gone, and created new ones on the same nodes with the same client
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from tests.helpers.real_cluster import running_cluster

from bench.common import CONSOLE, Limit, median_and_range, print_limits, print_table
from bench.gangs import (
    DIRECTLY,
    PATIENCE_SECONDS,
    POOL_LABEL,
    Platform,
    fail,
    label_nodes,
    lacks,
    platform,
    simulated_nodes,
    spec_of,
    wait_until,
)
from kajitori.core import names
from kajitori.core.policy import parse_policy
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.install import install
from kajitori.kube.resources import NAMESPACES, PODS, RUNS, Resource

NAMESPACE = "restart"


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    members: int
    rounds: int


FULL = Size(nodes=1100, members=1000, rounds=5)
SMALL = Size(nodes=50, members=40, rounds=2)


class Watchman:
    """Notes when a member is seen to have failed, and when all members of the next attempt are bound."""

    def __init__(self, there: Platform, old: str, new: str, members: int) -> None:
        self._there, self._old, self._new, self._members = there, old, new, members
        self._bound: set[str] = set()
        self.failed_at = 0.0
        self.bound_at = 0.0
        self.failed = asyncio.Event()
        self.done = asyncio.Event()

    def __enter__(self) -> Watchman:
        self._unsubscribe = self._there.mirror.on_change(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource != PODS or not name.startswith((self._old, self._new)):
            return
        pod = self._there.mirror.pods.get((namespace, name))
        if pod is None:
            return
        if name.startswith(self._old) and pod.status.phase == "Failed" and not self.failed_at:
            self.failed_at = time.perf_counter()
            self.failed.set()
        if name.startswith(self._new) and pod.spec.node_name:
            self._bound.add(name)
            if len(self._bound) == self._members and not self.bound_at:
                self.bound_at = time.perf_counter()
                self.done.set()


async def measure_ours(there: Platform, size: Size, run: str) -> float:
    """Seconds from the failure of a member to a whole new attempt."""
    await there.submit(run, spec_of(size.members, nodeSelector=POOL_LABEL, restarts=3))
    await there.runs(run, attempt=1)
    with Watchman(there, f"{run}-1-", f"{run}-2-", size.members) as watchman:
        await _break(there, watchman, f"{run}-1-{size.members // 2}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watchman.done.wait()
    await there.runs(run, attempt=2)
    await there.client.delete(RUNS, run, NAMESPACE)
    await wait_until(lambda: (NAMESPACE, run) not in there.mirror.runs and not there.pods(f"{run}-"))
    return watchman.bound_at - watchman.failed_at


async def measure_bare(there: Platform, size: Size, run: str, templates: Sequence[dict[str, Any]]) -> float:
    """The same by a script that only replaces the Pods."""
    await create_all(there.client, renamed(templates, run, 1))
    await wait_until(lambda: running(there, f"{run}-1-") == size.members)
    selector = f"{names.LABEL_RUN}={run}"
    with Watchman(there, f"{run}-1-", f"{run}-2-", size.members) as watchman:
        await _break(there, watchman, f"{run}-1-{size.members // 2}")
        await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=5)
        await wait_until(lambda: not there.pods(f"{run}-1-"))
        await create_all(there.client, renamed(templates, run, 2))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watchman.done.wait()
    await wait_until(lambda: running(there, f"{run}-2-") == size.members)
    await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=0)
    await wait_until(lambda: not there.pods(f"{run}-"))
    return watchman.bound_at - watchman.failed_at


async def _break(there: Platform, watchman: Watchman, pod: str) -> None:
    """Makes one member's program fail; returns when the mirror shows it."""
    await fail(there, pod)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await watchman.failed.wait()


def running(there: Platform, prefix: str) -> int:
    return sum(pod.status.phase == "Running" for pod in there.pods(prefix))


async def create_all(client: KubeClient, pods: Sequence[dict[str, Any]]) -> None:
    await asyncio.gather(*(client.create(PODS, pod, NAMESPACE) for pod in pods))


def renamed(templates: Sequence[dict[str, Any]], run: str, attempt: int) -> list[dict[str, Any]]:
    return [
        {**pod, "metadata": {"name": names.pod_name(run, attempt, rank), "labels": {names.LABEL_RUN: run}}}
        for rank, pod in enumerate(templates)
    ]


async def model_pods(there: Platform, size: Size) -> list[dict[str, Any]]:
    """The Pods that the controller makes of such a gang, as the API server took them, without what it added."""
    await there.submit("model", spec_of(size.members, nodeSelector=POOL_LABEL))
    await there.runs("model", attempt=1)
    found = (await there.client.list(PODS, NAMESPACE, label_selector=f"{names.LABEL_RUN}=model")).items
    await there.client.delete(RUNS, "model", NAMESPACE)
    await wait_until(lambda: not there.pods("model-"))
    by_rank = sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_RANK]))
    return [{"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"]} for pod in by_rank]


async def measure(config: KubeConfig, kubeconfig: Path, size: Size) -> dict[str, list[float]]:
    """Seconds by mode, one per round, in turns."""
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    async with KubeClient(config) as client:
        await install(client)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with simulated_nodes(kubeconfig, size.nodes):
            async with platform(client, parse_policy(DIRECTLY), NAMESPACE) as there:
                await label_nodes(there, size.nodes)
                templates = await model_pods(there, size)
                for number in range(size.rounds):
                    seconds["ours"].append(await measure_ours(there, size, f"ours-{number}"))
                    seconds["bare"].append(await measure_bare(there, size, f"bare-{number}", templates))
                    said = ", ".join(f"{mode} {values[-1]:.2f}" for mode, values in seconds.items())
                    CONSOLE.print(f"round {number + 1} of {size.rounds}: {said} s")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a quick run; its figures say little")
    size = SMALL if parser.parse_args().small else FULL
    if lacks("kube-apiserver", "etcd"):
        return 2
    with running_cluster() as cluster:
        seconds = uvloop.run(measure(cluster.config, cluster.kubeconfig, size))
    rows = [
        (mode, median_and_range(values), f"{size.members / statistics.median(values):.0f}")
        for mode, values in seconds.items()
    ]
    print_table(f"a gang of {size.members} stands again; {size.rounds} rounds", ("", "seconds", "Pods/s"), rows)
    if size is SMALL:
        CONSOLE.print("the limit is that of the full size; nothing is judged here")
        return 0
    times = statistics.median(seconds["ours"]) / statistics.median(seconds["bare"])
    return print_limits([Limit("a whole-gang restart, beside the bare script", times, most=1.5, unit=" times")])


if __name__ == "__main__":
    sys.exit(main())
