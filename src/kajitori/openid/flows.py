"""The ways to sign in: authorisation code with PKCE (RFC 6749, 7636), device flow (RFC 8628), and refreshing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

from oauthlib.oauth2 import DeviceClient, WebApplicationClient

from kajitori.errors import KajitoriError, Unauthenticated, Unavailable
from kajitori.openid.provider import Provider
from kajitori.openid.tokens import AGAIN, Tokens, checked, tokens_of

FORM = "application/x-www-form-urlencoded"
_VERIFIER_LENGTH = 64
_MIN_POLL_SECONDS = 1.0
_SLOWER_SECONDS = 5.0
"""Seconds that the answer `slow_down` adds to the interval (RFC 8628, 3.5)."""


@dataclass(frozen=True, slots=True)
class Client:
    """This client, as it is registered at the provider."""

    provider: Provider
    client_id: str
    scopes: str
    secret: str = field(default="", repr=False)

    @property
    def credentials(self) -> dict[str, str]:
        """The fields by which a form names the client."""
        return {"client_id": self.client_id} | ({"client_secret": self.secret} if self.secret else {})


@dataclass(frozen=True, slots=True)
class Code:
    """A sign-in that waits for the browser to come back with a code."""

    state: str
    nonce: str
    redirect: str
    verifier: str = field(repr=False)


def begin_code(client: Client, redirect: str) -> tuple[str, Code]:
    """Return the address to open in a browser, and the state to keep until the browser returns to `redirect`."""
    flow = WebApplicationClient(client.client_id)
    verifier = flow.create_code_verifier(_VERIFIER_LENGTH)
    code = Code(secrets.token_urlsafe(24), secrets.token_urlsafe(24), redirect, verifier)
    url = flow.prepare_request_uri(
        client.provider.authorization_endpoint,
        redirect_uri=redirect,
        scope=client.scopes,
        state=code.state,
        nonce=code.nonce,
        code_challenge=flow.create_code_challenge(verifier, "S256"),
        code_challenge_method="S256",
    )
    return str(url), code


def code_form(client: Client, code: Code, query: str) -> str:
    """Return the form that exchanges a code for tokens, from the query with which the browser came back.

    Raises:
        Unauthenticated: the provider refused, or the query belongs to another sign-in or comes from another provider.
    """
    given = {name: values[0] for name, values in parse_qs(query).items()}
    if not secrets.compare_digest(given.get("state", ""), code.state):
        raise Unauthenticated("the browser came back from another sign-in", hint=AGAIN)
    sender = given.get("iss")
    if (client.provider.names_itself or sender is not None) and sender != client.provider.issuer:
        raise Unauthenticated(f"the browser came back from another provider: {sender!r:.200}", hint=AGAIN)
    if "error" in given:
        raise refusal(given["error"], given.get("error_description", ""))
    flow = WebApplicationClient(client.client_id)
    return str(
        flow.prepare_request_body(
            code=given.get("code", ""),
            redirect_uri=code.redirect,
            code_verifier=code.verifier,
            include_client_id=True,
            **({"client_secret": client.secret} if client.secret else {}),
        )
    )


def tokens_of_code(client: Client, code: Code, answer: bytes) -> Tokens:
    """Return the tokens in the answer to `code_form`. Raises Unauthenticated if there are none."""
    found = tokens_of(read_answer(answer))
    return checked(found, issuer=client.provider.issuer, client_id=client.client_id, nonce=code.nonce)


def refresh_form(client: Client, tokens: Tokens) -> str:
    """Return the form that exchanges a refresh token for new tokens."""
    flow = WebApplicationClient(client.client_id)
    return str(flow.prepare_refresh_body(refresh_token=tokens.refresh_token, **client.credentials))


def refreshed(client: Client, tokens: Tokens, answer: bytes) -> Tokens:
    """Return the tokens in the answer to `refresh_form`. Raises Unauthenticated if there are none."""
    found = tokens_of(read_answer(answer), before=tokens)
    return checked(found, issuer=client.provider.issuer, client_id=client.client_id)


def revocation_form(client: Client, token: str) -> str:
    """Return the form that revokes a refresh token (RFC 7009)."""
    return urlencode({"token": token, "token_type_hint": "refresh_token", **client.credentials})


# ---------------------------------------------------------------------------------------------- device flow


@dataclass(frozen=True, slots=True)
class Device:
    """A sign-in that waits until the user has entered a code in any browser."""

    user_code: str
    address: str
    complete_address: str
    """With the code in it; empty if the provider has none."""
    lasts_seconds: float
    interval_seconds: float
    device_code: str = field(repr=False)


def device_form(client: Client) -> str:
    """Return the form that asks for a device's code."""
    return urlencode({"scope": client.scopes, **client.credentials})


