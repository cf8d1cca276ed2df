"""Policy changes while runs wait, start, run and restart: each attempt follows the policy in force at its start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.cluster import NODES_COUNT, Cluster
from tests.harness.platform.parts import GPUS
from tests.helpers.meddling_client import MeddlingClient

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.resources import PODS, Resource

pytestmark = pytest.mark.usefixtures("changes_count_at_once")

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
NO_BERT = {"images": {"deny": ["bert*"]}}


def write(cluster: Cluster, path: Path, **rules: Any) -> None:
    """Replace the policy; it is in force at once."""
    path.write_text(yaml.safe_dump(cluster.policy_document | rules))


async def variables_of(cluster: Cluster, pod: str) -> set[str]:
    """Return the names of the variables that a member gets."""
    found = await cluster.client.get(PODS, pod, cluster.namespace)
    return {variable["name"] for variable in found["spec"]["containers"][0]["env"]}


async def test_a_waiting_run_is_checked_by_the_policy_of_its_start(cluster: Cluster) -> None:
    """The policy in force at its submission does not matter."""
    path = cluster.use_policy_file()
    made: set[str] = set()

    def note(resource: Resource, _: str, name: str) -> None:
        if resource == PODS:
            made.add(name.rsplit("-", 2)[0])

    cluster.mirror.on_change(note)
    cluster.start_controller()
    await cluster.submit("first", image="other:1", replicas=NODES_COUNT, resources=WHOLE)
    await cluster.reaches("first", Phase.RUNNING)
    await cluster.submit("bert", replicas=2, resources=WHOLE)
    await cluster.submit("other", image="other:1", replicas=2, resources=WHOLE)
    waiting = ("bert", "other")
    await cluster.until(
        lambda: all(cluster.status(name).reason is Reason.WAITING_FOR_GPU for name in waiting), "they wait"
    )
    write(cluster, path, **NO_BERT, inject={"labels": {"under": "the-new"}})
    await cluster.succeed("first")
    status = await cluster.reaches("bert", Phase.FAILED)
    assert status.reason is Reason.REFUSED and "bert:3" in status.message
    await cluster.reaches("other", Phase.RUNNING)
    assert {pod.metadata.labels.get("under") for pod in cluster.pods("other")} == {"the-new"}
    assert "bert" not in made

    write(cluster, path)  # the policy allows it again, so it can be resumed
    await cluster.change("bert", resumes=1)
    await cluster.reaches("bert", Phase.RUNNING)


async def test_a_stricter_policy_leaves_running_runs_unchanged(cluster: Cluster) -> None:
    """Runs that have begun continue unchanged until they end. So does a run whose spec is edited in the middle of its
    burst, while no controller works."""
    path = cluster.use_policy_file()
    held_up = asyncio.Event()

    async def hold_up(pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if name.startswith("begun-") and not name.endswith("-0"):
            held_up.set()
            await asyncio.Event().wait()

    async with MeddlingClient(cluster.server.controller_config, hold_up) as client:
        first = cluster.start_controller(client=client)
        for name in ("stopped", "limited", "failing"):
            limit = {"timeLimit": "4s"} if name == "limited" else {}
            await cluster.submit(name, replicas=2, restarts=5, **limit)
            await cluster.reaches(name, Phase.RUNNING)
        await cluster.submit("begun", replicas=3)
        await asyncio.wait_for(held_up.wait(), 60)
        await cluster.until(lambda: cluster.pods("begun"), "its first member")
        await cluster.kill_controller(first)
    await cluster.change("begun", launcher="torchrun", env={"LR": "1"})
    write(cluster, path, **NO_BERT, inject={"labels": {"under": "the-new"}}, binding={"bind": "direct"})
    cluster.start_controller()

    status = await cluster.reaches("begun", Phase.RUNNING, attempt=1)
    assert (status.interruptions, status.failed_starts) == (0, 0)
    assert not [pod for pod in cluster.pods("begun") if "under" in pod.metadata.labels]
    assert {"KAJI_RANK", "MASTER_ADDR"} <= (variables := await variables_of(cluster, "begun-1-0"))
    assert variables == await variables_of(cluster, "begun-1-1") == await variables_of(cluster, "begun-1-2")
    await cluster.change("stopped", stopped=True)
    assert (await cluster.reaches("stopped", Phase.STOPPED)).reason is Reason.STOPPED_BY_USER
    assert (await cluster.reaches("limited", Phase.FAILED)).reason is Reason.TIME_LIMIT
    await cluster.behave("failing-1-0", exit_code="3")
    status = await cluster.reaches("failing", Phase.FAILED)
    assert (status.reason, status.exit_code, status.attempts) == (Reason.PROGRAM_FAILED, 3, 1)
    await cluster.change("failing", resumes=1)
    await cluster.until(lambda: cluster.status("failing").reason is Reason.REFUSED, "whoever resumes it is told")
    await cluster.client.delete(PODS, "begun-1-1", cluster.namespace, grace_seconds=0)
    status = await cluster.reaches("begun", Phase.FAILED)
    assert status.reason is Reason.REFUSED and status.attempts == 1
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("begun")), "nothing of it runs on")


async def test_a_broken_policy_leaves_the_last_good_one_in_force(cluster: Cluster) -> None:
    """An unreadable or faulty file: runs start and restart as before."""
    path = cluster.use_policy_file(inject={"labels": {"under": "the-good"}})
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=1)
    await cluster.reaches("bert", Phase.RUNNING)
    path.write_text("start: [\n")
    await cluster.behave("bert-1-1", exit_code="1")
    await cluster.submit("next", replicas=2)
    await cluster.reaches("next", Phase.RUNNING)
    path.write_text(yaml.safe_dump({"images": {"denny": ["*"]}}))
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    pods = [*cluster.pods("next"), *cluster.pods("bert", 2)]
    assert {pod.metadata.labels.get("under") for pod in pods} == {"the-good"}
    assert cluster.policy.current().faults
