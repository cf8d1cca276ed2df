"""Authentication and authorization.

Every known user may do everything: the embedded cluster belongs to the user who runs it. If people sign in at a
provider (`--authentication-config`), roles decide instead: `access/roles.py`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kajitori.embedded.apiserver.schemas.schema import Object

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
_PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Paths that anonymous users may read (system:public-info-viewer)."""


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the user as authentication.k8s.io/v1 UserInfo."""
        shown: dict[str, Any] = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {name: list(values) for name, values in self.extra.items()}
        return shown


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
ADMINISTRATOR = User("admin", (MASTERS,))


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a request that authorization decides on."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """The path of a request that is not about a resource (/version, /openapi/v3)."""


class SignedTokens(Protocol):
    """Verifies tokens that carry their own proof."""

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None."""

    async def close(self) -> None:
        """Cancel running verifications."""


class Authorizer(Protocol):
    """Decides what users may do."""

    def refusal(self, user: User, attributes: Attributes) -> str:
        """Return an empty text if the user may do this, else the reason for a 403."""

    def rules_review(self, user: User, namespace: str) -> dict[str, Any]:
        """Return the status of a SelfSubjectRulesReview."""


class Authenticator:
    """Authenticates bearer tokens and client certificates.

    Only digests of tokens are kept. They are compared in constant time.
    """

    def __init__(self, tokens: Mapping[str, User] | None = None, signed: Iterable[SignedTokens] = ()) -> None:
        self._users: dict[bytes, User] = {}
        self._signed = list(signed)
        for token, user in (tokens or {}).items():
            self.add_token(token, user)

    def add_token(self, token: str, user: User = ADMINISTRATOR) -> None:
        """Register a token of a user.

        Raises:
            ValueError: the token is empty.
        """
        if not token:
            raise ValueError("a token must not be empty")
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        self._users[_token_digest(token)] = User(user.name, groups, user.uid, user.extra)

    def user_of_token(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        given = _token_digest(token)
        found: User | None = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, given):
                found = user
        return found

    def add_signed(self, tokens: SignedTokens) -> None:
        """Accept these signed tokens, too."""
        self._signed.append(tokens)

    async def find_user(self, token: str) -> User | None:
        """Return the user of a known or a signed token, or None."""
        user = self.user_of_token(token)
        for one in self._signed:
            user = user or await one.user_of(token)
        return user

    async def identify(self, authorization: str, peer_certificate: Mapping[str, Any] | None) -> User | None:
        """Return the user like `authenticate`, but accept signed tokens as well."""
        user = self.authenticate(authorization, peer_certificate)
        if user is None and self._signed:
            return await self.find_user(authorization.partition(" ")[2].strip())
        return user

    async def close(self) -> None:
        """Cancel running verifications of signed tokens."""
        for one in self._signed:
            await one.close()

    def authenticate(self, authorization: str = "", peer_certificate: Mapping[str, Any] | None = None) -> User | None:
        """Return the user of an `Authorization` header or of a verified client certificate (in the form of
        `getpeercert()`).

        Returns ANONYMOUS if there are no credentials, and None if they are wrong (401).
        """
        if peer_certificate:
            user = _user_of_certificate(peer_certificate)
            if user is not None:
                return user
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        return self.user_of_token(token.strip())


def _token_digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """Return the user of a certificate: the common name is the user name, the organizations are the groups."""
    name, groups = "", []
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None


class AllowKnown:
    """Allows everything to authenticated users, and only the server's health to all others."""

    def refusal(self, user: User, attributes: Attributes) -> str:
        return authorize(user, attributes)

    def rules_review(self, user: User, namespace: str) -> dict[str, Any]:
        return _rules_status(user)


def authorize(user: User, attributes: Attributes) -> str:
    """Return an empty text if the user is known or the path is public, else the reason for a 403."""
    if user.name != ANONYMOUS.name or AUTHENTICATED in user.groups:
        return ""
    if attributes.path in _PUBLIC_PATHS or attributes.path.startswith(("/healthz/", "/livez/", "/readyz/")):
        return ""
    return denial(user, attributes)


def denial(user: User, attributes: Attributes) -> str:
    """Return the reason for a 403, in the words of kube-apiserver."""
    if attributes.path:
        return f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    scope = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {attributes.verb} resource "{resource}" in API group "{attributes.group}" {scope}'
    )


async def review(
    kind: str, obj: Object, user: User, authenticator: Authenticator, authorizer: Authorizer | None = None
) -> Object:
    """Return the answer to a TokenReview, SelfSubjectReview, SelfSubjectAccessReview, SubjectAccessReview,
    LocalSubjectAccessReview or SelfSubjectRulesReview."""
    authorizer = authorizer or AllowKnown()
    answer: Object = {**obj, "metadata": obj.get("metadata") or {}}
    spec = obj.get("spec") or {}
    if kind == "SelfSubjectReview":
        answer["status"] = {"userInfo": user.as_dict()}
    elif kind == "TokenReview":
        answer["status"] = await _token_status(spec, authenticator)
        # The token itself is not sent back.
        answer["spec"] = {name: value for name, value in spec.items() if name != "token"}
    elif kind == "SelfSubjectAccessReview":
        answer["status"] = _access_status(user, spec, authorizer)
    elif kind in ("SubjectAccessReview", "LocalSubjectAccessReview"):
        groups = tuple(spec.get("groups") or ())
        subject = User(spec.get("user", ""), groups, spec.get("uid", ""))
        known = bool(subject.name or groups) and ANONYMOUS.groups[0] not in groups
        answer["status"] = _access_status(subject if known else ANONYMOUS, spec, authorizer)
    elif kind == "SelfSubjectRulesReview":
        answer["status"] = authorizer.rules_review(user, spec.get("namespace", ""))
    return answer


async def _token_status(spec: Mapping[str, Any], authenticator: Authenticator) -> dict[str, Any]:
    user = await authenticator.find_user(spec.get("token", ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    status: dict[str, Any] = {"authenticated": True, "user": user.as_dict()}
    if spec.get("audiences"):
        status["audiences"] = list(spec["audiences"])
    return status


def _access_status(user: User, spec: Mapping[str, Any], authorizer: Authorizer) -> dict[str, Any]:
    resource, other = spec.get("resourceAttributes") or {}, spec.get("nonResourceAttributes") or {}
    if other:
        attributes = Attributes(other.get("verb", ""), path=other.get("path", ""))
    else:
        names = ("group", "version", "resource", "subresource", "namespace", "name")
        attributes = Attributes(resource.get("verb", ""), **{name: resource.get(name, "") for name in names})
    refusal = authorizer.refusal(user, attributes)
    return {"allowed": False, "reason": refusal} if refusal else {"allowed": True}


def _rules_status(user: User) -> dict[str, Any]:
    if user.name == ANONYMOUS.name:
        paths = [{"verbs": ["get"], "nonResourceURLs": sorted(_PUBLIC_PATHS)}]
        return {"resourceRules": [], "nonResourceRules": paths, "incomplete": False}
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def faults_of(kind: str, obj: Object) -> Iterable[str]:
    """Return the faults of a review's spec."""
    spec = obj.get("spec") or {}
    if kind.endswith("AccessReview"):
        given = [name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name) is not None]
        if len(given) == 2:
            yield "cannot be specified in combination with resourceAttributes"
        elif not given:
            yield "exactly one of nonResourceAttributes or resourceAttributes must be specified"
