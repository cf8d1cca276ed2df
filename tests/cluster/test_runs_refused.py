"""Members that the API server does not take: no half gang stays, the reason names who says no, and it is tried again.

Quotas are in test_runs.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.webhook import asked_for_pods
from tests.helpers.world import World

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.kube.resources import LIMIT_RANGES, NAMESPACES, PODS, Resource

ONLY_REAL = pytest.mark.parametrize("world", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
"""The embedded API server asks no webhooks and knows no Pod security (docs/architecture/embedded-differences.md)."""


class MadePods:
    """Names of all Pods that there ever were in the world's namespace."""

    def __init__(self, world: World) -> None:
        self.names: set[str] = set()
        self._namespace = world.namespace
        world.mirror.on_change(self._note)

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == PODS and namespace == self._namespace:
            self.names.add(name)


async def refused(world: World, *said: str, starts: int = 1) -> RunStatus:
    """The status of `bert` once so many starts of it were refused in these words, and nothing of it is left."""

    def there() -> RunStatus | None:
        status = world.status("bert")
        return status if status.failed_starts >= starts and all(each in status.message for each in said) else None

    status = await world.until(there, f"refused: {said}")
    assert status is not None
    assert (status.phase, status.restarts) == (Phase.QUEUED, 0)
    await world.until(lambda: not world.pods("bert") or world.status("bert") != status, "no half gang")
    return status


async def test_a_limit_range_is_named(world: World) -> None:
    """Whichever of its bounds a member breaks: nothing is made, and its name is told, which the API server does not."""
    made = MadePods(world)
    world.use_policy(start={"pause": "1s", "longestPause": "1s"})
    world.start_controller()
    bounds: dict[str, dict[str, Any]] = {
        "small": {"max": {"memory": "512Mi"}},
        "large": {"min": {"cpu": "8"}},
    }
    for number, (name, bound) in enumerate(bounds.items()):
        item = {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **bound}]}}
        await world.client.create(LIMIT_RANGES, item, world.namespace)
        if not number:
            await world.submit("bert", replicas=3)
        status = await refused(world, f"(LimitRange {name})")
        assert status.reason is Reason.ADMISSION
        assert not made.names
        await world.client.delete(LIMIT_RANGES, name, world.namespace)
    status = await world.reaches("bert", Phase.RUNNING)
    assert (status.failed_starts, status.restarts) == (0, 0)


@ONLY_REAL
async def test_a_webhook_that_refuses_or_says_nothing_is_named(world: World) -> None:
    """All of them, one in the middle of the burst, or none in time: no half gang, and once it says yes it runs."""
    made = MadePods(world)
    world.use_policy(start={"pause": "1s", "longestPause": "1s"})
    async with asked_for_pods(world.client, world.namespace, world.folder / "webhook") as webhook:
        world.start_controller()
        webhook.refuses = "-"
        await world.submit("bert", replicas=4)
        status = await refused(world, webhook.name, "is not wanted here")
        assert status.reason is Reason.ADMISSION and not made.names
        webhook.refuses = "-2"
        await refused(world, webhook.name, "-2 is not wanted here")
        webhook.refuses, webhook.hangs = "", True
        status = await refused(world, f'failed calling webhook "{webhook.name}"')
        assert status.reason is Reason.ADMISSION
        webhook.hangs = False
        status = await world.reaches("bert", Phase.RUNNING)
        assert (status.restarts, status.members.running, len(world.pods("bert"))) == (0, 4, 4)


@ONLY_REAL
async def test_pod_security_is_named(world: World) -> None:
    """What policy allows and the namespace does not; what members of policy's own making always fulfil."""
    made = MadePods(world)
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await world.client.patch(NAMESPACES, world.namespace, level)
    world.use_policy(security={"allowHostNetwork": True})
    world.start_controller()
    await world.submit("bert", replicas=2, hostNetwork=True)
    status = await refused(world, "restricted", "hostNetwork")
    assert status.reason is Reason.ADMISSION and not made.names
    await world.submit("plain", replicas=2)
    await world.reaches("plain", Phase.RUNNING)
