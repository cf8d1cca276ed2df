"""How fast a broken gang stands again, beside a bare script that only replaces the Pods.

    python -m bench.gangs.restart            a gang of 1,000 whole-node members on 1,100 simulated nodes, five rounds
    python -m bench.gangs.restart --small    40 members on 50 nodes, two rounds

A real kube-apiserver with etcd on this machine (see tests/harness/servers/real_server.py); `kaji sim` in a process of
its own plays the kubelets: Pods go Running and, told to end, end at once. Each round measures, in turns:

    ours      one member of a running gang fails: from the moment our mirror shows it until all Pods of the next attempt
              are bound. The failure is judged, the old members are ended and waited for, placement and template are
              stored, a member is tried with a dry run, then the new Pods are created on their nodes
    bare      the same Pods without an owner: from the same moment until the script has deleted the old ones by
              collection, seen them gone, and created new ones on the same nodes with the same client
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench.gangs import replacing
from bench.gangs.replacing import NAMESPACE, Contest, Size, Templates
from bench.parts.common import Limit
from bench.parts.gangs import DIRECTLY, PATIENCE_SECONDS, POOL_LABEL, Platform, fail, spec_of, wait_until
from kajitori.cluster.run_object import RUNS
from kajitori.kube.resources import PODS, Resource

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
    """Seconds from the failure of a member until all members of the new attempt are bound."""
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


async def measure_bare(there: Platform, size: Size, run: str, templates: Templates) -> float:
    """Return the seconds of the script that only replaces the Pods."""
    await replacing.create_all(there.client, replacing.renamed(templates, run, 1))
    await wait_until(lambda: replacing.running(there, f"{run}-1-") == size.members)
    with Watchman(there, f"{run}-1-", f"{run}-2-", size.members) as watchman:
        await _break(there, watchman, f"{run}-1-{size.members // 2}")
        await replacing.replace_all(there, run, templates, grace_seconds=5)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watchman.done.wait()
    await replacing.remove_all(there, run, size.members)
    return watchman.bound_at - watchman.failed_at


async def _break(there: Platform, watchman: Watchman, pod: str) -> None:
    """Let one member's program fail; return when the mirror shows it."""
    await fail(there, pod)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await watchman.failed.wait()


def main() -> int:
    contest = Contest("stands again", DIRECTLY, measure_ours, measure_bare)

    def limits(ours: float, bare: float) -> list[Limit]:
        return [Limit("a whole-gang restart, beside the bare script", ours / bare, most=1.5, unit=" times")]

    return replacing.main(contest, FULL, SMALL, limits, __doc__)


if __name__ == "__main__":
    sys.exit(main())
