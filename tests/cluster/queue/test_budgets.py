"""The controller's writes of PodDisruptionBudgets, on both API servers: few, and only of its own objects."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.servers.kube_server import KubeServer

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.budgets import BudgetKeeper
from kajitori.core.naming import names
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import BUDGETS

pytestmark = pytest.mark.conformance

SPEC = {
    "minAvailable": 2,
    "selector": {"matchLabels": {names.LABEL_RUN_UID: "u1"}},
    "unhealthyPodEvictionPolicy": "AlwaysAllow",
}
OPEN = {
    **SPEC,
    "minAvailable": 1,
    "selector": {
        **SPEC["selector"],  # type: ignore[dict-item]
        "matchExpressions": [{"key": names.LABEL_RANK, "operator": "NotIn", "values": ["1"]}],
    },
}


def run_in(namespace: str, uid: str = "u1") -> RunObject:
    """Return a Run with a UID that no other Run has."""
    meta = ObjectMeta(name="bert", namespace=namespace, uid=f"{namespace}-{uid}")
    return RunObject(metadata=meta, spec=msgspec.Raw(b"{}"))


async def version(client: KubeClient, namespace: str) -> str:
    return str((await client.get(BUDGETS, "bert", namespace))["metadata"]["resourceVersion"])


async def test_only_a_changed_budget_is_written(kube_server: KubeServer, own_namespace: str) -> None:
    """The next leader finds the existing budget, keeps it unchanged, and deletes it at the end."""
    run = run_in(own_namespace)
    async with kube_server.client() as client:
        keeper = BudgetKeeper(client)
        await keeper.keep(run, SPEC)
        written = await version(client, own_namespace)
        await keeper.keep(run, SPEC)
        next_leader = BudgetKeeper(client)
        await next_leader.keep(run, SPEC)
        assert await version(client, own_namespace) == written
        for wanted in (OPEN, SPEC):
            await next_leader.keep(run, wanted)
            assert (await client.get(BUDGETS, "bert", own_namespace))["spec"] == wanted
        await BudgetKeeper(client).keep(run, None)
        with pytest.raises(NotFound):
            await version(client, own_namespace)
        await next_leader.keep(run, None)  # it is gone already: no error


async def test_two_controllers_that_both_believe_to_lead_do_not_fail(
    kube_server: KubeServer, own_namespace: str
) -> None:
    """Each controller looked before the other one wrote. It finds the other's budget and changes it to what it wants
    itself."""
    run = run_in(own_namespace)
    async with kube_server.client() as client:
        first, second = BudgetKeeper(client), BudgetKeeper(client)
        await first.keep(run, None)
        await second.keep(run, None)
        await first.keep(run, SPEC)
        await second.keep(run, OPEN)
        assert (await client.get(BUDGETS, "bert", own_namespace))["spec"] == OPEN


async def test_the_budget_of_an_earlier_run_of_that_name_is_replaced(
    kube_server: KubeServer, own_namespace: str
) -> None:
    async with kube_server.client() as client:
        await BudgetKeeper(client).keep(run_in(own_namespace, "u0"), SPEC)
        await BudgetKeeper(client).keep(run_in(own_namespace), SPEC)
        found = await client.get(BUDGETS, "bert", own_namespace)
        assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [f"{own_namespace}-u1"]


async def test_a_foreign_budget_of_that_name_is_not_touched(
    kube_server: KubeServer, own_namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run has no budget of its own. The log names the foreign budget once."""
    theirs = {"metadata": {"name": "bert"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    async with kube_server.client() as client:
        await client.create(BUDGETS, theirs, own_namespace)
        before = await version(client, own_namespace)
        keeper = BudgetKeeper(client)
        for wanted in (SPEC, SPEC, None):
            await keeper.keep(run_in(own_namespace), wanted)
        assert await version(client, own_namespace) == before
    assert caplog.text.count("PodDisruptionBudget bert belongs to something else") == 1
