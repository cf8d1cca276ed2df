"""Pods of a Run that is gone are taken away, and those of one that is there never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kajitori.controllers.runs.orphans import Orphans
from kajitori.core.words import names
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import Pod

KEY = ("vision", "uid-1")


def pod(kind: str = names.KIND, **meta: Any) -> Pod:
    owner = {"apiVersion": names.API_VERSION, "kind": kind, "name": "bert", "uid": "uid-1", "controller": True}
    return msgspec.convert(
        {"metadata": {"name": "bert-1-0", "namespace": "vision", "uid": "p", "ownerReferences": [owner]} | meta}, Pod
    )


class World:
    """What the mirror shows, and what the API server has, of a run called bert."""

    def __init__(self, shown: str | None = None, there: str | None = None) -> None:
        self.there = there
        self.deleted: list[Any] = []
        runs = {("vision", "bert"): SimpleNamespace(metadata=SimpleNamespace(uid=shown))} if shown else {}
        mirror = SimpleNamespace(runs=runs, owned_pods=lambda *run: [pod()], labelled_strangers=lambda *run: ())
        self.orphans = Orphans(cast(KubeClient, self), cast(Mirror, mirror))

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        if self.there is None:
            raise NotFound(f"no {name}")
        return {"metadata": {"uid": self.there}}

    async def delete_collection(self, resource: Any, namespace: str, *, label_selector: str, **options: Any) -> None:
        self.deleted.append((namespace, label_selector))


@pytest.mark.parametrize("shown", [None, "uid-2"])
def test_a_pod_without_its_run_is_one(shown: str | None) -> None:
    """The run is gone, or another one has its name now."""
    orphans = World(shown).orphans
    assert orphans.note(pod()) == KEY
    assert KEY in orphans
    assert list(orphans) == [KEY]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(pod(deletionTimestamp="2026-11-21T12:00:00Z"), id="on-its-way"),
        pytest.param(pod(ownerReferences=[]), id="nobody-owns-it"),
        pytest.param(pod("Job"), id="another-owns-it"),
    ],
)
def test_what_is_none(seen: Pod) -> None:
    orphans = World().orphans
    assert orphans.note(seen) is None
    assert not list(orphans)


def test_a_pod_that_names_a_run_of_another_namespace_is_none() -> None:
    """Nobody but its maker wrote that; the garbage collector of Kubernetes may remove it, we leave it alone."""
    assert World("uid-1").orphans.note(pod(namespace="mallory")) is None


def test_a_pod_of_a_run_that_is_shown_is_none() -> None:
    assert World("uid-1").orphans.note(pod()) is None


@pytest.mark.parametrize(("there", "are_deleted"), [(None, True), ("uid-2", True), ("uid-1", False)])
async def test_the_api_server_is_asked_before_they_are_deleted(there: str | None, are_deleted: bool) -> None:
    """The mirror may be behind: a run that is there keeps its Pods."""
    world = World(there=there)
    world.orphans.note(pod())
    await world.orphans.delete(KEY)
    assert world.deleted == ([("vision", f"{names.LABEL_RUN_UID}=uid-1")] if are_deleted else [])
    assert KEY not in world.orphans
