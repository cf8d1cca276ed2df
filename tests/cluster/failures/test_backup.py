"""A backup that is taken while runs are running, restored into the same cluster and into an empty one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from tests.harness.cluster import Cluster, run_document
from tests.helpers import emulators
from tests.helpers.emulators import Emulator
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.backup.restoring import Destination, Report, restore
from kajitori.backup.taking import Source, take
from kajitori.blobs.stores.cloud import PIECE_BYTES
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.options.operators import BackupOptions
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.usage.records import AuditEntry
from kajitori.core.usage.sums import By, Prices
from kajitori.entrypoints.backup import back_up, bring_back, check, listed
from kajitori.errors import NotFound, Unavailable
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.kube.resources import SECRETS

pytestmark = pytest.mark.conformance

OWNER = "ada"
LOG = b"2026-11-21T12:00:00Z step 1\n"


class Scene:
    """A cluster with a running gang, an ended run and a waiting one, and a backup of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.path = cluster.folder / "backup.tar.zst"
        self.histories: list[History] = []

    async def begin(self) -> None:
        cluster, resources = self.cluster, {"cpu": 1, "memory": "1Gi", "gpu": 8}
        cluster.history = self.new_history()
        cluster.start_controller()
        ada = cluster.client.in_name_of(OWNER, "system:masters")
        annotations = {names.ANNOTATION_OWNER: OWNER}
        gang = run_document("bert", {"image": "x", "command": ["train"], "resources": resources, "replicas": 2})
        gang["metadata"]["annotations"] = annotations
        await ada.create(RUNS, gang, cluster.namespace)
        await cluster.submit("done")
        for name in ("bert", "done"):
            await cluster.reaches(name, Phase.RUNNING)
        await cluster.submit("waits", replicas=8, resources=resources)
        await cluster.until(lambda: cluster.status("waits").queued_at, "it waits")
        await cluster.succeed("done")
        await cluster.reaches("done", Phase.SUCCEEDED)

    def new_history(self) -> History:
        self.histories.append(History(f"sqlite://{self.cluster.folder}/history-{len(self.histories)}.db"))
        return self.histories[-1]

    async def restore(self, history: History, blobs: MemoryBlobs, **options: bool) -> Report:
        dry_run = options.pop("dry_run", False)
        there = Destination(client=self.cluster.client, history=history, blobs=blobs, **options)
        return await restore(self.path, there, datetime.now(UTC), lambda _: None, dry_run=dry_run)

    def mine(self, runs: list[str]) -> set[str]:
        return {name.partition("/")[2] for name in runs if name.startswith(f"{self.cluster.namespace}/")}

    async def remove_runs(self) -> None:
        """Remove all runs of the test, so that the cluster is like a new one."""
        await self.cluster.stop_controllers()
        for name in ("bert", "done", "waits"):
            await self.cluster.client.delete(RUNS, name, self.cluster.namespace)
            await self.cluster.client.patch(RUNS, name, {"metadata": {"finalizers": None}}, self.cluster.namespace)
        await self.cluster.until(lambda: not any(map(self.cluster.run, ("bert", "done", "waits"))), "runs gone")


@pytest.fixture
async def scene(cluster: Cluster) -> AsyncIterator[Scene]:
    made = Scene(cluster)
    yield made
    await cluster.stop_controllers()
    for history in made.histories:
        await history.close()