def device_of(answer: bytes) -> Device:
    """Return the code that the provider made. Raises Unauthenticated if it made none."""
    found = read_answer(answer)
    try:
        return Device(
            str(found["user_code"]),
            str(found.get("verification_uri") or found["verification_url"]),
            str(found.get("verification_uri_complete") or ""),
            float(found.get("expires_in", 300)),
            max(float(found.get("interval", 5)), _MIN_POLL_SECONDS),
            str(found["device_code"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(
            "the OpenID provider made no code for this device", hint="try kaji login without --device"
        ) from error


def device_token_form(client: Client, device: Device) -> str:
    """Return the form that asks whether the user has entered the code."""
    flow = DeviceClient(client.client_id)
    body = flow.prepare_request_body(device.device_code, include_client_id=True)
    return str(body) + (f"&{urlencode({'client_secret': client.secret})}" if client.secret else "")


def tokens_of_device(client: Client, answer: bytes) -> Tokens | float:
    """Return the tokens in the answer to `device_token_form`. While the user has not finished, return instead the
    number of seconds by which to lengthen the interval between questions.

    Raises:
        Unauthenticated: the user refused, or took too long.
    """
    error = _error_of(answer)
    if error == "authorization_pending":
        return 0.0
    if error == "slow_down":
        return _SLOWER_SECONDS
    found = tokens_of(read_answer(answer))
    return checked(found, issuer=client.provider.issuer, client_id=client.client_id)


# ---------------------------------------------------------------------------------------------- answers


def read_answer(answer: bytes) -> Mapping[str, Any]:
    """Return a provider's answer.

    Raises:
        Unauthenticated: it is a refusal.
        Unavailable: it is not the answer of a provider.
    """
    try:
        found = json.loads(answer)
    except ValueError as error:
        raise Unavailable("the OpenID provider did not answer with JSON", hint="try again") from error
    if not isinstance(found, Mapping):
        raise Unavailable("the OpenID provider did not answer with an object", hint="try again")
    if found.get("error"):
        raise refusal(str(found["error"]), str(found.get("error_description") or ""))
    return found


def _error_of(answer: bytes) -> str:
    try:
        found = json.loads(answer)
    except ValueError:
        return ""
    return str(found.get("error") or "") if isinstance(found, Mapping) else ""


_REFUSALS = {
    "access_denied": ("the sign-in was refused", AGAIN),
    "expired_token": ("nobody entered the code in time", AGAIN),
    "invalid_grant": ("the sign-in has ended: it expired, was revoked or was used elsewhere", AGAIN),
    "invalid_client": ("the OpenID provider does not know this client", "ask your cluster's operators"),
    "unauthorized_client": ("the OpenID provider does not permit this way to sign in", "ask your cluster's operators"),
}


def refusal(error: str, description: str) -> KajitoriError:
    """Return the error for a provider's refusal (RFC 6749, 5.2; RFC 8628, 3.5)."""
    message, hint = _REFUSALS.get(error, (f"the OpenID provider refused: {error:.80}", AGAIN))
    return Unauthenticated(f"{message} ({description:.200})" if description else message, hint=hint)
