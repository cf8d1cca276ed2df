"""Pods of a deleted Run are deleted; Pods of an existing Run never are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.controllers.runs.orphans import Orphans
from kajitori.core.naming import names
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient

KEY = ("vision", "uid-1")


def pod(kind: str = names.KIND, **meta: Any) -> Pod:
    owner = {"apiVersion": names.API_VERSION, "kind": kind, "name": "bert", "uid": "uid-1", "controller": True}
    return msgspec.convert(
        {"metadata": {"name": "bert-1-0", "namespace": "vision", "uid": "p", "ownerReferences": [owner]} | meta}, Pod
    )


KEPT = pod(name="bert-1-1", deletionTimestamp="2026-11-21T12:00:00Z", finalizers=[names.FINALIZER_EXIT_CODE])
"""A Pod of a run that was being stopped."""


class FakeCluster:
    """The mirror and the API server, each with or without a Run named bert."""

    def __init__(self, shown_uid: str | None = None, stored_uid: str | None = None) -> None:
        self.stored_uid = stored_uid
        self.deleted: list[Any] = []
        runs = {("vision", "bert"): SimpleNamespace(metadata=SimpleNamespace(uid=shown_uid))} if shown_uid else {}
        self.released: list[str] = []
        pods = [pod(), KEPT]
        mirror = SimpleNamespace(runs=runs, owned_pods=lambda *run: pods, mislabelled_pods=lambda *run: ())
        self.orphans = Orphans(cast(KubeClient, self), cast(Mirror, mirror))

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        if self.stored_uid is None:
            raise NotFound(f"no {name}")
        return {"metadata": {"uid": self.stored_uid}}

    async def delete_collection(self, resource: Any, namespace: str, *, label_selector: str, **options: Any) -> None:
        self.deleted.append((namespace, label_selector))

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str, **options: Any) -> None:
        assert patch["metadata"]["$deleteFromPrimitiveList/finalizers"] == [names.FINALIZER_EXIT_CODE]
        self.released.append(name)


@pytest.mark.parametrize("shown_uid", [None, "uid-2"])
def test_a_pod_without_its_run_is_an_orphan(shown_uid: str | None) -> None:
    """The run is gone, or another run has its name now."""
    orphans = FakeCluster(shown_uid).orphans
    assert orphans.note(pod()) == KEY
    assert KEY in orphans
    assert list(orphans) == [KEY]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(pod(deletionTimestamp="2026-11-21T12:00:00Z"), id="being-deleted"),
        pytest.param(pod(ownerReferences=[]), id="without-an-owner"),
        pytest.param(pod("Job"), id="of-a-job"),
    ],
)
def test_a_pod_that_ends_or_has_another_owner_is_no_orphan(seen: Pod) -> None:
    orphans = FakeCluster().orphans
    assert orphans.note(seen) is None
    assert not list(orphans)


def test_a_pod_that_names_a_run_of_another_namespace_is_no_orphan() -> None:
    """Only the Pod's creator wrote that reference. The garbage collector of Kubernetes may remove such a Pod; Kajitori
    does not."""
    assert FakeCluster("uid-1").orphans.note(pod(namespace="mallory")) is None


def test_a_pod_of_an_existing_run_is_no_orphan() -> None:
    assert FakeCluster("uid-1").orphans.note(pod()) is None


@pytest.mark.parametrize(("stored_uid", "are_deleted"), [(None, True), ("uid-2", True), ("uid-1", False)])
async def test_the_api_server_is_asked_before_they_are_deleted(stored_uid: str | None, are_deleted: bool) -> None:
    """The mirror may be behind: an existing run keeps its Pods."""
    cluster = FakeCluster(stored_uid=stored_uid)
    cluster.orphans.note(pod())
    await cluster.orphans.delete(KEY)
    assert cluster.deleted == ([("vision", f"{names.LABEL_RUN_UID}=uid-1")] if are_deleted else [])
    assert KEY not in cluster.orphans
    assert cluster.released == (["bert-1-1"] if are_deleted else [])


def test_a_pod_that_is_kept_for_its_exit_code_is_an_orphan_although_it_ends() -> None:
    """Nothing else would ever let go of it."""
    assert FakeCluster().orphans.note(KEPT) == KEY
