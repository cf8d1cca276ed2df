"""What the keeper of NetworkPolicies believes is what the watch told last, not what it wrote itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from kajitori.controllers.runs.networks import NetworkKeeper, _body
from kajitori.errors import Forbidden, KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import NetworkPolicy, ObjectMeta, RunObject

RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
RULES = {"policyTypes": ["Egress"], "egress": []}


class Server:
    """Takes what is made; somebody deletes it, and the watch tells of both, before the answer is read."""

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


async def test_deleted_before_its_making_was_answered() -> None:
    """It is made again at the next look."""
    server = Server()
    keeper = NetworkKeeper(cast(KubeClient, server), lambda key: None)
    keeper._synced = True
    await keeper.ensure(RUN, RULES)
    await keeper.keep(RUN, RULES)
    assert server.made == 2


def keeper_before(server: Server, *known: NetworkPolicy) -> NetworkKeeper:
    """One whose watch has told it of these."""
    keeper = NetworkKeeper(cast(KubeClient, server), lambda key: None)
    keeper._synced = True
    keeper._known.update({(each.metadata.namespace, each.metadata.name): each for each in known})
    return keeper


def policy_of(uid: str) -> NetworkPolicy:
    """The NetworkPolicy of a run of that name and UID, as it is to be."""
    run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid=uid), spec=msgspec.Raw(b"{}"))
    body = _body(run, RULES)
    return msgspec.convert(body | {"metadata": body["metadata"] | {"uid": f"policy-of-{uid}"}}, NetworkPolicy)


async def test_a_run_that_nothing_restricts_costs_no_request() -> None:
    """Nor does one that has what it is to have, or whose NetworkPolicy is not known to be there or not."""
    server = Server()
    await keeper_before(server).keep(RUN, None)
    await keeper_before(server, policy_of("u1")).keep(RUN, RULES)
    await NetworkKeeper(cast(KubeClient, server), lambda key: None).keep(RUN, RULES)
    assert (server.made, server.deleted) == (0, [])


async def test_only_its_own_goes_with_a_run() -> None:
    """That of the next run of its name stays."""
    server = Server()
    await keeper_before(server, policy_of("u2")).keep(RUN, None)
    assert server.deleted == []
    await keeper_before(server, policy_of("u1")).keep(RUN, None)
    assert server.deleted == ["policy-of-u1"]


async def test_what_was_refused_is_tried_again_only_for_something_else() -> None:
    """Or once the run was without."""
    server = Server(Forbidden("no"))
    keeper = keeper_before(server)
    for rules, tries in ((RULES, 1), (RULES, 1), ({**RULES, "egress": [{}]}, 2), (None, 2), (RULES, 3)):
        await keeper.keep(RUN, rules)
        assert server.made == tries
