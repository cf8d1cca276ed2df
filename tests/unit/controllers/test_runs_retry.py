"""How long the run controller waits before it tries again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kajitori.controllers.runs import RETRY_MAX_SECONDS, RunController
from kajitori.core.policy import default_policy
from kajitori.errors import Conflict, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror import Mirror
from kajitori.policyfile import PolicyFile

KEY = ("vision", "bert")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("gone"), Unavailable("busy")])
async def test_failures_in_a_row_are_tried_again_later_each_time(error: KajitoriError) -> None:
    """The first conflict at once, since somebody just wrote; what never heals costs almost nothing."""
    async with KubeClient(KubeConfig(server="https://127.0.0.1:1")) as client:
        mirror = Mirror(client)
        view = ClusterView(mirror, PolicyFile(None, without_file=default_policy()))
        controller = RunController(client, mirror, view, now=lambda: NOW)

        async def fails() -> None:
            raise error

        pauses = []
        for _ in range(12):
            controller._wake_at.clear()
            await controller._guarded(KEY, fails)
            pauses.append((controller._wake_at[KEY] - NOW).total_seconds())
        assert pauses == sorted(pauses)
        assert pauses[0] <= 1.0
        assert pauses[-1] == RETRY_MAX_SECONDS

        async def succeeds() -> None:
            return None

        await controller._guarded(KEY, succeeds)
        controller._wake_at.clear()
        await controller._guarded(KEY, fails)
        assert (controller._wake_at[KEY] - NOW).total_seconds() == pauses[0]
