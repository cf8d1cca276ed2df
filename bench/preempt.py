"""How fast a large gang gets the nodes of another one that gives way, beside a bare script that only replaces the Pods.

    python -m bench.preempt            a gang of 1,000 whole-node members on as many simulated nodes, five rounds
    python -m bench.preempt --small    40 members on 40 nodes, two rounds

A real kube-apiserver with etcd on this machine (see tests/helpers/real_cluster.py); `kaji sim` in a process of its own
plays the kubelets: Pods go Running and, told to end, end at once. Each round measures, in turns:

    ours      a gang of low priority holds every node: from `POST /v1/runs` of one of high priority until all its Pods
              are bound. It is checked, finds no room, who gives way is chosen and written down, its members are ended
              and waited for; then placement and template are stored and the new Pods are created on the freed nodes
    bare      the same Pods without an owner: a script deletes the old ones by collection, sees them gone, and creates
              the new ones on the same nodes with the same client
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop
from tests.helpers.real_cluster import running_cluster

from bench.burst import Bound
from bench.common import CONSOLE, Limit, median_and_range, print_limits, print_table
from bench.gangs import (
    DIRECTLY,
    PATIENCE_SECONDS,
    POOL_LABEL,
    Platform,
    label_nodes,
    lacks,
    platform,
    simulated_nodes,
    spec_of,
    wait_until,
)
from bench.restart import NAMESPACE, Size, create_all, model_pods, renamed, running
from kajitori.core import names
from kajitori.core.policy import parse_policy
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.install import install
from kajitori.kube.resources import NAMESPACES, PODS, RUNS

FULL = Size(nodes=1000, members=1000, rounds=5)
SMALL = Size(nodes=40, members=40, rounds=2)
POLICY = {**DIRECTLY, "preemption": {"minimumRunTime": "0s"}}
KUEUE_PODS_A_SECOND = 420
"""What Kueue showed on a cluster of 130,000 nodes."""


async def measure_ours(there: Platform, size: Size, number: int) -> float:
    """Seconds from the submission of the urgent gang until it is bound."""
    low, urgent = f"low-{number}", f"urgent-{number}"
    await there.submit(low, spec_of(size.members, nodeSelector=POOL_LABEL, priority="low"))
    await there.runs(low, attempt=1)
    bound = Bound(there.mirror, f"{urgent}-1-", size.members)
    unsubscribe = there.mirror.on_change(bound.note)
    try:
        began = time.perf_counter()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await there.submit(urgent, spec_of(size.members, nodeSelector=POOL_LABEL, priority="high"))
            await bound.done.wait()
    finally:
        unsubscribe()
    await there.runs(urgent, attempt=1)
    for name in (low, urgent):
        await there.client.delete(RUNS, name, NAMESPACE)
    await wait_until(lambda: not there.pods(urgent) and (NAMESPACE, low) not in there.mirror.runs)
    return bound.all_bound_at - began


async def measure_bare(there: Platform, size: Size, number: int, templates: Sequence[dict[str, Any]]) -> float:
    """The same by a script that only replaces the Pods."""
    run = f"bare-{number}"
    await create_all(there.client, renamed(templates, run, 1))
    await wait_until(lambda: running(there, f"{run}-1-") == size.members)
    selector = f"{names.LABEL_RUN}={run}"
    bound = Bound(there.mirror, f"{run}-2-", size.members)
    unsubscribe = there.mirror.on_change(bound.note)
    try:
        began = time.perf_counter()
        await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=30)
        await wait_until(lambda: not there.pods(f"{run}-1-"))
        await create_all(there.client, renamed(templates, run, 2))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await bound.done.wait()
    finally:
        unsubscribe()
    await wait_until(lambda: running(there, f"{run}-2-") == size.members)
    await there.client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=0)
    await wait_until(lambda: not there.pods(f"{run}-"))
    return bound.all_bound_at - began


async def measure(config: KubeConfig, kubeconfig: Path, size: Size) -> dict[str, list[float]]:
    """Seconds by mode, one per round, in turns."""
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    async with KubeClient(config) as client:
        await install(client)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with simulated_nodes(kubeconfig, size.nodes):
            async with platform(client, parse_policy(POLICY), NAMESPACE) as there:
                await label_nodes(there, size.nodes)
                templates = await model_pods(there, size)
                for number in range(size.rounds):
                    seconds["ours"].append(await measure_ours(there, size, number))
                    seconds["bare"].append(await measure_bare(there, size, number, templates))
                    said = ", ".join(f"{mode} {values[-1]:.2f}" for mode, values in seconds.items())
                    CONSOLE.print(f"round {number + 1} of {size.rounds}: {said} s")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.preempt", description=(__doc__ or "").partition("\n")[0])
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
    print_table(
        f"a gang of {size.members} takes another's place; {size.rounds} rounds", ("", "seconds", "Pods/s"), rows
    )
    if size is SMALL:
        CONSOLE.print("the limits are those of the full size; nothing is judged here")
        return 0
    ours, bare = statistics.median(seconds["ours"]), statistics.median(seconds["bare"])
    return print_limits(
        [
            Limit("preemption, beside the bare script", ours / bare, most=1.5, unit=" times"),
            Limit("Pods a second, beside what Kueue showed", size.members / ours, least=KUEUE_PODS_A_SECOND),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
