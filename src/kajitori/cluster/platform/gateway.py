"""The gateway, for clusters with an API server that cannot use the OpenID provider of the users.

The Web API verifies ID tokens itself and sends requests with the token of a separate service account that may
impersonate users. The API server then decides as if the user had sent the request. The account may impersonate named
groups only, which it reads from the API server, and it never impersonates a user or group of the system.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kajitori.errors import Fault, Unauthenticated
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Headers
from kajitori.kube.resources import SELF_RULES_REVIEWS, SERVICE_ACCOUNTS
from kajitori.openid.authentication_config import AuthenticationConfiguration
from kajitori.openid.id_tokens import IdTokens, Person

TOKEN_SECONDS = 3600
"""Lifetime of the account's token. It is renewed after half of it."""
GROUPS_SECONDS = 60.0
"""Time for which the account's rights are not asked for again."""
_SYSTEM = "system:"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """A caller with an ID token that the gateway has verified."""

    client: KubeClient
    """Sends requests in the name of the caller."""
    confirm: Callable[[], Awaitable[float]]
    """Verifies the token again and returns for how many seconds it is valid. Raises Unauthenticated if it is not."""


def gateway_faults(accepted: AuthenticationConfiguration, file: str) -> Iterator[Fault]:
    """Yield why a gateway cannot use a valid file: without a prefix, names from ID tokens could equal other names in
    the cluster."""
    for index, one in enumerate(accepted.jwt):
        for name, mapping in (("username", one.claim_mappings.username), ("groups", one.claim_mappings.groups)):
            if mapping is not None and (not mapping.prefix or mapping.prefix.startswith(_SYSTEM)):
                field = f"jwt[{index}].claimMappings.{name}.prefix"
                hint = "write a prefix that nobody else in the cluster has, for example oidc:"
                yield Fault("--gateway-authentication", f"{field} of {file} is {mapping.prefix!r:.40}", "", hint)


def impersonable_groups(rules: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the groups that rules of a SelfSubjectRulesReview allow to impersonate by name. Rules for every group, and
    groups of the system, do not count."""
    found: set[str] = set()
    for rule in rules:
        if "impersonate" in rule.get("verbs", ()) and "groups" in rule.get("resources", ()):
            found |= set(rule.get("resourceNames") or ())
    return frozenset(group for group in found if _is_plain(group))


def _is_plain(name: str) -> bool:
    """Return whether a header carries a name unchanged, and whether it is none of the system's."""
    return bool(name) and name.isprintable() and name == name.strip() and not name.startswith(_SYSTEM)


class Gateway:
    """Admits callers by their ID tokens."""

    def __init__(
        self,
        client: KubeClient,
        account: str,
        tokens: IdTokens,
        *,
        user_agent: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`account` is `namespace/name` of the account that impersonates, and `client` may make tokens for it. `now`
        returns Unix time."""
        self._client = client
        self._namespace, self._name = account.split("/")
        self._tokens = tokens
        self._user_agent = user_agent
        self._clock = clock
        self._now = now
        self._own = client.with_headers(self._own_headers, user_agent=user_agent)
        self._token, self._renew_at = "", 0.0
        self._groups: frozenset[str] = frozenset()
        self._groups_until = 0.0
        self._renewing, self._asking = asyncio.Lock(), asyncio.Lock()

    async def admit(self, token: str) -> Admission | None:
        """Return how to act for the bearer of an ID token; None if it is not an accepted ID token."""
        person = await self._tokens.user_of(token)
        if person is None:
            return None
        if not _is_plain(person.name):
            _log.warning("the gateway refuses the user name %r", person.name)
            return None

        async def headers() -> Headers:
            groups = await self._named_groups()
            shown = [("Impersonate-Group", group) for group in person.groups if group in groups]
            return (*await self._own_headers(), ("Impersonate-User", person.name), *shown)

        async def confirm() -> float:
            again = await self._tokens.user_of(token)
            if again is None or again[:2] != person[:2]:
                raise Unauthenticated("your ID token is no longer valid", hint="sign in again: kaji login")
            return self._seconds_left(again)

        return Admission(self._client.with_headers(headers, user_agent=self._user_agent), confirm)

    async def close(self) -> None:
        """End fetches of keys that are under way."""
        await self._own.close()
        await self._tokens.close()

    def _seconds_left(self, person: Person) -> float:
        return max(person.expires - self._now(), 0.0)

    async def _own_headers(self) -> Headers:
        """Return the account's credentials."""
        async with self._renewing:
            if not self._token or self._clock() >= self._renew_at:
                body = {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": TOKEN_SECONDS},
                }
                path = f"{SERVICE_ACCOUNTS.path(self._namespace, self._name)}/token"
                answer = msgspec.json.decode(await self._client.request("POST", path, body=body))
                self._token, self._renew_at = str(answer["status"]["token"]), self._clock() + TOKEN_SECONDS / 2
        return (("Authorization", f"Bearer {self._token}"),)

    async def _named_groups(self) -> frozenset[str]:
        """Return the groups that the account may impersonate."""
        async with self._asking:
            if self._clock() >= self._groups_until:
                review = {
                    "apiVersion": SELF_RULES_REVIEWS.api_version,
                    "kind": SELF_RULES_REVIEWS.kind,
                    "spec": {"namespace": self._namespace},
                }
                answer = await self._own.create(SELF_RULES_REVIEWS, review)
                self._groups = impersonable_groups((answer.get("status") or {}).get("resourceRules") or ())
                self._groups_until = self._clock() + GROUPS_SECONDS
        return self._groups
