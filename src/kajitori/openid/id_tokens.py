"""Verification of ID tokens (OpenID Connect Core, section 3.1.3.7) and the user of Kubernetes that one describes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from joserfc import jwt
from joserfc.errors import JoseError

from kajitori.openid.authentication_config import JwtAuthenticator
from kajitori.openid.issuer_keys import IssuerKeys, NoKeys
from kajitori.openid.tokens import unverified

ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"]
"""The algorithms that kube-apiserver accepts. None of them uses a shared secret."""
EARLY_SECONDS = 300.0
"""A token is accepted this long before it becomes valid, because clocks differ. go-oidc in kube-apiserver does the
same."""
_SYSTEM = "system:"

_log = logging.getLogger(__name__)


class Person(NamedTuple):
    """The user of Kubernetes that an ID token describes. No name in it begins with `system:`."""

    name: str
    groups: tuple[str, ...]
    expires: float = 0.0
    """When the token expires, in seconds since the epoch."""


class TokenRefused(Exception):
    """An ID token is not accepted; the text says why."""


def claims_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT without verifying them. Raises TokenRefused if it is none."""
    try:
        return unverified(token)
    except ValueError as error:
        raise TokenRefused(f"it is no JWT: {error}") from error


def user_of_claims(wanted: JwtAuthenticator, claims: Mapping[str, Any], now: float) -> Person:
    """Return the user that the claims of a token with a valid signature describe.

    Raises:
        TokenRefused: it is for another audience, expired, too early, or lacks a claim.
    """
    issuer = wanted.issuer
    if claims.get("iss") != issuer.url:
        raise TokenRefused(f"its issuer is {claims.get('iss')!r:.200}")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not any(one in issuer.audiences for one in audiences):
        raise TokenRefused(f"it is for {audiences!r:.200}, not for {', '.join(issuer.audiences)}")
    expires, begins = claims.get("exp"), claims.get("nbf")
    if not isinstance(expires, int | float) or isinstance(expires, bool):
        raise TokenRefused("it has no time of expiry")
    if expires <= now:
        raise TokenRefused(f"it expired {now - expires:.0f} s ago")
    if isinstance(begins, int | float) and begins > now + EARLY_SECONDS:
        raise TokenRefused(f"it is valid from {begins - now:.0f} s on")
    for rule in wanted.claim_validation_rules:
        if claims.get(rule.claim) != rule.required_value:
            raise TokenRefused(f"its claim {rule.claim} is not {rule.required_value!r}")
    return Person(_user_name(wanted, claims), _user_groups(wanted, claims), float(expires))


def _user_name(wanted: JwtAuthenticator, claims: Mapping[str, Any]) -> str:
    mapping = wanted.claim_mappings.username
    value = claims.get(mapping.claim)
    if not isinstance(value, str) or not value:
        raise TokenRefused(f"it has no claim {mapping.claim} to name the user")
    if mapping.claim == "email" and claims.get("email_verified", True) is not True:
        raise TokenRefused("the provider has not verified the e-mail address")
    return _not_system(mapping.prefix + value)


def _user_groups(wanted: JwtAuthenticator, claims: Mapping[str, Any]) -> tuple[str, ...]:
    mapping = wanted.claim_mappings.groups
    value = claims.get(mapping.claim) if mapping is not None else None
    if mapping is None or value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in values):
        raise TokenRefused(f"its claim {mapping.claim} is no list of names")
    return tuple(_not_system(mapping.prefix + one) for one in values)


def _not_system(name: str) -> str:
    """Refuse the names of Kubernetes' own users and groups: with an empty prefix a provider could grant every right."""
    if name.startswith(_SYSTEM):
        raise TokenRefused(f"{name!r:.80} is a name of the system; set a prefix in claimMappings")
    return name


class IdTokens:
    """Verifies the ID tokens of the providers in an AuthenticationConfiguration."""

    def __init__(
        self,
        accepted: Iterable[JwtAuthenticator],
        keys: Callable[[JwtAuthenticator], IssuerKeys] = lambda one: IssuerKeys(one.issuer),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {one.issuer.url: (one, keys(one)) for one in accepted}
        self._clock = clock

    async def user_of(self, token: str) -> Person | None:
        """Return the user of an ID token; None if it is no JWT of these providers, or is refused, which is logged."""
        try:
            header, claims = claims_of(token)
        except TokenRefused:
            return None  # not logged: anyone can send any number of such texts
        found = self._issuers.get(str(claims.get("iss")))
        if found is None:
            return None
        wanted, keys = found
        try:
            key_id = header.get("kid")
            known = await keys.key_set(key_id if isinstance(key_id, str) else None)
            verified = jwt.decode(token, known, algorithms=ALGORITHMS)
            return user_of_claims(wanted, verified.claims, self._clock())
        except (TokenRefused, NoKeys, JoseError, ValueError) as error:
            _log.info("an ID token is refused: %s", error)
            return None

    async def close(self) -> None:
        """Cancel running fetches."""
        for _, keys in self._issuers.values():
            await keys.close()
