"""How fast a large gang gets the nodes of a preempted gang, beside a bare script that only replaces the Pods.

    python -m bench.gangs.preempt            a gang of 1,000 whole-node members on as many simulated nodes, five rounds
    python -m bench.gangs.preempt --small    40 members on 40 nodes, two rounds

A real kube-apiserver with etcd on this machine (see tests/harness/servers/real_server.py); `kaji sim` in a process of
its own plays the kubelets: Pods go Running and, told to end, end at once. Each round measures, in turns:

    ours      a gang of low priority holds every node: from `POST /v1/runs` of one of high priority until all its Pods
              are bound. It is admitted and finds no room; the gang to preempt is chosen and stored; its members end;
              then placement and template are stored and the new Pods are created on the freed nodes
    bare      the same Pods without an owner: a script deletes the old ones by collection, sees them gone, and creates
              the new ones on the same nodes with the same client
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench.gangs import replacing
from bench.gangs.burst import Bound
from bench.gangs.replacing import NAMESPACE, Contest, Size, Templates
from bench.parts.common import Limit
from bench.parts.gangs import DIRECTLY, PATIENCE_SECONDS, POOL_LABEL, Platform, spec_of, wait_until
from kajitori.cluster.run_object import RUNS

FULL = Size(nodes=1000, members=1000, rounds=5)
SMALL = Size(nodes=40, members=40, rounds=2)
POLICY = {**DIRECTLY, "preemption": {"minimumRunTime": "0s"}}
KUEUE_PODS_A_SECOND = 420
"""Pods a second that Kueue reached on a cluster of 130,000 nodes."""


async def measure_ours(there: Platform, size: Size, run: str) -> float:
    """Seconds from the submission of the urgent gang until it is bound."""
    low, urgent = f"low-{run}", f"urgent-{run}"
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


async def measure_bare(there: Platform, size: Size, run: str, templates: Templates) -> float:
    """Return the seconds of the script that only replaces the Pods."""
    await replacing.create_all(there.client, replacing.renamed(templates, run, 1))
    await wait_until(lambda: replacing.running(there, f"{run}-1-") == size.members)
    bound = Bound(there.mirror, f"{run}-2-", size.members)
    unsubscribe = there.mirror.on_change(bound.note)
    try:
        began = time.perf_counter()
        await replacing.replace_all(there, run, templates, grace_seconds=30)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await bound.done.wait()
    finally:
        unsubscribe()
    await replacing.remove_all(there, run, size.members)
    return bound.all_bound_at - began


def main() -> int:
    def limits(ours: float, bare: float) -> list[Limit]:
        return [
            Limit("preemption, beside the bare script", ours / bare, most=1.5, unit=" times"),
            Limit("Pods a second, beside what Kueue showed", FULL.members / ours, least=KUEUE_PODS_A_SECOND),
        ]

    contest = Contest("takes another's place", POLICY, measure_ours, measure_bare)
    return replacing.main(contest, FULL, SMALL, limits, __doc__)


if __name__ == "__main__":
    sys.exit(main())
