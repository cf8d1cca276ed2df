"""In a namespace of several users with `security.runChanges: owner`, only a run's owner, team leads and operators can
change it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.harness.fixtures import REAL
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.kube_server import USERS, KubeServer

from kajitori.cluster.platform.install import install
from kajitori.cluster.platform.policy_keeper import PolicyKeeper
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import Resource

pytestmark = pytest.mark.conformance

GROUP = "rbac.authorization.k8s.io"
ROLES, BINDINGS = Resource(GROUP, "v1", "roles", "Role"), Resource(GROUP, "v1", "rolebindings", "RoleBinding")
HERS = "metadata.name=hers"
STOP = {"spec": {"stopped": True}}


@pytest.fixture(params=["embedded", pytest.param("real", marks=REAL)])
async def kube_server(request: pytest.FixtureRequest) -> AsyncIterator[KubeServer]:
    """An API server with roles that decide what users may do."""
    if request.param == "real":
        yield request.getfixturevalue("real_server")
        return
    async with embedded_server(users=USERS, roles=True) as embedded:
        yield embedded


@dataclass
class Shared:
    """A namespace where ada and grace have all rights on runs except to administer them."""

    namespace: str
    admin: KubeClient
    ada: KubeClient
    grace: KubeClient

    async def grant(self, name: str, verbs: list[str], *users: str) -> None:
        """Give users these verbs on runs."""
        rules = [{"apiGroups": [names.GROUP], "resources": [names.PLURAL], "verbs": verbs}]
        role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
        await self.admin.create(ROLES, role, self.namespace)
        binding = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user} for user in users],
        }
        await self.admin.create(BINDINGS, binding, self.namespace)

    async def submit(self, client: KubeClient, name: str, owner: str = "") -> None:
        annotations = {names.ANNOTATION_OWNER: owner} if owner else {}
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"image": "bert:3"},
        }
        await client.create(RUNS, body, self.namespace)

    async def change(self, client: KubeClient, name: str, change: dict[str, Any] | None = None) -> None:
        await client.patch(RUNS, name, change or STOP, self.namespace)

    async def is_enforced(self) -> bool:
        try:
            await self.grace.patch(RUNS, "hers", STOP, self.namespace, dry_run=True)
        except Forbidden as error:
            return "ValidatingAdmissionPolicy" in error.message
        return False


@pytest.fixture
async def shared(kube_server: KubeServer, own_namespace: str) -> AsyncIterator[Shared]:
    """The rule is in force. When the policy no longer contains it, all users may change all runs again."""
    policies = [parse_policy({"security": {"runChanges": "owner"}})]
    async with kube_server.client() as admin, kube_server.client("ada") as ada, kube_server.client("grace") as grace:
        await install(admin)
        found = Shared(own_namespace, admin, ada, grace)
        verbs = ["get", "list", "create", "update", "patch", "delete", "deletecollection"]
        await found.grant("users", verbs, "ada", "grace")
        keeper = PolicyKeeper(admin, lambda: policies[-1], lambda: True, time.monotonic)
        await keeper.keep()
        await found.submit(admin, "nobodys")
        for _ in range(100):  # a real API server uses roles and policies a moment after they are stored
            try:
                await found.submit(ada, "hers", "ada")
                break
            except Forbidden:
                await asyncio.sleep(0.1)
        await until(found, enforced=True)
        yield found
        policies.append(parse_policy({}))
        await keeper.keep()
        await until(found, enforced=False)
        for name in ("hers", "nobodys"):
            await admin.delete(RUNS, name, own_namespace)


async def until(shared: Shared, *, enforced: bool) -> None:
    for _ in range(100):
        if await shared.is_enforced() == enforced:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the rule is in force" if not enforced else "the rule is not in force")


async def test_only_the_owner_may_change_a_run(shared: Shared) -> None:
    """Others may read it. All users may change a run without an owner."""
    for attempt in (
        shared.change(shared.grace, "hers"),
        shared.change(shared.grace, "hers", {"metadata": {"labels": {"a": "b"}}}),
        shared.grace.delete(RUNS, "hers", shared.namespace),
        shared.grace.delete_collection(RUNS, shared.namespace, label_selector="", field_selector=HERS),
    ):
        with pytest.raises(Forbidden) as caught:
            await attempt
        assert "run hers belongs to ada: only they, a team lead or an operator may" in caught.value.message
    assert (await shared.grace.get(RUNS, "hers", shared.namespace))["metadata"]["name"] == "hers"
    await shared.change(shared.grace, "nobodys")
    await shared.change(shared.ada, "hers")


async def test_a_team_lead_and_an_administrator_may_change_every_run(shared: Shared) -> None:
    await shared.change(shared.admin, "hers", {"metadata": {"labels": {"seen": "by-admin"}}})
    await shared.grant("leads", ["administer"], "grace")
    await until(shared, enforced=False)
    await shared.change(shared.grace, "hers")
