"""The gateway's decisions: which names and groups it uses, and for how long a token counts."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.platform.gateway import (
    GROUPS_SECONDS,
    TOKEN_SECONDS,
    Gateway,
    gateway_faults,
    impersonable_groups,
)
from kajitori.errors import Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Headers
from kajitori.openid.authentication_config import parse_authentication
from kajitori.openid.id_tokens import IdTokens, Person

ALICE = Person("oidc:alice", ("oidc:vision", "oidc:staff"), 100.0)
RULE = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"]}


class Api:
    """An API server that makes tokens and lets the account impersonate some groups."""

    def __init__(self) -> None:
        self.groups = ["oidc:vision"]
        self.tokens = 0
        self.reviews = 0
        self.source: Any = None

    def with_headers(self, source: Any, *, user_agent: str) -> Api:
        self.source = source
        return self

    async def request(self, method: str, path: str, *, body: Any) -> bytes:
        assert (method, path) == ("POST", "/api/v1/namespaces/kajitori/serviceaccounts/gate/token")
        self.tokens += 1
        return msgspec.json.encode({"status": {"token": f"token-{self.tokens}"}})

    async def create(self, resource: Any, body: Any) -> dict[str, Any]:
        self.reviews += 1
        return {"status": {"resourceRules": [RULE | {"resourceNames": self.groups}]}}


class World:
    """A gateway, its API server, the person that every token describes, and the time."""

    def __init__(self) -> None:
        self.api = Api()
        self.person: Person | None = ALICE
        self.now = 0.0
        self.gateway = Gateway(
            cast(KubeClient, self.api),
            "kajitori/gate",
            cast(IdTokens, self),
            user_agent="test",
            clock=lambda: self.now,
            now=lambda: self.now,
        )

    async def user_of(self, token: str) -> Person | None:
        return self.person

    async def headers(self) -> Headers:
        """The headers of a request for the person."""
        assert await self.gateway.admit("token") is not None
        return cast(Headers, await self.api.source())


async def test_a_person_keeps_the_groups_that_the_account_may_impersonate() -> None:
    world = World()
    shown = (("Impersonate-User", "oidc:alice"), ("Impersonate-Group", "oidc:vision"))
    assert await world.headers() == (("Authorization", "Bearer token-1"), *shown)
    world.api.groups = ["oidc:staff"]
    assert (await world.headers())[2:] == shown[1:]
    world.now += GROUPS_SECONDS
    assert (await world.headers())[2:] == (("Impersonate-Group", "oidc:staff"),)


async def test_the_accounts_token_is_renewed_after_half_of_its_life() -> None:
    world = World()
    for _ in range(3):
        assert (await world.headers())[0] == ("Authorization", "Bearer token-1")
    world.now += TOKEN_SECONDS / 2
    assert (await world.headers())[0] == ("Authorization", "Bearer token-2")


@pytest.mark.parametrize(
    "name", ["system:admin", "oidc:alice ", " oidc:alice", "oidc:a\r\nImpersonate-Group: x", "oidc:\u202eecila", ""]
)
async def test_a_name_that_a_header_could_change_is_not_admitted(name: str) -> None:
    """A header loses blanks at its ends: `alice ` would become alice."""
    world = World()
    world.person = Person(name, (), 100.0)
    assert await world.gateway.admit("token") is None


async def test_a_token_counts_until_it_expires_or_is_refused() -> None:
    world = World()
    admitted = await world.gateway.admit("token")
    assert admitted is not None
    world.now = 70.0
    assert await admitted.confirm() == 30.0
    for other in (None, Person("oidc:bob", ALICE.groups, 100.0), Person("oidc:alice", (), 100.0)):
        world.person = other
        with pytest.raises(Unauthenticated):
            await admitted.confirm()
    assert await world.gateway.admit("token") is not None
    world.person = None
    assert await world.gateway.admit("token") is None


def test_rules_for_all_groups_or_those_of_the_system_do_not_count() -> None:
    names = ["oidc:vision", "system:masters", "system:authenticated"]
    assert impersonable_groups([RULE, RULE | {"resourceNames": []}]) == frozenset()
    assert impersonable_groups([RULE | {"resourceNames": names}]) == {"oidc:vision"}
    assert impersonable_groups([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]) == frozenset()
    assert impersonable_groups([RULE | {"resources": ["users"], "resourceNames": ["oidc:vision"]}]) == frozenset()


@pytest.mark.parametrize("prefix", ["", "system:"])
def test_a_provider_without_a_prefix_is_refused(prefix: str) -> None:
    mappings = {name: {"claim": name, "prefix": prefix} for name in ("username", "groups")}
    issuer = {"url": "https://login.example.org", "audiences": ["kaji"]}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    text = msgspec.json.encode(document | {"jwt": [{"issuer": issuer, "claimMappings": mappings}]})
    faults = list(gateway_faults(parse_authentication(text), "gateway.yaml"))
    assert len(faults) == 2 and all(fault.hint for fault in faults)
