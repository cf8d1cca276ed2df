"""The keeper of the namespaces and role bindings of the policy's teams."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kajitori.cluster.platform.team_keeper import TeamKeeper
from kajitori.core.naming.names import LABEL_MANAGED_BY, MANAGED_BY
from kajitori.core.policy.teams import Team
from kajitori.errors import Forbidden, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import ROLE_BINDINGS, Resource

VISION = {"vision": Team(groups=["oidc:vision"], leads=["oidc:heads"])}
SPEECH = {"speech": Team(groups=["oidc:speech"])}


class Cluster:
    """A fake client that stores objects by kind, namespace and name."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.refusal: Exception | None = None

    async def list(self, resource: Resource, *, label_selector: str) -> SimpleNamespace:
        assert label_selector == f"{LABEL_MANAGED_BY}={MANAGED_BY}"
        if self.refusal is not None:
            raise self.refusal
        return SimpleNamespace(items=[one for key, one in self.stored.items() if key[0] == resource.kind])

    async def patch(self, resource: Resource, name: str, body: dict[str, Any], namespace: str | None, **_: Any) -> None:
        self.stored[resource.kind, namespace or "", name] = body

    async def delete(self, resource: Resource, name: str, namespace: str | None, **_: Any) -> None:
        del self.stored[resource.kind, namespace or "", name]

    def names(self) -> set[str]:
        return {f"{namespace}/{name}" for kind, namespace, name in self.stored if kind == ROLE_BINDINGS.kind}


class Keeper:
    """A keeper with teams that a test changes."""

    def __init__(self, cluster: Cluster, teams: dict[str, Team]) -> None:
        self.teams = teams
        self.keep = TeamKeeper(cast(KubeClient, cluster), lambda: self.teams, lambda: 0.0).keep


async def test_bindings_follow_the_teams_and_namespaces_stay() -> None:
    """Bindings that people and robots have stay, too."""
    cluster = Cluster()
    role = {"kind": "ClusterRole", "name": "kajitori-team-user"}
    for name in ("robot-ci", "ada"):
        meta = {"name": name, "namespace": "vision"}
        cluster.stored["RoleBinding", "vision", name] = {"metadata": meta, "roleRef": role}
    others = cluster.names()
    keeper = Keeper(cluster, VISION)
    await keeper.keep()
    assert cluster.names() - others == {
        "vision/kajitori-team-user-vision",
        "vision/kajitori-team-lead-vision",
    }
    keeper.teams = {"vision": Team(groups=["oidc:vision"])} | SPEECH
    await keeper.keep()
    assert cluster.names() - others == {"vision/kajitori-team-user-vision", "speech/kajitori-team-user-speech"}
    keeper.teams = {}
    await keeper.keep()
    assert cluster.names() == others
    assert {name for kind, _, name in cluster.stored if kind == "Namespace"} == {"vision", "speech"}


async def test_without_roles_in_the_api_server_no_namespace_is_made() -> None:
    cluster = Cluster()
    cluster.refusal = NotFound("no such kind")
    await Keeper(cluster, VISION).keep()
    assert not cluster.stored


async def test_without_the_right_only_a_change_of_teams_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """At the start `kaji install` has applied them."""
    caplog.set_level(logging.DEBUG)
    cluster = Cluster()
    cluster.refusal = Forbidden("no right to list rolebindings")
    keeper = Keeper(cluster, VISION)
    for _ in range(3):
        await keeper.keep()
    keeper.teams = SPEECH
    await keeper.keep()
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
    assert "kaji install --policy" in caplog.text and not cluster.stored
