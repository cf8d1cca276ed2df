"""The NetworkKeeper trusts the watch, not its own writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from kajitori.cluster.objects import NetworkPolicy
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.networks import NetworkKeeper, _policy_body
from kajitori.errors import Forbidden, KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta

RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
RULES = {"policyTypes": ["Egress"], "egress": []}


class FakeServer:
    """Accepts NetworkPolicies, and counts them. In the test of a lost policy its watch never shows the policy."""

    def __init__(self, refusal: KajitoriError | None = None) -> None:
        self.made = 0
        self.deleted: list[str] = []
        self._refusal = refusal

    async def create(self, resource: object, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        self.made += 1
        if self._refusal is not None:
            raise self._refusal
        return {**body, "metadata": {**body["metadata"], "uid": "p1", "resourceVersion": str(self.made)}}

    async def delete(self, resource: object, name: str, namespace: str, *, uid: str) -> None:
        self.deleted.append(uid)


async def test_a_policy_deleted_before_its_creation_was_answered_is_recreated() -> None:
    """The next reconciliation creates it again."""
    server = FakeServer()
    keeper = NetworkKeeper(cast(KubeClient, server), lambda key: None)
    keeper._synced = True
    await keeper.ensure(RUN, RULES)
    await keeper.keep(RUN, RULES)
    assert server.made == 2


def keeper_with(server: FakeServer, *known: NetworkPolicy) -> NetworkKeeper:
    """Return a keeper that has seen these policies by its watch."""
    keeper = NetworkKeeper(cast(KubeClient, server), lambda key: None)
    keeper._synced = True
    keeper._known.update({(policy.metadata.namespace, policy.metadata.name): policy for policy in known})
    return keeper


def policy_of(uid: str) -> NetworkPolicy:
    """Return the wanted NetworkPolicy of the run named bert with this UID."""
    run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid=uid), spec=msgspec.Raw(b"{}"))
    body = _policy_body(run, RULES)
    return msgspec.convert(body | {"metadata": body["metadata"] | {"uid": f"policy-of-{uid}"}}, NetworkPolicy)


async def test_unrestricted_and_unchanged_runs_cause_no_requests() -> None:
    """Nor does a run before the watch has shown which policies exist."""
    server = FakeServer()
    await keeper_with(server).keep(RUN, None)
    await keeper_with(server, policy_of("u1")).keep(RUN, RULES)
    await NetworkKeeper(cast(KubeClient, server), lambda key: None).keep(RUN, RULES)
    assert (server.made, server.deleted) == (0, [])


async def test_only_the_runs_own_policy_is_deleted() -> None:
    """The policy of a later run with the same name stays."""
    server = FakeServer()
    await keeper_with(server, policy_of("u2")).keep(RUN, None)
    assert server.deleted == []
    await keeper_with(server, policy_of("u1")).keep(RUN, None)
    assert server.deleted == ["policy-of-u1"]


async def test_a_refused_policy_is_tried_again_only_if_its_rules_change() -> None:
    """It is also tried again if the run had no rules in between."""
    server = FakeServer(Forbidden("no"))
    keeper = keeper_with(server)
    for rules, tries in ((RULES, 1), (RULES, 1), ({**RULES, "egress": [{}]}, 2), (None, 2), (RULES, 3)):
        await keeper.keep(RUN, rules)
        assert server.made == tries
