"""Two users of two teams, signed in at an OpenID provider, on the embedded API server and on a real one.

alice is in the team vision, bob in the team speech; lena leads vision. `kaji install` makes the roles, and `kaji team
render` the bindings.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.cluster import Cluster
from tests.harness.commands import clean_environment, kaji
from tests.harness.servers.identity_provider import SCOPES, IdentityProvider
from tests.harness.web_api import web_api
from tests.helpers.callers.every_call import LEADS_ONLY, LISTS, RUN, SPEC, TO_ANYBODY, WITH_TICKETS, EveryCall
from tests.helpers.callers.rights import SUBMIT, until_allowed
from tests.helpers.callers.two_teams import PATIENCE_SECONDS, may_submit, speech_of
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.api.app import openapi_document, operations
from kajitori.api.browsers import sessions
from kajitori.cluster.platform.applying import apply, remove
from kajitori.cluster.platform.team_keeper import TeamKeeper
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.errors import Forbidden, Unauthenticated
from kajitori.install.parts.objects import account, bound, identity
from kajitori.install.parts.roles import team_keeper
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS

pytestmark = pytest.mark.conformance

KEEPER = "kajitori-team-keeper"
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
BROWSER = Path(__file__).parents[2] / "helpers" / "callers" / "browse.py"
"""A program that signs in at the provider, like a user with a browser."""


async def test_no_call_crosses_from_one_team_to_another(calls: EveryCall) -> None:
    """bob has all rights of a user in his own team only. alice may read what bob may not. The calls include streams."""
    await calls.are_refused_to_the_outsider()
    await calls.run_no_program_for(calls.outsider, 403)
    allowed = 0
    for path, method, _ in operations(openapi_document()):
        if method == "get" and path not in TO_ANYBODY and f"GET {path}" not in WITH_TICKETS | LISTS:
            status = await calls.status(method, path, calls.owner)
            assert status not in (401, 403) or "{node}" in path or path in LEADS_ONLY, f"{path}: {status}"
            allowed += 1
    assert allowed > 15


async def test_each_team_lists_its_own_runs(calls: EveryCall) -> None:
    """The API server decides who a user is, in which namespaces and teams."""
    mine = {"name": "bobs", "namespace": speech_of(calls.cluster), "spec": SPEC}
    made = await calls.http.post("/v1/runs", headers=calls.outsider, json=mine)
    assert made.status_code == 201, made.text
    for headers, user, team, name in ((calls.owner, "alice", "vision", RUN), (calls.outsider, "bob", "speech", "bobs")):
        namespace, other = calls.cluster.namespace, speech_of(calls.cluster)
        if user == "bob":
            namespace, other = other, namespace
        runs = (await calls.http.get("/v1/runs", headers=headers)).json()["items"]
        assert [(run["name"], run["namespace"], run["owner"]) for run in runs] == [(name, namespace, f"oidc:{user}")]
        who = (await calls.http.get("/v1/whoami", headers=headers)).json()
        assert (who["user"], f"oidc:{team}" in who["groups"]) == (f"oidc:{user}", True)
        roles = {item["namespace"]: item for item in who["namespaces"]}  # other tests on this server have teams, too
        assert roles[namespace] == {"namespace": namespace, "role": "user", "logs": True, "secrets": True}
        assert (other in roles, who["operator"]) == (False, False)
        listed = (await calls.http.get("/v1/teams", headers=headers)).json()["items"]
        assert [item["name"] for item in listed if item["yours"]] == [team]
    assert (await calls.http.delete(f"/v1/runs/{speech_of(calls.cluster)}/bobs", headers=calls.outsider)).is_success


async def test_a_change_of_the_teams_is_applied_with_the_right_to_do_so(
    teamed: Cluster, identity_provider: IdentityProvider
) -> None:
    """The role `kajitori-team-keeper` is sufficient. It gives no right to bind other roles."""
    client, space, former = teamed.client, teamed.namespace, f"{speech_of(teamed)}-old"
    role = team_keeper()
    for document in (role, account("keeper", space), bound(f"keeper-{space}", "ClusterRole", KEEPER, "keeper", space)):
        await apply(client, document)
    keeper_account = f"system:serviceaccount:{space}:keeper"
    await until_allowed(client, "", ("list", ROLE_BINDINGS.group, ROLE_BINDINGS.plural), user=keeper_account)
    token = await client.request("POST", f"{SERVICE_ACCOUNTS.path(space, 'keeper')}/token", body=TOKEN_REQUEST)
    bob = await asyncio.to_thread(identity_provider.id_token, "bob")
    policies = [dict(teamed.policy.current().policy.teams)]
    async with KubeClient(teamed.server.config.with_token(json.loads(token)["status"]["token"])) as keeping:
        keeper = TeamKeeper(keeping, lambda: policies[-1], time.monotonic)
        policies.append({"speech": policies[0]["speech"].model_copy(update={"namespaces": [space, former]})})
        await keeper.keep()
        await may_submit(teamed, bob)
        policies.append(policies[0])
        await keeper.keep()
        bindings = (await client.list(ROLE_BINDINGS)).items
        found = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in bindings}
        assert (space, "kajitori-team-user-vision") in found and (former, "kajitori-team-user-speech") not in found
        assert (space, "kajitori-team-user-speech") not in found
        with pytest.raises(Forbidden):
            await apply(keeping, bound("mine", "ClusterRole", KEEPER, "keeper", space, space))
    for one in (identity(bound(f"keeper-{space}", "ClusterRole", KEEPER, "keeper", space)), identity(role)):
        await remove(client, one)
    await client.delete(NAMESPACES, former)


async def test_a_lead_makes_a_token_for_a_robot(calls: EveryCall, identity_provider: IdentityProvider) -> None:
    """The robot can work in that namespace only, until its token is deleted. Other users cannot create one, and nothing
    of it is left."""
    lead = {"Authorization": f"Bearer {await asyncio.to_thread(identity_provider.id_token, 'lena')}"}
    here, http = {"namespace": calls.cluster.namespace}, calls.http
    for headers in (calls.owner, calls.outsider):
        assert (await http.post("/v1/tokens", headers=headers, json={"name": "ci"} | here)).status_code == 403
    assert (await http.get("/v1/tokens", headers=lead, params=here)).json()["items"] == []
    made = await http.post("/v1/tokens", headers=lead, json={"name": "ci", "ttl": "1h"} | here)
    assert made.status_code == 201, made.text
    robot = {"Authorization": f"Bearer {made.json()['token']}"}
    await until_allowed(calls.cluster.client, calls.cluster.namespace, SUBMIT, user=made.json()["user"])
    who = (await http.get("/v1/whoami", headers=robot)).json()
    assert who["user"] == f"system:serviceaccount:{calls.cluster.namespace}:ci"
    assert who["namespaces"] == [here | {"role": "user", "logs": True, "secrets": True}]
    submitted = await http.post("/v1/runs", headers=robot, json={"name": "nightly", "spec": SPEC} | here)
    assert submitted.status_code == 201, submitted.text
    other = {"name": "nightly", "spec": SPEC, "namespace": speech_of(calls.cluster)}
    assert (await http.post("/v1/runs", headers=robot, json=other)).status_code == 403
    listed = (await http.get("/v1/tokens", headers=lead, params=here)).json()["items"]
    assert [(item["name"], item["owner"]) for item in listed] == [("ci", "oidc:lena")]
    viewer = await http.post("/v1/tokens", headers=lead, json={"name": "ci", "role": "viewer"} | here)
    assert viewer.status_code == 409
    assert (await http.delete("/v1/tokens/ci", headers=lead, params=here)).status_code == 202
    assert (await http.delete("/v1/tokens/ci", headers=lead, params=here)).status_code == 404
    if calls.cluster.server.is_real:
        return  # kube-apiserver remembers a token for ten seconds
    async with KubeClient(calls.cluster.server.config.with_token(made.json()["token"])) as ended:
        with pytest.raises(Unauthenticated):
            await ended.list(SERVICE_ACCOUNTS, calls.cluster.namespace)


@pytest.mark.parametrize("teamed", ["embedded"], indirect=True)
async def test_users_sign_in_with_the_command_line(
    calls: EveryCall, identity_provider: IdentityProvider, tmp_path: Path
) -> None:
    """Later commands use that server. An expired token is renewed, and no token is printed."""
    home = clean_environment(tmp_path, BROWSER=f"{sys.executable} {BROWSER} %s", SIGN_IN_CA=str(identity_provider.ca))

    async def call(*words: str, user: str = "alice") -> str:
        env = home | {"SIGN_IN_AS": user}
        done = await asyncio.to_thread(kaji, *words, env=env, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stderr
        stored = json.loads(context(tmp_path).read_text())
        assert all(stored[name] not in done.stdout + done.stderr for name in ("token", "refresh_token"))
        return done.stdout

    await call("login", calls.url)
    assert context(tmp_path).stat().st_mode & 0o777 == 0o600
    assert await call("whoami", "-o", "name") == "oidc:alice\n"
    assert RUN in await call("ps", "-N", calls.cluster.namespace)
    before = json.loads(context(tmp_path).read_text())
    context(tmp_path).write_text(json.dumps(before | {"expires": 1.0, "token": "expired"}))
    assert await call("whoami", "-o", "name") == "oidc:alice\n"
    assert json.loads(context(tmp_path).read_text())["refresh_token"] != before["refresh_token"]
    await call("login", user="lena")
    document = json.loads(await call("whoami", "-o", "json"))
    assert (document["user"], document["namespaces"][0]["role"]) == ("oidc:lena", "lead")
    done = await asyncio.to_thread(kaji, "logout", env=home, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0 and "its tokens are revoked" in done.stderr, done.stderr


@pytest.mark.parametrize("teamed", ["embedded"], indirect=True)
async def test_a_browser_signs_in_and_acts_by_its_cookie(calls: EveryCall, identity_provider: IdentityProvider) -> None:
    """The server's own pages can change things, pages of other sites cannot. After signing out, the cookie is gone."""
    begun = await calls.http.get("/sign-in/start", params={"to": "/runs"})
    assert begun.status_code == 302
    with identity_provider.browser(stops_at=calls.url) as browser:
        back = await asyncio.to_thread(browser.sign_in, begun.headers["location"], "alice")
    done = await calls.http.get(back.removeprefix(calls.url), headers={"Cookie": cookies_of(begun)})
    assert (done.status_code, done.headers["location"]) == (303, "/runs"), done.text
    cookie = {"Cookie": cookies_of(done)}
    assert (await calls.http.get("/v1/whoami", headers=cookie)).json()["user"] == "oidc:alice"
    body = {"name": "by-browser", "namespace": calls.cluster.namespace, "spec": SPEC}
    for origin, status in (({}, 403), ({"Origin": "https://evil.test"}, 403), ({"Origin": calls.url}, 201)):
        assert (await calls.http.post("/v1/runs", headers=cookie | origin, json=body)).status_code == status
    await calls.run_no_program_for(cookie | {"Origin": "https://evil.test"}, 403)
    out = await calls.http.post("/sign-out", headers=cookie | {"Origin": calls.url})
    assert out.status_code == 204 and cookies_of(out) == ""
    assert (await calls.http.get("/v1/whoami", headers={"Cookie": cookies_of(out)})).status_code == 401


