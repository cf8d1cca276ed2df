"""ID tokens of a provider at the embedded API server and at kube-apiserver, configured by the same file.

Users are alice (group vision) and bob (group speech) of the provider in tests/emulators.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.identity_provider import CLIENT, SCOPES, IdentityProvider
from tests.harness.servers.real_server import RealServer
from tests.helpers.callers.rights import until_allowed

from kajitori.client.sign_in.asking import Asker
from kajitori.errors import Forbidden, Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, SELF_REVIEWS, Resource
from kajitori.openid.authentication_config import parse_authentication
from kajitori.openid.flows import Client
from kajitori.openid.tokens import Tokens

pytestmark = pytest.mark.conformance

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "roles", "Role")
BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")


@dataclass
class Scene:
    """An API server that accepts the provider's tokens, and a namespace for each of two teams."""

    config: KubeConfig
    admin: KubeClient
    provider: IdentityProvider
    vision: str
    speech: str

    def client(self, user: str) -> KubeClient:
        return KubeClient(self.config.with_token(self.provider.id_token(user)))

    async def let(self, group: str, namespace: str, role: str = "editor") -> None:
        """Let a group edit ConfigMaps and make bindings in a namespace."""
        rules = [{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}]
        rules.append({"verbs": ["create"], "apiGroups": [RBAC], "resources": ["rolebindings", "roles"]})
        await self.admin.create(ROLES, {"metadata": {"name": role, "namespace": namespace}, "rules": rules})
        await self.admin.create(BINDINGS, binding(role, namespace, f"oidc:{group}"))
        await until_allowed(self.admin, namespace, ("create", "", "configmaps"), groups=[f"oidc:{group}"])


def binding(role: str, namespace: str, group: str, kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": f"b-{secrets.token_hex(4)}", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def scene(request: pytest.FixtureRequest, identity_provider: IdentityProvider) -> AsyncIterator[Scene]:
    names = [f"{team}-{secrets.token_hex(3)}" for team in ("vision", "speech")]
    if request.param == "real":
        real: RealServer = request.getfixturevalue("real_control_plane")
        async with real.client() as admin:
            for name in names:
                await admin.create(NAMESPACES, {"metadata": {"name": name}})
            yield Scene(real.config, admin, identity_provider, *names)
            for name in names:
                await admin.delete(NAMESPACES, name)
        return
    read = parse_authentication(identity_provider.authentication_file.read_bytes())
    async with embedded_server(authentication=read) as embedded:
        config = KubeConfig.from_file(embedded.kubeconfig)
        async with KubeClient(config) as admin:
            for name in names:
                await admin.create(NAMESPACES, {"metadata": {"name": name}})
            yield Scene(config, admin, identity_provider, *names)


async def test_an_id_token_names_its_user_and_groups(scene: Scene) -> None:
    """A token with a forged signature is refused."""
    token = scene.provider.id_token("alice")
    async with KubeClient(scene.config.with_token(token)) as alice:
        said = await alice.create(SELF_REVIEWS, {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind})
    assert said["status"]["userInfo"]["username"] == "oidc:alice"
    assert said["status"]["userInfo"]["groups"] == ["oidc:vision", "system:authenticated"]
    head, claims, signature = token.split(".")
    forged = ".".join((head, claims, signature[:-8] + ("A" * 8 if signature[-8:] != "A" * 8 else "B" * 8)))
    async with KubeClient(scene.config.with_token(forged)) as forger:
        with pytest.raises(Unauthenticated):
            await forger.list(CONFIG_MAPS, "default")


@pytest.mark.parametrize("scene", ["embedded"], indirect=True)
async def test_a_device_without_a_browser_signs_in_by_a_code(scene: Scene) -> None:
    """The device flow of the real provider (RFC 8628): it waits until the user enters the code in any browser."""
    provider, waits = scene.provider, list[float]()
    ask = Asker(provider.ca.read_text(), {})
    client = Client(ask.provider(provider.issuer), CLIENT, SCOPES)

    def sign_in() -> Tokens:
        device = ask.device(client)

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 2:  # the first question comes too early
                with provider.browser() as browser:
                    browser.approve_device(device.complete_address, "lena")

        return ask.by_device(client, device, wait)

    tokens = await asyncio.to_thread(sign_in)
    assert len(waits) == 2 and tokens.refresh_token
    async with KubeClient(scene.config.with_token(tokens.id_token)) as lena:
        said = await lena.create(SELF_REVIEWS, {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind})
    assert said["status"]["userInfo"]["username"] == "oidc:lena"


async def test_roles_of_a_group_count_only_in_its_namespace(scene: Scene) -> None:
    """Both servers allow and refuse the same calls."""
    await scene.let("vision", scene.vision)
    await scene.let("speech", scene.speech)
    for user, own, other in (("alice", scene.vision, scene.speech), ("bob", scene.speech, scene.vision)):
        async with scene.client(user) as client:
            await client.create(CONFIG_MAPS, {"metadata": {"name": user, "namespace": own}})
            listed = await client.list(CONFIG_MAPS, own)
            assert user in {one["metadata"]["name"] for one in msgspec.to_builtins(listed)["items"]}
            for namespace in (other, None):
                with pytest.raises(Forbidden):
                    await client.list(CONFIG_MAPS, namespace)
            with pytest.raises(Forbidden):
                await client.create(CONFIG_MAPS, {"metadata": {"name": user, "namespace": other}})


async def test_nobody_grants_rights_that_they_lack(scene: Scene) -> None:
    """A user may give others a role that the user has, and no other role."""
    await scene.let("vision", scene.vision)
    async with scene.client("alice") as alice:
        await alice.create(BINDINGS, binding("editor", scene.vision, "oidc:guests"))
        for refused in (
            (BINDINGS, binding("cluster-admin", scene.vision, "oidc:vision", "ClusterRole")),
            (ROLES, _role("secrets", scene.vision)),
        ):
            with pytest.raises(Forbidden, match="attempting to grant RBAC permissions"):
                await alice.create(*refused)


def _role(resource: str, namespace: str) -> dict[str, Any]:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]
    return {"metadata": {"name": f"reads-{resource}", "namespace": namespace}, "rules": rules}
