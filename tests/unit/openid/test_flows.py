"""Requests to an OpenID provider, and the answers that are accepted."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from kajitori.errors import Unauthenticated, Unavailable
from kajitori.openid import flows
from kajitori.openid.flows import Client
from kajitori.openid.provider import provider_of
from kajitori.openid.tokens import Tokens, claims_of, expiry_of

ISSUER = "https://login.example.org"
DESCRIPTION = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "device_authorization_endpoint": f"{ISSUER}/device",
    "authorization_response_iss_parameter_supported": True,
}
CLIENT = Client(provider_of(DESCRIPTION, ISSUER), "kaji", "openid groups")
REDIRECT = "http://127.0.0.1:1234/callback"


def id_token(**claims: Any) -> str:
    said = {"iss": ISSUER, "aud": "kaji", "sub": "alice", "exp": 2_000_000_000, **claims}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip('=')}.c2ln"


def answer(**fields: Any) -> bytes:
    return json.dumps({"token_type": "Bearer", "access_token": "a", **fields}).encode()


def test_a_code_is_requested_with_a_challenge() -> None:
    """The verifier is not sent; state and nonce are new each time."""
    url, code = flows.begin_code(CLIENT, REDIRECT)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    digest = hashlib.sha256(code.verifier.encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
    assert (asked["redirect_uri"], asked["scope"]) == (REDIRECT, "openid groups")
    assert (asked["state"], asked["nonce"]) == (code.state, code.nonce)
    assert code.verifier not in url and code.verifier not in repr(code)
    assert flows.begin_code(CLIENT, REDIRECT)[1].state != code.state


def test_a_code_is_exchanged_with_its_verifier() -> None:
    _, code = flows.begin_code(CLIENT, REDIRECT)
    query = urlencode({"state": code.state, "iss": ISSUER, "code": "c0de"})
    form = {name: values[0] for name, values in parse_qs(flows.code_form(CLIENT, code, query)).items()}
    assert form == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": REDIRECT,
        "code_verifier": code.verifier,
        "client_id": "kaji",
    }
    got = flows.tokens_of_code(CLIENT, code, answer(id_token=id_token(nonce=code.nonce), refresh_token="r"))
    assert (claims_of(got.id_token)["sub"], got.refresh_token, got.expires) == ("alice", "r", 2_000_000_000)
    assert "r'" not in repr(got)


@pytest.mark.parametrize(
    ("came", "why"),
    [
        ({"state": "other", "iss": ISSUER, "code": "c"}, "another sign-in"),
        ({"iss": ISSUER, "code": "c"}, "another sign-in"),
        ({"state": "", "iss": "https://evil.example.org", "code": "c"}, "another provider"),
        ({"state": "", "code": "c"}, "another provider"),
        ({"state": "", "iss": ISSUER, "error": "access_denied"}, "was refused"),
    ],
)
def test_a_browser_that_returns_with_a_wrong_answer_is_refused(came: dict[str, str], why: str) -> None:
    """From another sign-in (forged), from another provider (mix-up, RFC 9207), or with a refusal."""
    _, code = flows.begin_code(CLIENT, REDIRECT)
    query = urlencode({name: code.state if (name, value) == ("state", "") else value for name, value in came.items()})
    with pytest.raises(Unauthenticated, match=why):
        flows.code_form(CLIENT, code, query)


@pytest.mark.parametrize("claims", [{"nonce": "other"}, {"aud": "other"}, {"iss": "https://evil.example.org"}])
def test_a_token_of_another_sign_in_is_refused(claims: dict[str, str]) -> None:
    _, code = flows.begin_code(CLIENT, REDIRECT)
    with pytest.raises(Unauthenticated):
        flows.tokens_of_code(CLIENT, code, answer(id_token=id_token(**{"nonce": code.nonce, **claims})))


def test_refreshing_keeps_the_refresh_token_if_none_is_sent() -> None:
    before = Tokens(id_token(), "first")
    assert "refresh_token=first" in flows.refresh_form(CLIENT, before)
    assert flows.refreshed(CLIENT, before, answer(id_token=id_token())).refresh_token == "first"
    assert flows.refreshed(CLIENT, before, answer(id_token=id_token(), refresh_token="next")).refresh_token == "next"
    with pytest.raises(Unauthenticated, match="revoked or was used elsewhere"):
        flows.refreshed(CLIENT, before, b'{"error": "invalid_grant"}')


def test_a_device_waits_until_its_code_is_entered() -> None:
    """It asks less often when the provider says so."""
    made = {"device_code": "d", "user_code": "AB-CD", "verification_uri": f"{ISSUER}/d", "expires_in": 300}
    device = flows.device_of(json.dumps(made).encode())
    assert (device.user_code, device.interval_seconds) == ("AB-CD", 5.0)
    assert "device_code=d" in flows.device_token_form(CLIENT, device)
    assert flows.tokens_of_device(CLIENT, b'{"error": "authorization_pending"}') == 0.0
    assert flows.tokens_of_device(CLIENT, b'{"error": "slow_down"}') == 5.0
    assert isinstance(flows.tokens_of_device(CLIENT, answer(id_token=id_token())), Tokens)
    with pytest.raises(Unauthenticated, match="in time"):
        flows.tokens_of_device(CLIENT, b'{"error": "expired_token"}')


@pytest.mark.parametrize("broken", [b"", b"<html>", b"[]", b'{"id_token": 7}', b'{"access_token": "a"}'])
def test_an_answer_without_tokens_names_the_way_out(broken: bytes) -> None:
    with pytest.raises((Unauthenticated, Unavailable)) as refused:
        flows.refreshed(CLIENT, Tokens("x", "y"), broken)
    assert refused.value.hint


@pytest.mark.parametrize(
    "other",
    [
        {"issuer": "https://evil.example.org"},
        {"token_endpoint": "http://login.example.org/token"},
        {"authorization_endpoint": None},
        {"revocation_endpoint": "ftp://x"},
    ],
)
def test_a_provider_must_describe_itself_with_tls(other: dict[str, Any]) -> None:
    with pytest.raises(Unavailable):
        provider_of({**DESCRIPTION, **other}, ISSUER)


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "e30.WzFd.x", "e30.eyJleHAiOnRydWV9.x"])
def test_a_text_that_is_no_token_has_no_expiry(token: str) -> None:
    assert expiry_of(token) == 0.0
