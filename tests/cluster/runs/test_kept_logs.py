"""The Pod of a failed member waits until its log is kept; nothing else waits for it."""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.cluster import Cluster

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.core.spec.reasons import Phase
from kajitori.errors import InvalidInput, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import EVENTS


@pytest.fixture
async def nodes_answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """While this event is set, kubelets answer requests for logs, and say that there are none."""
    answers = asyncio.Event()

    async def open_log(client: KubeClient, namespace: str, pod: str, **options: object) -> None:
        if not answers.is_set():
            raise Unavailable("the kubelet does not answer")
        raise InvalidInput.one("", f"{pod} has said nothing")

    monkeypatch.setattr(KubeClient, "open_log", open_log)
    cluster.kept_logs = KeptLogs(await open_blobs((cluster.folder / "blobs").as_uri()))
    return answers


async def test_a_gang_restarts_before_the_log_of_a_failed_member_is_kept(
    cluster: Cluster, nodes_answer: asyncio.Event
) -> None:
    """The next attempt runs beside the failed Pod, which is deleted once its log is settled."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=3)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.behave("bert-1-1", exit_code="137")
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    await cluster.until(lambda: [pod.metadata.name for pod in cluster.pods("bert", 1)] == ["bert-1-1"], "one is left")
    nodes_answer.set()
    await cluster.until(lambda: not cluster.pods("bert", 1), "it went")
    assert cluster.status("bert").attempts == 2


async def test_a_log_that_cannot_be_read_is_given_up_after_a_time(
    cluster: Cluster, nodes_answer: asyncio.Event
) -> None:
    """Policy sets the time limit, and an Event reports the loss."""
    cluster.use_policy(logs={"keepWithin": "3s"})
    cluster.start_controller()
    await cluster.submit("grid", array="0-1", restarts=0)
    await cluster.reaches("grid", Phase.RUNNING)
    await cluster.until(
        lambda: len([pod for pod in cluster.pods("grid") if pod.status.phase == "Running"]) == 2, "both run"
    )
    for pod in cluster.pods("grid"):
        await cluster.behave(pod.metadata.name, exit_code="7")
    await cluster.reaches("grid", Phase.FAILED)
    await cluster.until(lambda: not cluster.pods("grid"), "their Pods went")

    messages = await lost_logs(cluster, 2)
    assert all("the kubelet does not answer; it is given up after 3s" in message for message in messages)


async def test_the_pods_of_a_stopped_run_wait_for_their_last_words(
    cluster: Cluster, nodes_answer: asyncio.Event
) -> None:
    """So do those of as many members as policy keeps logs. Their kubelets do not serve logs yet, as after a restart.
    The run counts as stopped meanwhile."""
    assert not nodes_answer.is_set()
    cluster.use_policy(logs={"keepWithin": "3s", "members": 2})
    cluster.start_controller()
    await cluster.submit("bert", replicas=3)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.change("bert", stopped=True)
    await cluster.reaches("bert", Phase.STOPPED)
    assert {message.partition(":")[0] for message in await lost_logs(cluster, 2)} == {
        "rank 0 of attempt 1",
        "rank 1 of attempt 1",
    }
    await cluster.until(lambda: not cluster.pods("bert"), "their Pods went")


async def lost_logs(cluster: Cluster, number: int) -> set[str]:
    """Wait for this number of Events about lost logs, and return their messages. Events are written in the
    background."""
    messages: set[str] = set()
    for _ in range(600):
        listed = await cluster.client.list(EVENTS, cluster.namespace)
        messages = {item["message"] for item in listed.items if item["reason"] == "LogLost"}
        if len(messages) >= number:
            break
        await asyncio.sleep(0.1)
    assert len(messages) == number
    return messages
