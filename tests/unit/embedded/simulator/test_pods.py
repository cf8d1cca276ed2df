"""The loop that handles simulated Pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from kajitori.embedded.objects import Pod
from kajitori.embedded.simulator.pods import SimulatedPods
from kajitori.embedded.simulator.settings import SimSettings
from kajitori.kube.client import KubeClient

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("steps_later", range(6))
async def test_a_cancellation_is_not_lost_to_a_simultaneous_event(steps_later: int) -> None:
    """However close together they are; otherwise the loop would never end."""
    pods = SimulatedPods(cast(KubeClient, None), SimSettings(count=1), {}, lambda: NOW)
    pods._timers.set(("space", "pod"), NOW + timedelta(hours=1))
    task = asyncio.create_task(pods.work())
    await asyncio.sleep(0)
    pods._wake.set()
    for _ in range(steps_later):
        await asyncio.sleep(0)
    task.cancel()
    await _all_done()
    assert task.cancelled()


NODE = "sim-1"
KEY = ("space", "pod")


class LateServer:
    """Carries out requests at once, and answers when the test lets it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        """UIDs of the Pods whose status was written."""
        self.deleted: list[str] = []
        self.answers = asyncio.Event()

    async def patch(self, _resource: object, name: str, patch: dict[str, Any], namespace: str, **_: Any) -> object:
        uid = patch["metadata"]["uid"]
        self.written.append(uid)
        await self.answers.wait()
        meta = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "5"}
        return {"metadata": meta, "spec": {"nodeName": NODE}, "status": patch["status"]}

    async def delete(self, _resource: object, _name: str, _namespace: str, *, uid: str, **_: Any) -> None:
        self.deleted.append(uid)
        await self.answers.wait()


def pod(uid: str, version: str, *, ended: bool = False) -> Pod:
    meta = {"name": KEY[1], "namespace": KEY[0], "uid": uid, "resourceVersion": version}
    if ended:
        meta["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    status = {"phase": "Failed" if ended else "Pending"}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": NODE}, "status": status}, Pod)


@pytest.mark.parametrize("comes_again", [False, True])
async def test_a_late_answer_does_not_bring_back_a_deleted_pod(comes_again: bool) -> None:
    """It also does not hide a new Pod of the same name."""
    server = LateServer()
    pods = SimulatedPods(cast(KubeClient, server), SimSettings(count=1), {NODE: 1}, lambda: NOW)
    pods.see(KEY, pod("first", "3"))
    task = asyncio.create_task(pods.work())
    await _all_done()
    assert server.written == ["first"]
    pods.see(KEY, None)
    if comes_again:
        pods.see(KEY, pod("second", "7"))
    server.answers.set()
    await _all_done()
    task.cancel()
    assert [pod.metadata.uid for pod in pods.pods.values()] == (["second"] if comes_again else [])
    assert server.written == ["first", "second"][: 1 + comes_again]


@pytest.mark.parametrize("gone_first", [False, True])
async def test_a_pod_is_deleted_once(gone_first: bool) -> None:
    """An API server reports the grace period of the last deletion before it reports the deletion. Only a restored
    backup brings the Pod back."""
    server = LateServer()
    pods = SimulatedPods(cast(KubeClient, server), SimSettings(count=1), {NODE: 1}, lambda: NOW)
    pods.see(KEY, pod("first", "3", ended=True))
    task = asyncio.create_task(pods.work())
    await _all_done()
    pods.see(KEY, pod("first", "4", ended=True))
    if gone_first:
        pods.see(KEY, None)
    server.answers.set()
    await _all_done()
    assert server.deleted == ["first"]
    if not gone_first:
        pods.see(KEY, pod("first", "5", ended=True))
        await _all_done()
        assert server.deleted == ["first"]
        pods.see(KEY, None)
    pods.see(KEY, pod("first", "1", ended=True))
    await _all_done()
    task.cancel()
    assert server.deleted == ["first", "first"]


async def test_statuses_that_a_restored_backup_lacks_are_written_again() -> None:
    """A list counts even if it is older than an answer; a late watch event does not."""
    server = LateServer()
    server.answers.set()
    pods = SimulatedPods(cast(KubeClient, server), SimSettings(count=1), {NODE: 1}, lambda: NOW)
    pods.see(KEY, pod("first", "3"))
    task = asyncio.create_task(pods.work())
    await _all_done()
    assert pods.pods[KEY].status.phase == "Running"
    writes = len(server.written)
    pods.see(KEY, pod("first", "3"))
    pods.listed({KEY: pods.pods[KEY]})
    await _all_done()
    assert len(server.written) == writes
    pods.listed({KEY: pod("first", "3"), ("space", "of another pool"): pod("other", "4")})
    await _all_done()
    task.cancel()
    assert len(server.written) > writes
    assert list(pods.pods) == [KEY]


async def _all_done() -> None:
    """Run until no task can continue without an answer."""
    for _ in range(20):
        await asyncio.sleep(0)
