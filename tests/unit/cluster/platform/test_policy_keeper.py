"""The keeper of the admission policies that enforce the policy file."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from kajitori.cluster.platform.keeping import RENEW_SECONDS
from kajitori.cluster.platform.policy_keeper import PolicyKeeper
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.model import Policy
from kajitori.errors import Forbidden, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import MUTATING_POLICIES, VALIDATING_POLICIES, Resource

RULES = parse_policy({"pods": {"namespaces": ["team"]}})
NO_RULES = parse_policy({})


class Cluster:
    """A fake client that stores objects by kind and name."""

    def __init__(self, *, can_mutate: bool = True, error: KajitoriError | None = None) -> None:
        self.can_mutate = can_mutate
        self.error = error
        self.stored: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes = 0

    async def list(self, resource: Resource) -> None:
        if not self.can_mutate:
            raise NotFound("no such kind")

    async def patch(self, resource: Resource, name: str, body: dict[str, Any], namespace: None, **how: Any) -> None:
        if self.error is not None:
            raise self.error
        self.writes += 1
        self.stored[resource.kind, name] = body

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        if (resource.kind, name) not in self.stored:
            raise NotFound("not there")
        return self.stored[resource.kind, name]

    async def delete(self, resource: Resource, name: str) -> None:
        del self.stored[resource.kind, name]


class Keeper:
    """A keeper with a policy, nodes and a clock that tests change."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self.policy, self.has_cpu_nodes, self.now = policy, True, 0.0
        client = cast(KubeClient, cluster)
        self.keep = PolicyKeeper(client, lambda: self.policy, lambda: self.has_cpu_nodes, lambda: self.now).keep


async def test_policies_follow_the_policy_file() -> None:
    cluster = Cluster()
    keeper = Keeper(cluster, RULES)
    await keeper.keep()
    assert {kind for kind, _ in cluster.stored} == {
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    }
    keeper.policy = NO_RULES
    await keeper.keep()
    assert not cluster.stored


async def test_they_are_applied_again_only_after_a_change_or_a_long_time() -> None:
    cluster = Cluster()
    keeper = Keeper(cluster, RULES)
    await keeper.keep()
    once = cluster.writes
    await keeper.keep()
    assert cluster.writes == once
    keeper.has_cpu_nodes = False
    await keeper.keep()
    assert cluster.writes == 2 * once
    keeper.now += RENEW_SECONDS
    await keeper.keep()
    assert cluster.writes == 3 * once


@pytest.mark.parametrize(
    ("error", "pause"), [(Unavailable("it does not answer"), 0.0), (Forbidden("no right to do that"), RENEW_SECONDS)]
)
async def test_a_failure_is_repeated_at_the_next_look_and_a_missing_right_later(
    error: KajitoriError, pause: float
) -> None:
    cluster = Cluster(error=error)
    keeper = Keeper(cluster, RULES)
    await keeper.keep()
    cluster.error = None
    keeper.now += pause / 2
    await keeper.keep()
    assert bool(cluster.writes) == (not pause)
    keeper.now += pause / 2
    await keeper.keep()
    assert cluster.writes


async def test_an_older_api_server_gets_no_defaults() -> None:
    """Rules that would count on them are left out."""
    cluster = Cluster(can_mutate=False)
    await Keeper(cluster, RULES).keep()
    assert MUTATING_POLICIES.kind not in {kind for kind, _ in cluster.stored}
    variables = cluster.stored[VALIDATING_POLICIES.kind, "kajitori-pods"]["spec"]["variables"]
    assert "memoryLimit" not in {variable["name"] for variable in variables}


@pytest.mark.parametrize(("policy", "level"), [(RULES, logging.WARNING), (NO_RULES, logging.DEBUG)])
async def test_a_missing_right_is_reported_once(policy: Policy, level: int, caplog: pytest.LogCaptureFixture) -> None:
    """As a warning only if there are rules."""
    caplog.set_level(logging.DEBUG)
    keeper = Keeper(Cluster(error=Forbidden("no right to do that")), policy)
    for _ in range(3):
        await keeper.keep()
        keeper.now += RENEW_SECONDS
    assert [record.levelno for record in caplog.records] == [level]
