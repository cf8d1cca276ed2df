"""The gateway: two teams on API servers that do not accept their ID tokens; the Web API impersonates them.

The API servers of tests know the provider by the prefix `oidc:`. The gateway uses the prefix `gate:` for the same
people, and only names with that prefix have roles, so every right in these tests was obtained by impersonation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, control_plane
from tests.harness.fixtures import real_server_of
from tests.harness.servers.identity_provider import IdentityProvider
from tests.helpers.callers.every_call import LEADS_ONLY, LISTS, RUN, TO_ANYBODY, WITH_TICKETS, EveryCall, serving_a_run
from tests.helpers.callers.rights import until_allowed
from tests.helpers.callers.two_teams import bind, speech_of

from kajitori.api.app import openapi_document, operations
from kajitori.cluster.platform.applying import apply, remove
from kajitori.cluster.platform.gateway import Gateway
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.errors import Forbidden
from kajitori.install.parts.gateway import ACCOUNT, authentication, gateway
from kajitori.install.parts.objects import identity
from kajitori.install.settings import GatewaySettings, InstallSettings, SignInSettings
from kajitori.kube.resources import NAMESPACES, NODES
from kajitori.openid.authentication_config import parse_authentication
from kajitori.openid.id_tokens import IdTokens

pytestmark = pytest.mark.conformance

PREFIX = "gate:"


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def calls(
    request: pytest.FixtureRequest, tmp_path: Path, identity_provider: IdentityProvider
) -> AsyncIterator[EveryCall]:
    """A run of alice behind a gateway that may impersonate both teams, but not the group of vision's leads."""
    accepted = parse_authentication(identity_provider.authentication_file.read_bytes())
    async with (
        control_plane(real_server_of(request), tmp_path, accepted) as server,
        Cluster(server, tmp_path).running() as cluster,
    ):
        settings = _settings(cluster, identity_provider)
        await bind(cluster, PREFIX)
        for document in gateway(settings):
            await apply(cluster.client, document)
        account = f"system:serviceaccount:{cluster.namespace}:{ACCOUNT}"
        await until_allowed(cluster.client, "", ("impersonate", "", "users"), user=account)
        opened = _opened(cluster, settings)
        try:
            alice, bob = [await asyncio.to_thread(identity_provider.id_token, user) for user in ("alice", "bob")]
            async with serving_a_run(cluster, owner=alice, outsider=bob, admit=opened.admit) as calls:
                yield calls
        finally:
            await opened.close()
            for document in gateway(settings):
                await remove(cluster.client, identity(document))
            await cluster.client.delete(NAMESPACES, speech_of(cluster))


def _settings(cluster: Cluster, provider: IdentityProvider) -> InstallSettings:
    chosen = GatewaySettings().model_copy(
        update={"enabled": True, "prefix": PREFIX, "groups": [f"{PREFIX}vision", f"{PREFIX}speech"]}
    )
    sign_in = SignInSettings(issuer=provider.issuer, ca=provider.ca.read_text())
    update = {"namespace": cluster.namespace, "gateway": chosen, "sign_in": sign_in}
    return InstallSettings().model_copy(update=update)


def _opened(cluster: Cluster, settings: InstallSettings) -> Gateway:
    accepted = parse_authentication(authentication(settings))
    account = f"{cluster.namespace}/{ACCOUNT}"
    return Gateway(cluster.client, account, IdTokens(accepted.jwt), user_agent="kajitori-api")


async def test_no_call_crosses_from_one_team_to_another_through_it(
    calls: EveryCall, identity_provider: IdentityProvider
) -> None:
    """The calls include streams. The API server knows the owner of each run."""
    await calls.are_refused_to_the_outsider()
    await calls.run_no_program_for(calls.outsider, 403)
    for path, method, _ in operations(openapi_document()):
        if method == "get" and path not in TO_ANYBODY and f"GET {path}" not in WITH_TICKETS | LISTS:
            status = await calls.status(method, path, calls.owner)
            assert status not in (401, 403) or "{node}" in path or path in LEADS_ONLY, f"{path}: {status}"
    run = await calls.cluster.client.get(RUNS, RUN, calls.cluster.namespace)
    assert run["metadata"]["annotations"][names.ANNOTATION_OWNER] == f"{PREFIX}alice"
    who = (await calls.http.get("/v1/whoami", headers=calls.owner)).json()
    assert (who["user"], who["groups"]) == (f"{PREFIX}alice", [f"{PREFIX}vision", "system:authenticated"])
    lead = {"Authorization": f"Bearer {await asyncio.to_thread(identity_provider.id_token, 'lena')}"}
    who = (await calls.http.get("/v1/whoami", headers=lead)).json()
    assert f"{PREFIX}vision-leads" not in who["groups"], "the account may not impersonate this group"
    body = {"name": "ci", "namespace": calls.cluster.namespace}
    assert (await calls.http.post("/v1/tokens", headers=lead, json=body)).status_code == 403
    forged = calls.owner["Authorization"][:-8] + "AAAAAAAA"
    assert (await calls.http.get("/v1/runs", headers={"Authorization": forged})).status_code == 401
    await _may_nothing_itself(calls.cluster)


async def _may_nothing_itself(cluster: Cluster) -> None:
    """Assert that the gateway's account can read nothing, and cannot act as an administrator or as a part of
    Kubernetes."""
    token = await cluster.client.request(
        "POST",
        f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts/{ACCOUNT}/token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    bearer = ("Authorization", f"Bearer {_text(token)}")
    for more in (
        (),
        (("Impersonate-User", "gate:mallory"), ("Impersonate-Group", "system:masters")),
        (("Impersonate-User", "system:serviceaccount:kube-system:default"),),
    ):

        async def headers(more: tuple[tuple[str, str], ...] = more) -> tuple[tuple[str, str], ...]:
            return (bearer, *more)

        async with cluster.client.with_headers(headers, user_agent="test") as client:
            with pytest.raises(Forbidden):
                await client.list(NODES)


def _text(token_request: bytes) -> str:
    return str(json.loads(token_request)["status"]["token"])
