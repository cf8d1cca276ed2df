"""Who the caller is, and where the caller may do what."""

from __future__ import annotations

import httpx2
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


async def test_a_link_of_the_command_line_signs_a_browser_in(world: World) -> None:
    """A browser's own session makes no links. A link that is opened from another site's page is refused."""
    made = await world.http.post("/v1/sign-in-links", headers={"Authorization": "Bearer ada"})
    assert (made.status_code, made.json()["user"]) == (201, "ada")
    code = {"Kajitori-Link": made.json()["code"]}
    async with httpx2.AsyncClient(transport=world.http._transport, base_url="https://kaji.test") as browser:
        assert (await browser.get("/v1/whoami")).status_code == 401
        stolen = await browser.post("/sign-in/link", headers=code | {"Origin": "https://evil.test"})
        assert stolen.status_code == 403
        own = {"Origin": "https://kaji.test"}
        assert (await browser.post("/sign-in/link", headers=code | own)).status_code == 204
        assert (await browser.get("/v1/whoami")).json()["user"] == "ada"
        assert (await browser.post("/sign-in/link", headers=code | own)).status_code == 401
        assert (await browser.post("/v1/sign-in-links", headers=own)).status_code == 403
        assert (await browser.post("/sign-out", headers=own)).status_code == 204
        assert (await browser.get("/v1/whoami")).status_code == 401
