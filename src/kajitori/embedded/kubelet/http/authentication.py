"""Authentication and authorization for the kubelet's own API: a client certificate, a token of the settings, or a token
that the API server accepts."""

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

CACHE_SECONDS = 120.0
ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    trusted: bool = False
    """True for the embedded API server's own token, which needs no review."""


class AccessCheck:
    """Authenticates and authorizes each request. Answers of the API server are cached for two minutes."""

    def __init__(self, cluster: Cluster, settings: ServerSettings, node_name: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._node_name = node_name
        self._answers: dict[tuple[str, ...], tuple[float, User | None]] = {}

    async def check(self, request: web.Request, verb: str, subresource: str) -> User:
        """Return the user behind the request, if the user may do this. Raises Unauthenticated or Forbidden."""
        user = await self._authenticate(request)
        if user.trusted or "system:masters" in user.groups:
            return user
        if not await self._is_allowed(user, verb, subresource):
            raise Forbidden(f"{user.name} may not {verb} nodes/{subresource} of {self._node_name}")
        return user

    async def _authenticate(self, request: web.Request) -> User:
        transport = request.transport
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport is not None else None
        certificate = tls.getpeercert() if tls is not None else None
        if certificate:
            subject = [pair for part in _name_parts(certificate.get("subject")) for pair in part]
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
            user = self._cached_user(key)
            if user is None:
                user = await self._review(token)
                self._cache(key, user)
            return user
        raise Unauthenticated("the bearer token is unknown")

    async def _review(self, token: str) -> User:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            answer = await self._cluster.post(resources.TOKEN_REVIEWS.path(), review)
        except KajitoriError as error:
            raise Unauthenticated("the API server did not answer the review of the bearer token") from error
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            raise Unauthenticated("the bearer token is unknown")
        user = status.get("user") or {}
        return User(str(user.get("username", "")), tuple(user.get("groups") or ()))

    async def _is_allowed(self, user: User, verb: str, subresource: str) -> bool:
        key = ("access", user.name, *user.groups, verb, subresource)
        if self._cached_user(key) is not None:
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
            return False  # an API server without reviews uses a token of the settings
        except KajitoriError as error:
            raise Forbidden(f"the API server did not answer whether {user.name} may do this") from error
        allowed = bool((answer.get("status") or {}).get("allowed"))
        if allowed:
            self._cache(key, user)
        return allowed

    def _cached_user(self, key: tuple[str, ...]) -> User | None:
        until, user = self._answers.get(key, (0.0, None))
        return user if time.monotonic() < until else None

    def _cache(self, key: tuple[str, ...], user: User) -> None:
        now = time.monotonic()
        self._answers = {known: entry for known, entry in self._answers.items() if entry[0] > now}
        self._answers[key] = (now + CACHE_SECONDS, user)


def _name_parts(subject: object) -> Iterable[Iterable[tuple[str, str]]]:
    return subject if isinstance(subject, tuple) else ()