@pytest.mark.parametrize("teamed", ["embedded"], indirect=True)
async def test_two_servers_renew_a_rotating_session_once(
    teamed: Cluster, identity_provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider ends a sign-in whose refresh token comes a second time. Here every request renews the tokens."""
    place = SignIn(identity_provider.issuer, scopes=SCOPES, ca=identity_provider.ca.read_text())
    shared: dict[str, Any] = {
        "blobs": MemoryBlobs(),
        "sign_in": place,
        "browser_access": BrowserAccess(cookie_secret=b"x" * 32),
    }
    async with web_api(teamed, **shared) as one, web_api(teamed, **shared) as other:
        begun = await one.http.get("/sign-in/start")
        with identity_provider.browser(stops_at=one.url) as browser:
            back = await asyncio.to_thread(browser.sign_in, begun.headers["location"], "alice")
        done = await one.http.get(back.removeprefix(one.url), headers={"Cookie": cookies_of(begun)})
        cookie = cookies_of(done)
        monkeypatch.setattr(sessions, "EARLY_SECONDS", 3600.0)
        async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            for _ in range(3):
                asked = [http.get(f"{url}/v1/whoami", headers={"Cookie": cookie}) for url in (one.url, other.url) * 2]
                answers = await asyncio.gather(*asked)
                assert [answer.status_code for answer in answers] == [200] * 4, answers[-1].text
                cookies = {cookies_of(answer) for answer in answers}
                assert cookie not in cookies
                cookie = cookies.pop()


def cookies_of(answer: httpx2.Response) -> str:
    """The `Cookie` header for what an answer sets."""
    pairs = [header.partition(";")[0] for header in answer.headers.get_list("set-cookie")]
    return "; ".join(pair for pair in pairs if not pair.endswith(("=", '=""')))


def context(home: Path) -> Path:
    """Return the file of the only sign-in."""
    (file,) = home.rglob("contexts/*.json")
    return file
