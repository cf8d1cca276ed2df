"""Who may use the kubelet's own API: a client certificate, a token that is known here, or one that the API server
knows.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.settings import ServerSettings
from kajitori.errors import Forbidden, KajitoriError, NotFound, Unauthenticated, Unsupported
from kajitori.kube import resources

REMEMBERED_SECONDS = 120.0
ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    trusted: bool = False
    """Known here: the embedded API server's own token. Needs no review."""


class Gate:
    """Decides about each request; what the API server said is remembered for two minutes."""

    def __init__(self, cluster: Cluster, settings: ServerSettings, node_name: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._node_name = node_name
        self._remembered: dict[tuple[str, ...], tuple[float, User | None]] = {}

    async def check(self, request: web.Request, verb: str, subresource: str) -> User:
        """The user behind the request, who may do this. Raises Unauthenticated or Forbidden."""
        user = await self._authenticate(request)
        if user.trusted or "system:masters" in user.groups:
            return user
        if not await self._may(user, verb, subresource):
            raise Forbidden(f"{user.name} may not {verb} nodes/{subresource} of {self._node_name}")
        return user

    async def _authenticate(self, request: web.Request) -> User:
        transport = request.transport
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport is not None else None
        certificate = tls.getpeercert() if tls is not None else None
        if certificate:
            subject = [pair for part in _parts(certificate.get("subject")) for pair in part]
            name = next((value for field, value in subject if field == "commonName"), "")
            groups = tuple(value for field, value in subject if field == "organizationName")
            return User(name, groups)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("the kubelet's API needs a client certificate or a bearer token")
        if any(hmac.compare_digest(token.encode(), known.encode()) for known in self._settings.bearer_tokens):
            return User("kajitori:api-server", trusted=True)
        if self._settings.token_review:
            key = ("token", hashlib.sha256(token.encode()).hexdigest())
            user = self._recall(key)
            if user is None:
                user = await self._review(token)
                self._remember(key, user)
            return user
        raise Unauthenticated("the bearer token is not known")

    async def _review(self, token: str) -> User:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            answer = await self._cluster.post(resources.TOKEN_REVIEWS.path(), review)
        except KajitoriError as error:
            raise Unauthenticated("the API server could not be asked about the bearer token") from error
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            raise Unauthenticated("the bearer token is not known")
        user = status.get("user") or {}
        return User(str(user.get("username", "")), tuple(user.get("groups") or ()))

    async def _may(self, user: User, verb: str, subresource: str) -> bool:
        key = ("access", user.name, *user.groups, verb, subresource)
        if self._recall(key) is not None:
            return True
        spec: Mapping[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            "resourceAttributes": {
                "verb": verb,
                "resource": "nodes",
                "subresource": subresource,
                "name": self._node_name,
            },
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            answer = await self._cluster.post(ACCESS_REVIEWS_PATH, review)
        except (NotFound, Unsupported):
            return False  # an API server that knows no reviews uses a token that is known here
        except KajitoriError as error:
            raise Forbidden(f"the API server could not be asked what {user.name} may do") from error
        allowed = bool((answer.get("status") or {}).get("allowed"))
        if allowed:
            self._remember(key, user)
        return allowed

    def _recall(self, key: tuple[str, ...]) -> User | None:
        until, user = self._remembered.get(key, (0.0, None))
        return user if time.monotonic() < until else None

    def _remember(self, key: tuple[str, ...], user: User) -> None:
        now = time.monotonic()
        self._remembered = {known: entry for known, entry in self._remembered.items() if entry[0] > now}
        self._remembered[key] = (now + REMEMBERED_SECONDS, user)


def _parts(subject: object) -> Iterable[Iterable[tuple[str, str]]]:
    return subject if isinstance(subject, tuple) else ()
