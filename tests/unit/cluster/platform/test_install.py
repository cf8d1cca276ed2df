"""Installing Kajitori's objects, and insufficient rights."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from kajitori.cluster.platform import applying
from kajitori.cluster.platform.install import install
from kajitori.core.naming import names
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.errors import Forbidden, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import (
    CUSTOM_RESOURCES,
    PRIORITY_CLASSES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)


class Cluster:
    """A fake client: kinds that were applied, and kinds that are refused."""

    def __init__(self, refused: dict[Resource, Exception] | None = None) -> None:
        self.refused = refused or {}
        self.applied: list[Resource] = []
        self.discovery: list[dict[str, Any] | Exception] = [{"resources": [{"name": names.PLURAL}]}]
        """What the API server answers about the group of Runs; the last one first, and the first one from then on."""

    async def patch(self, resource: Resource, name: str, wanted: dict[str, Any], namespace: None, **how: Any) -> None:
        if resource in self.refused:
            raise self.refused[resource]
        self.applied.append(resource)

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        return custom_resource_definition() | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}

    async def request(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", f"/apis/{names.API_VERSION}")
        answer = self.discovery.pop() if len(self.discovery) > 1 else self.discovery[0]
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


async def test_owners_and_members_are_checked_before_runs_are_served() -> None:
    cluster = Cluster()
    await install(cast(KubeClient, cluster))
    policies_of_owners_and_members = [VALIDATING_POLICIES, VALIDATING_BINDINGS] * 2
    assert cluster.applied == [PRIORITY_CLASSES, *policies_of_owners_and_members, CUSTOM_RESOURCES]


@pytest.mark.parametrize("error", [Forbidden("no right to do that"), NotFound("no such kind")])
async def test_other_objects_are_installed_without_admission_policies(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """With the role of an earlier version, or on Kubernetes before 1.30; a log line says what that means."""
    cluster = Cluster({VALIDATING_POLICIES: error})
    await install(cast(KubeClient, cluster))
    assert cluster.applied == [PRIORITY_CLASSES, CUSTOM_RESOURCES]
    assert "owners of runs, and labels of members, can be forged" in caplog.text


async def test_runs_are_served_when_the_installation_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-apiserver serves them a moment after it has established their definition."""
    monkeypatch.setattr(applying, "_PAUSE_SECONDS", 0.0)
    cluster = Cluster()
    cluster.discovery += [{"resources": []}, NotFound("no such group")]
    await install(cast(KubeClient, cluster))
    assert len(cluster.discovery) == 1
