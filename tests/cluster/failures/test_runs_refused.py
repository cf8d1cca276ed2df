"""Members that the API server refuses: no half gang stays, the reason names what refused it, and it is tried again.

Quotas are in test_runs.py.
"""

from __future__ import annotations

from functools import partial

import pytest
from tests.harness.cluster import Cluster
from tests.harness.waiting import until
from tests.helpers.objects.webhook import PROBE, asked_for_pods, refuses

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.kube.resources import LIMIT_RANGES, NAMESPACES, PODS, Resource

pytestmark = pytest.mark.conformance

ONLY_REAL = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
"""The embedded API server has no webhooks and no Pod security (docs/architecture/embedded-differences.md)."""


class PodNamesEverMade:
    """Records the names of all Pods that exist in the cluster's namespace from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self.names: set[str] = set()
        self._namespace = cluster.namespace
        cluster.mirror.on_change(self._note)

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == PODS and namespace == self._namespace:
            self.names.add(name)


async def refusal(cluster: Cluster, *words: str, starts: int = 1) -> RunStatus:
    """Return the status of `bert` once this many starts were refused with these words, and none of its Pods is left."""

    def there() -> RunStatus | None:
        status = cluster.status("bert")
        return status if status.failed_starts >= starts and all(word in status.message for word in words) else None

    status = await cluster.until(there, f"refused: {words}")
    assert status is not None
    assert (status.phase, status.restarts) == (Phase.QUEUED, 0)
    await cluster.until(lambda: not cluster.pods("bert") or cluster.status("bert") != status, "no half gang")
    return status


async def test_a_limit_range_that_refuses_a_member_is_named(cluster: Cluster) -> None:
    """This holds for a minimum and a maximum. No Pod is created, and the message has the name of the LimitRange, which
    the API server leaves out."""
    made = PodNamesEverMade(cluster)
    cluster.use_policy(start={"pause": "1s", "longestPause": "1s"})
    cluster.start_controller()

    async def limit(name: str, **bound: dict[str, str]) -> None:
        item = {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **bound}]}}
        await cluster.client.create(LIMIT_RANGES, item, cluster.namespace)

    await limit("small", max={"memory": "512Mi"})
    await cluster.submit("bert", replicas=3)
    assert (await refusal(cluster, "(LimitRange small)")).reason is Reason.ADMISSION
    await limit("large", min={"cpu": "8"})  # before the other one goes: at no moment may the run start
    await cluster.client.delete(LIMIT_RANGES, "small", cluster.namespace)
    assert (await refusal(cluster, "(LimitRange large)")).reason is Reason.ADMISSION
    assert not made.names
    await cluster.client.delete(LIMIT_RANGES, "large", cluster.namespace)
    status = await cluster.reaches("bert", Phase.RUNNING)
    assert (status.failed_starts, status.restarts) == (0, 0)


@ONLY_REAL
async def test_a_webhook_that_refuses_a_member_is_named(cluster: Cluster) -> None:
    """The webhook refuses all members, or one in the middle of the burst, or does not answer in time. No part of a gang
    stays, and the run starts once the webhook agrees."""
    made = PodNamesEverMade(cluster)
    cluster.use_policy(start={"pause": "1s", "longestPause": "1s"})
    async with asked_for_pods(cluster.client, cluster.namespace, cluster.folder / "webhook") as webhook:
        cluster.start_controller()
        webhook.refuses = "-"
        await cluster.submit("bert", replicas=4)
        status = await refusal(cluster, webhook.name, "is not wanted here")
        assert status.reason is Reason.ADMISSION and not made.names
        webhook.refuses = "-2"
        await refusal(cluster, webhook.name, "-2 is not wanted here")
        webhook.refuses, webhook.hangs = "", True
        status = await refusal(cluster, f'failed calling webhook "{webhook.name}"')
        assert status.reason is Reason.ADMISSION
        webhook.hangs = False
        status = await cluster.reaches("bert", Phase.RUNNING)
        assert (status.restarts, status.members.running, len(cluster.pods("bert"))) == (0, 4, 4)


@ONLY_REAL
async def test_pod_security_that_refuses_a_member_is_named(cluster: Cluster) -> None:
    """The member has a property that policy allows and the namespace forbids. Members with the policy's defaults are
    always admitted."""
    made = PodNamesEverMade(cluster)
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await cluster.client.patch(NAMESPACES, cluster.namespace, level)
    probe = PROBE | {"spec": PROBE["spec"] | {"hostNetwork": True}}
    enforced = partial(refuses, cluster.client, PODS, probe, cluster.namespace, "PodSecurity")
    await until(enforced, "the level is enforced")
    cluster.use_policy(security={"allowHostNetwork": True})
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, hostNetwork=True)
    status = await refusal(cluster, "restricted", "hostNetwork")
    assert status.reason is Reason.ADMISSION and not made.names
    await cluster.submit("plain", replicas=2)
    await cluster.reaches("plain", Phase.RUNNING)
