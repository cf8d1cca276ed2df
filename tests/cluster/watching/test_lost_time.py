"""The time of runs is told from their Pods, whenever a controller looks, on the embedded and on a real API server."""

from __future__ import annotations

from tests.harness.cluster import Cluster

from kajitori.cluster.runs.lost_time import closed_parts
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.reasons import Phase
from kajitori.core.usage.lost_time.run_time import time_of_run
from kajitori.core.usage.lost_time.slices import Category, divide


async def test_time_is_told_from_pods_although_no_controller_looked(cluster: Cluster) -> None:
    """A gang fails while no controller is at work. The next one writes when the member failed, and what it cost."""
    first = cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=1)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.kill_controller(first)
    culprit = cluster.nodes_of("bert")[1]
    await cluster.behave("bert-1-1", exit_code="3")
    await cluster.until(
        lambda: any(pod.status.phase == "Failed" for pod in cluster.pods("bert", 1)), "a member has failed"
    )
    states = {pod.metadata.name: pod.status.container_statuses[0].state for pod in cluster.pods("bert", 1)}
    cluster.start_controller()
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    await cluster.succeed("bert")
    status = await cluster.reaches("bert", Phase.SUCCEEDED)

    parts = list(closed_parts(status).values())
    first_parts, second_parts = ([part for part in parts if part.attempt == number] for number in (1, 2))
    failed, other = states["bert-1-1"].terminated, states["bert-1-0"].running
    assert failed is not None
    assert other is not None
    for part in first_parts:
        assert part.started == seconds(max(failed.started_at, other.started_at))
        assert (part.ended, part.cause, part.node) == (seconds(failed.finished_at), "ProgramFailed", culprit)
    assert {(part.cause, part.after) for part in second_parts} == {("", "ProgramFailed")}

    found = time_of_run([(part, divide(part, [])) for part in parts], parts[0].since, parts[-1].until)
    assert status.usage is not None
    assert sum(found.member_seconds.values()) == sum(total.member_seconds for total in status.usage.totals)
    ran = sum(part.members * ((part.ended or 0) - (part.started or 0)) for part in first_parts)
    assert found.member_seconds.get(Category.LOST, 0) == ran, "it has no checkpoint"
    assert found.causes["ProgramFailed"].times == 1


def seconds(text: str) -> int:
    moment = parse_time(text)
    assert moment is not None
    return int(moment.timestamp())
