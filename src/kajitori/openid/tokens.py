"""The tokens of a person who signed in."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kajitori.errors import Unauthenticated

AGAIN = "sign in again: kaji login"


@dataclass(frozen=True, slots=True)
class Tokens:
    """An ID token, and a refresh token with which the next one is fetched; empty if the provider gave none."""

    id_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)

    @property
    def expires(self) -> float:
        """When the ID token expires, in seconds since the epoch; 0 if it does not say."""
        return expiry_of(self.id_token)


def unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT without verifying its signature. Raises ValueError if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it does not have three parts")
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ValueError("header and claims have to be objects")
    return header, claims


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token; empty if it is no JWT. The API server verifies them; the client only reads them."""
    try:
        return unverified(token)[1]
    except ValueError:
        return {}


def expiry_of(token: str) -> float:
    """Return when a token expires, in seconds since the epoch; 0 if it does not say."""
    expires = claims_of(token).get("exp")
    return float(expires) if isinstance(expires, int | float) and not isinstance(expires, bool) else 0.0


def checked(tokens: Tokens, *, issuer: str, client_id: str, nonce: str = "") -> Tokens:
    """Return the tokens if the ID token is the provider's, for this client, and of this sign-in (OpenID Connect Core
    3.1.3.7). It came over TLS from the provider itself, so its signature is not verified here.

    Raises:
        Unauthenticated: it is not.
    """
    claims = claims_of(tokens.id_token)
    audience = claims.get("aud")
    if claims.get("iss") != issuer or client_id not in (audience if isinstance(audience, list) else [audience]):
        raise Unauthenticated(f"{issuer} sent a token that is not for this client", hint=AGAIN)
    if nonce and claims.get("nonce") != nonce:
        raise Unauthenticated(f"{issuer} sent a token of another sign-in", hint=AGAIN)
    return tokens


def tokens_of(answer: Mapping[str, Any], *, before: Tokens | None = None) -> Tokens:
    """Return the tokens in an answer of the token endpoint. After a refresh, tokens that are not sent again stay valid.

    Raises:
        Unauthenticated: it holds no ID token.
    """
    id_token, refresh_token = answer.get("id_token"), answer.get("refresh_token")
    if not isinstance(id_token, str) or not id_token:
        hint = "ask your cluster's operators: --sign-in-scopes must contain openid"
        raise Unauthenticated("the OpenID provider sent no ID token", hint=hint)
    if not isinstance(refresh_token, str):
        refresh_token = before.refresh_token if before is not None else ""
    return Tokens(id_token, refresh_token)
