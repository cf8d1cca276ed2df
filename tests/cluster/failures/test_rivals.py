"""Several controllers at once: one that was stopped and does not know it, and two that both believe that they lead."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import datetime

import yaml
from tests.harness.cluster import POLICY, Cluster
from tests.harness.platform.part_processes import ControllerPart, PartProcesses
from tests.helpers.chaos import Chaos, InvariantChecker

from kajitori.cluster.run_object import RUNS
from kajitori.core.formats.times import parse_time
from kajitori.core.leadership import LEASE_NAME, LeaseTimings
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import LEASES, PODS, Resource

TERMS = LeaseTimings(lease_seconds=4.0, lead_seconds=3.0, interval_seconds=0.1, look_seconds=0.1)
RUNS_COUNT, MEMBERS, SEEN_OF_BURST = 3, 16, 8
ACKNOWLEDGED = 25


@contextlib.asynccontextmanager
async def candidates(cluster: Cluster) -> AsyncIterator[PartProcesses]:
    """Two controller processes; the first one leads."""
    cluster.use_policy(start=POLICY["start"] | {"deadline": "2m"})  # a slow machine must not cause a second attempt
    policy = cluster.folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(cluster.policy_document))
    with PartProcesses() as parts:
        parts.add("first", ControllerPart(cluster.server.kubeconfig, policy, "first", TERMS, cluster.namespace))
        await cluster.submit("early")
        await cluster.reaches("early", Phase.RUNNING)
        parts.add("second", ControllerPart(cluster.server.kubeconfig, policy, "second", TERMS, cluster.namespace))
        yield parts


async def last_writes(cluster: Cluster) -> dict[str, datetime]:
    """Return the time of each controller's last change, from the API server's records."""
    found: dict[str, datetime] = {}
    for resource in (RUNS, PODS):
        for thing in (await cluster.client.list(resource, cluster.namespace)).items:
            for entry in thing["metadata"]["managedFields"]:
                moment = parse_time(entry["time"])
                assert moment is not None
                found[entry["manager"]] = max(moment, found.get(entry["manager"], moment))
    return found


async def test_a_leader_stopped_during_a_burst_writes_nothing_afterwards(cluster: Cluster) -> None:
    """The other controller took over and finished the burst: one attempt, one Pod for each rank, no node used twice.
    Deleted runs do not come back."""
    names = [f"run-{number}" for number in range(RUNS_COUNT)]
    async with candidates(cluster) as parts:
        stopped = asyncio.Event()

        def stop(resource: Resource, namespace: str, name: str) -> None:
            if sum(len(cluster.pods(name)) for name in names) >= SEEN_OF_BURST and not stopped.is_set():
                parts.pause("first")
                stopped.set()

        unsubscribe = cluster.mirror.on_change(stop)
        with InvariantChecker(cluster, one_writer=True).watching() as watchman:
            for name in names:
                await cluster.submit(name, replicas=MEMBERS, restarts=1, resources={"cpu": "100m", "memory": "16Mi"})
            async with asyncio.timeout(60):
                await stopped.wait()
            unsubscribe()
            moment = cluster.mirror.now()
            await cluster.client.delete(RUNS, names[0], cluster.namespace)
            for name in names[1:]:
                await cluster.reaches(name, Phase.RUNNING, attempt=1, seconds=60)
            await cluster.until(
                lambda: not cluster.run(names[0]) and not cluster.pods(names[0]), "the deleted one is gone"
            )
            lease = await cluster.client.get(LEASES, LEASE_NAME, cluster.namespace)
            assert lease["spec"]["holderIdentity"] == "second"

            came_back: list[str] = []
            unsubscribe = cluster.mirror.on_change(
                lambda _resource, _namespace, name: came_back.append(name) if cluster.pods(names[0]) else None
            )
            parts.go_on("first")
            await asyncio.sleep(TERMS.lead_seconds)
            await cluster.behave(f"{names[1]}-1-0", exit_code="1")
            await cluster.reaches(names[1], Phase.RUNNING, attempt=2)
            unsubscribe()
        assert came_back == []
        writes = await last_writes(cluster)
        assert (writes["first"] - moment).total_seconds() < 1.5 < (writes["second"] - moment).total_seconds(), writes
    assert watchman.wrong == []
    for name, attempt in ((names[1], 2), (names[2], 1)):
        assert [pod.metadata.name for pod in cluster.pods(name, attempt)] == [
            f"{name}-{attempt}-{rank}" for rank in range(MEMBERS)
        ]
        assert [pod.spec.node_name for pod in cluster.pods(name, attempt)] == cluster.nodes_of(name)


async def test_two_controllers_at_once_do_no_harm(cluster: Cluster) -> None:
    """Without leader election, compare-and-swap lets one of them win each step. No run has two running attempts, no GPU
    is used twice, each run ends once, and nothing of deleted runs is left."""
    chaos, over = Chaos(cluster, random.Random(7)), asyncio.Event()
    with InvariantChecker(cluster, one_writer=False).watching() as watchman:
        cluster.start_controller()
        cluster.start_controller()
        stream = asyncio.create_task(chaos.stream(over))
        # Services never end by themselves, and the number of other runs is random.
        enough = lambda: chaos.acknowledged >= ACKNOWLEDGED and watchman.ends > 2  # noqa: E731
        await cluster.until(enough, "enough was done, and some runs ended")
        over.set()
        await stream
        assert await chaos.broken_promises() == []
        await chaos.all_end()
        await chaos.all_gone()
    assert watchman.wrong == []
