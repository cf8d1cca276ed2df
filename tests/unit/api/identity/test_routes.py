"""Who the caller is, and where the caller may do what."""

from __future__ import annotations

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.api.identity.routes import MAX_NAMESPACES
from kajitori.core.policy.file import parse_policy


async def test_the_callers_namespaces_come_before_the_limit(world: World) -> None:
    """Those of the caller's teams and runs are shown, however many others there are."""
    teams = {f"a{number:03}": {"groups": ["others"]} for number in range(MAX_NAMESPACES)}
    teams["zoo"] = {"groups": ["system:authenticated"]}
    world.api.policy.complete(lambda _: parse_policy({"teams": teams}))
    world.kubernetes.put("runs", run("bert", namespace="yard"))
    await world.caught_up()
    answer = await world.http.get("/v1/whoami", headers={"Authorization": "Bearer ada"})
    found = [item["namespace"] for item in answer.json()["namespaces"]]
    assert len(found) == MAX_NAMESPACES and found == sorted(found)
    assert {"team", "yard", "zoo"} <= set(found)
