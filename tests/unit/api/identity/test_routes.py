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


async def test_a_role_is_found_where_there_is_neither_a_team_nor_a_run(world: World) -> None:
    """Operators bind people to namespaces before the first run there. A robot's namespace is in its name."""

    async def found(user: str, **params: str) -> set[str]:
        answer = await world.http.get("/v1/whoami", params=params, headers={"Authorization": f"Bearer {user}"})
        return {item["namespace"] for item in answer.json()["namespaces"]}

    assert "fresh" not in await found("ada")
    assert "fresh" in await found("ada", namespace="fresh")
    assert "fresh" in await found("robot.fresh.ci")


async def test_a_role_binding_shows_a_namespace_without_a_run(world: World) -> None:
    """A newcomer to an empty namespace sees it without naming it. Other people's bindings show nothing, and the API
    server decides what the caller may do there."""

    def bind(namespace: str, kind: str, name: str) -> None:
        subject = {"kind": kind, "name": name, "namespace": "ci"}
        world.kubernetes.put("rolebindings", {"metadata": {"name": "b", "namespace": namespace}, "subjects": [subject]})

    async def found(user: str) -> dict[str, str]:
        world.clock.now += 3600
        answer = await world.http.get("/v1/whoami", headers={"Authorization": f"Bearer {user}"})
        return {item["namespace"]: item["role"] for item in answer.json()["namespaces"]}

    assert await found("ada") == {"team": "lead"}
    bind("of-ada", "User", "ada")
    bind("of-all", "Group", "system:authenticated")
    bind("of-bob", "User", "bob")
    bind("of-robot", "ServiceAccount", "puller")
    world.kubernetes.put("rolebindings", {"metadata": {"name": "nobody", "namespace": "x"}, "subjects": None})
    world.kubernetes.denied |= {("ada", "create", "runs", "of-all")}
    assert await found("ada") == {"team": "lead", "of-ada": "lead", "of-all": "viewer"}
    assert "of-robot" in await found("robot.ci.puller")
    world.kubernetes.denied |= {("ada", "list", "runs", "of-ada"), ("server", "list", "rolebindings", "*")}
    assert await found("ada") == {"team": "lead", "of-all": "viewer"}, "the last known bindings count"


async def test_a_role_in_all_namespaces_is_told_without_naming_them(world: World) -> None:
    """A ClusterRoleBinding reaches namespaces that have neither a team nor a run. They are not listed: most of them are
    of other software."""

    async def everywhere() -> str:
        world.clock.now += 3600
        answer = await world.http.get("/v1/whoami", headers={"Authorization": "Bearer ada"})
        found: str = answer.json()["everywhere"]
        assert [item["namespace"] for item in answer.json()["namespaces"]] == ["team"]
        return found

    assert await everywhere() == "lead"
    for verb, plural, left in (("create", "rolebindings", "user"), ("create", "runs", "viewer"), ("list", "runs", "")):
        world.kubernetes.denied |= {("ada", verb, plural, "")}
        assert await everywhere() == left


async def test_rights_beyond_the_role_are_told(world: World) -> None:
    """The page offers neither the logs nor a new secret to people without these rights."""
    world.kubernetes.denied |= {("bob", "get", "pods/log", "team"), ("carol", "create", "secrets", "team")}
    found = {}
    for user in ("ada", "bob", "carol"):
        answer = await world.http.get("/v1/whoami", headers={"Authorization": f"Bearer {user}"})
        (right,) = answer.json()["namespaces"]
        found[user] = right["logs"], right["secrets"]
    assert found == {"ada": (True, True), "bob": (False, True), "carol": (True, False)}


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


async def test_pages_of_other_sites_cannot_use_the_session_of_a_browser(world: World) -> None:
    """The browser adds the cookie to their requests by itself. They may change nothing, and read nothing either."""
    made = await world.http.post("/v1/sign-in-links", headers={"Authorization": "Bearer ada"})
    async with httpx2.AsyncClient(transport=world.http._transport, base_url="https://kaji.test") as browser:
        own = {"Origin": "https://kaji.test"}
        await browser.post("/sign-in/link", headers={"Kajitori-Link": made.json()["code"]} | own)
        wanted = {"name": "bert", "spec": {"image": "python:3.11"}}
        origins, sites = ("https://evil.test", "null"), ("cross-site", "same-site")
        foreign: list[dict[str, str]] = [{"Origin": origin} for origin in origins]
        foreign += [{"Sec-Fetch-Site": site} for site in sites]
        for headers in (*foreign, {}):
            for path in ("/v1/runs", "/v1/runs/team/bert/stop"):
                answer = await browser.post(path, headers=headers, json=wanted)
                assert answer.status_code == 403 and "another site" in answer.json()["detail"], (headers, path)
        for site in sites:
            assert (await browser.get("/v1/runs", headers={"Sec-Fetch-Site": site})).status_code == 403
        assert (await browser.get("/v1/runs", headers={"Sec-Fetch-Site": "same-origin"})).json()["items"] == []
        assert (await browser.post("/v1/runs", headers=own, json=wanted)).status_code == 201