async def test_a_backup_brings_a_cluster_back(scene: Scene) -> None:
    """A restore into the same cluster changes nothing. In an empty cluster the gang is queued and continues with its
    next attempt, and ended and waiting runs are as before, with owners, history and logs. A second restore changes
    nothing."""
    cluster, namespace = scene.cluster, scene.cluster.namespace
    await scene.begin()
    history, blobs = cluster.history, MemoryBlobs()
    assert history is not None
    old = {name: run.metadata.uid for name in ("bert", "done", "waits") if (run := cluster.run(name)) is not None}
    await blobs.put(f"logs/{namespace}/{old['done']}/1/0", LOG)
    await blobs.put(f"results/{namespace}/{old['done']}/0", b"{}")
    secret = {"metadata": {"name": "mine", "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}, "data": {}}
    await cluster.client.create(SECRETS, secret | {"stringData": {"token": "hunter2"}}, namespace)
    source = Source(client=cluster.client, namespace="kajitori", history=history, blobs=blobs)
    await take(scene.path, source, datetime.now(UTC), lambda _: None)

    # 1. Restore into the same cluster, while runs are running.
    pods = {pod.metadata.name: pod.metadata.uid for pod in cluster.pods("bert")}
    report = await scene.restore(history, blobs)
    assert scene.mine([*report.queued, *report.ended]) == set()
    assert report.blobs == 0
    assert {pod.metadata.name: pod.metadata.uid for pod in cluster.pods("bert")} == pods
    assert cluster.status("bert").attempts == 1

    # 2. Restore into an empty cluster, with a new history and a new store.
    queued_at = cluster.status("waits").queued_at
    await scene.remove_runs()
    fresh, store = scene.new_history(), MemoryBlobs()
    cluster.history = fresh
    cluster.start_controller()
    report = await scene.restore(fresh, store, missing_runs=True, dry_run=True)
    assert (scene.mine(report.queued), scene.mine(report.ended)) == ({"bert", "waits"}, {"done"})
    assert cluster.run("bert") is None
    await scene.restore(fresh, store, missing_runs=True)
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (0, 1)
    assert status.setback is not None
    assert "restored from the backup" in status.setback.message
    run = cluster.run("bert")
    assert run is not None
    assert run.owner == OWNER
    await cluster.until(lambda: cluster.status("done").phase is Phase.SUCCEEDED, "it is back")
    await cluster.until(lambda: cluster.status("waits").queued_at == queued_at, "it waits since the same time")
    assert cluster.pods("done") == []

    # 3. History and logs have the new UIDs, and a second restore changes nothing.
    done = cluster.run("done")
    assert done is not None
    assert store.held[f"logs/{namespace}/{done.metadata.uid}/1/0"][0] == LOG
    assert not any(key.startswith("results/") for key in store.held)
    used = await fresh.usage(By.RUN, 0, 2**40, Prices(gpu={}), namespaces={namespace})
    assert f"{namespace}/bert/{run.metadata.uid}" in used
    held = set(store.held)
    report = await scene.restore(fresh, store, missing_runs=True)
    assert scene.mine([*report.queued, *report.ended]) == set()
    assert await fresh.usage(By.RUN, 0, 2**40, Prices(gpu={}), namespaces={namespace}) == used
    listed = await fresh.runs(RunFilter(namespaces={namespace}), 10)
    assert sorted((found.name, found.removed_at) for found in listed) == [
        ("bert", None),
        ("done", None),
        ("waits", None),
    ]
    assert set(store.held) == held
    assert b"hunter2" not in scene.path.read_bytes()


async def test_a_restored_run_waits_for_its_status(scene: Scene) -> None:
    """An interrupted restore leaves no run that starts from the beginning. The next restore completes it."""
    cluster = scene.cluster
    await scene.begin()
    history = cluster.history
    assert history is not None
    run = cluster.run("bert")
    assert run is not None
    await take(scene.path, Source(client=cluster.client, namespace="x"), datetime.now(UTC), lambda _: None)
    await scene.remove_runs()
    cluster.start_controller()
    half = run_document("bert", {"image": "x", "command": ["train"]})
    half["metadata"]["annotations"] = {names.ANNOTATION_RESTORED: run.metadata.uid}
    await cluster.client.create(RUNS, half, cluster.namespace)
    await cluster.submit("after")
    await cluster.reaches("after", Phase.RUNNING)
    found = cluster.run("bert")
    assert found is not None
    assert (found.status, cluster.pods("bert", 1)) == (None, [])
    await scene.restore(history, MemoryBlobs(), missing_runs=True)
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)


@pytest.fixture(scope="module")
def s3() -> Iterator[Emulator]:
    with emulators.s3() as emulator:
        yield emulator


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_a_backup_goes_to_s3_and_comes_back(
    cluster: Cluster, s3: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is larger than one piece of an upload. History and logs come back into empty stores."""
    for name, value in s3.options.items():
        monkeypatch.setenv(f"AWS_{'ENDPOINT_URL' if name == 'endpoint' else name.upper()}", value)
    place, log_bytes = f"{s3.new_place()}/backups/kaji", random.Random(7).randbytes(PIECE_BYTES + 1)
    entry = AuditEntry(key="1", at=5000, actor="ana", action="stop run", namespace="x", object="y", outcome="done")
    options = [
        BackupOptions(
            kubeconfig=cluster.server.kubeconfig,
            history=f"sqlite://{cluster.folder}/{name}.db",
            blobs=(cluster.folder / name).as_uri(),
        )
        for name in ("before", "after")
    ]
    stores = [await open_blobs(str(option.blobs)) for option in options]
    await stores[0].put("logs/vision/uid/1/0", log_bytes)
    history = History(str(options[0].history))
    await history.note([entry])
    await history.close()

    where = await asyncio.to_thread(back_up, options[0], place, lambda _: None)
    assert where.startswith(f"{place}/kajitori-")
    (found,) = await asyncio.to_thread(listed, place)
    assert (found.fault, found.size_bytes > PIECE_BYTES, f"{place}/{found.name}") == ("", True, where)
    _, contents = await asyncio.to_thread(check, where)
    assert contents.counts["audit"] == contents.counts["blobs"] == 1
    report = await asyncio.to_thread(bring_back, options[1], where, lambda _: None)
    assert (report.rows["audit"], report.blobs) == (1, 1)
    assert await stores[1].read("logs/vision/uid/1/0", limit_bytes=1 << 30) == log_bytes

    with pytest.raises(NotFound, match="there is no backup"):
        await asyncio.to_thread(check, f"{place}/none.tar.zst")
    said = list[str]()
    with pytest.raises(Unavailable, match="there is no s3://nowhere"):
        await asyncio.to_thread(back_up, options[0], "s3://nowhere", said.append)
    assert said == [], "nothing was read in vain"
