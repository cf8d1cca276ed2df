"""ID tokens: which are accepted, and which keys are fetched."""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from kajitori.openid.authentication_config import Issuer, JwtAuthenticator
from kajitori.openid.id_tokens import IdTokens, TokenRefused, claims_of, user_of_claims
from kajitori.openid.issuer_keys import LONGEST_PAUSE_SECONDS, MAX_AGE_SECONDS, IssuerKeys, NoKeys
from kajitori.openid.tokens import expiry_of

ISSUER = "https://login.example.org"
NOW = 1_000_000.0
CLAIMS = {"iss": ISSUER, "aud": "kaji", "sub": "alice", "groups": ["vision"], "exp": NOW + 60}
FIRST, SECOND = (ECKey.generate_key("P-256", parameters={"kid": name}) for name in ("first", "second"))


def accepted(prefix: str = "oidc:", **more: Any) -> JwtAuthenticator:
    mappings = {"username": {"claim": "sub", "prefix": prefix}, "groups": {"claim": "groups", "prefix": prefix}}
    issuer = {"url": ISSUER, "audiences": ["kaji"]}
    return JwtAuthenticator.model_validate({"issuer": issuer, "claimMappings": mappings, **more})


class Provider:
    """A provider's keys, and how often they were fetched."""

    def __init__(self, *keys: ECKey) -> None:
        self.keys = keys
        self.fetches = 0
        self.is_down = False
        self.now = 0.0

    async def fetch(self, issuer: Issuer) -> KeySet:
        self.fetches += 1
        if self.is_down:
            raise NoKeys("it does not answer")
        return KeySet(list(self.keys))

    def tokens(self) -> IdTokens:
        return IdTokens(
            [accepted()], lambda one: IssuerKeys(one.issuer, self.fetch, lambda: self.now), clock=lambda: NOW
        )


def signed(claims: Mapping[str, Any], key: ECKey = FIRST) -> str:
    return jwt.encode({"alg": "ES256", "kid": key.kid}, dict(claims), key)


def test_claims_become_a_user() -> None:
    """Prefixes keep the names of one provider apart from others."""
    user = user_of_claims(accepted(), CLAIMS, NOW)
    assert (user.name, user.groups) == ("oidc:alice", ("oidc:vision",))
    assert user_of_claims(accepted(), {**CLAIMS, "groups": "one"}, NOW).groups[0] == "oidc:one"
    assert user_of_claims(accepted(), {**CLAIMS, "aud": ["other", "kaji"]}, NOW).name == "oidc:alice"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://evil.example.org"}, "issuer"),
        ({"aud": "another"}, "not for kaji"),
        ({"aud": None}, "not for kaji"),
        ({"exp": NOW}, "expired 0 s ago"),
        ({"exp": None}, "no time of expiry"),
        ({"exp": True}, "no time of expiry"),
        ({"nbf": NOW + 301}, "valid from 301 s on"),
        ({"sub": ""}, "no claim sub"),
        ({"sub": 7}, "no claim sub"),
        ({"groups": [1]}, "no list of names"),
    ],
)
def test_other_claims_are_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        user_of_claims(accepted(), {**CLAIMS, **claims}, NOW)


@pytest.mark.parametrize("claims", [{"sub": "system:admin"}, {"groups": ["system:masters"]}])
def test_without_a_prefix_system_names_are_refused(claims: dict[str, Any]) -> None:
    """A provider must not be able to make a user an administrator of the cluster."""
    with pytest.raises(TokenRefused, match="prefix"):
        user_of_claims(accepted(prefix=""), {**CLAIMS, **claims}, NOW)


def test_a_required_claim_and_a_verified_address() -> None:
    rule = accepted(claimValidationRules=[{"claim": "hd", "requiredValue": "example.org"}])
    assert user_of_claims(rule, {**CLAIMS, "hd": "example.org"}, NOW).name == "oidc:alice"
    with pytest.raises(TokenRefused, match="hd"):
        user_of_claims(rule, CLAIMS, NOW)
    address = accepted(claimMappings={"username": {"claim": "email", "prefix": ""}})
    with pytest.raises(TokenRefused, match="not verified"):
        user_of_claims(address, {**CLAIMS, "email": "a@example.org", "email_verified": False}, NOW)


async def test_only_the_providers_signature_counts() -> None:
    """A signature with another key is refused, and so is none, or one that uses the public key as a shared secret."""
    tokens = Provider(FIRST).tokens()
    user = await tokens.user_of(signed(CLAIMS))
    assert user is not None and user.name == "oidc:alice"
    forged = ECKey.generate_key("P-256", parameters={"kid": "first"})
    assert await tokens.user_of(signed(CLAIMS, forged)) is None
    unsigned = signed(CLAIMS).split(".")
    none = "eyJhbGciOiJub25lIiwia2lkIjoiZmlyc3QifQ"  # {"alg":"none","kid":"first"}
    assert await tokens.user_of(f"{none}.{unsigned[1]}.") is None
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').decode().rstrip("=")
    mac = hmac.digest(FIRST.as_pem(private=False), f"{head}.{unsigned[1]}".encode(), "sha256")
    assert await tokens.user_of(f"{head}.{unsigned[1]}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}") is None
    for no_token in ("", "a.b", "a.b.c", "e30.e30.e30", "W10.W10.x"):
        assert await tokens.user_of(no_token) is None


async def test_only_tokens_of_its_providers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Strangers cannot fill the log with other texts."""
    caplog.set_level(logging.DEBUG)
    tokens = Provider(FIRST).tokens()
    for text in ("s3cr3t", "a.b.c", signed({**CLAIMS, "iss": "https://another.example.org"})):
        assert await tokens.user_of(text) is None
    assert not caplog.records
    assert await tokens.user_of(signed({**CLAIMS, "exp": NOW})) is None
    assert "expired" in caplog.text


async def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    """Invented key IDs do not cause a request each."""
    provider = Provider(FIRST)
    tokens = provider.tokens()
    assert await tokens.user_of(signed(CLAIMS)) is not None
    provider.keys = (FIRST, SECOND)
    provider.now += 2
    assert await tokens.user_of(signed(CLAIMS, SECOND)) is not None
    assert provider.fetches == 2
    for _ in range(5):
        other = ECKey.generate_key("P-256", parameters={"kid": "invented"})
        assert await tokens.user_of(signed(CLAIMS, other)) is None
    assert provider.fetches == 2


async def test_keys_are_used_while_the_provider_is_unavailable() -> None:
    """It is asked again after a growing pause; without any key, its tokens are refused at once."""
    provider = Provider(FIRST)
    provider.is_down = True
    tokens = provider.tokens()
    for _ in range(3):
        assert await tokens.user_of(signed(CLAIMS)) is None
    assert provider.fetches == 1
    provider.is_down = False
    provider.now += 2
    assert await tokens.user_of(signed(CLAIMS)) is not None
    provider.is_down = True
    provider.now += MAX_AGE_SECONDS + 1
    for _ in range(3):
        assert await tokens.user_of(signed(CLAIMS)) is not None
    assert provider.fetches == 3
    for _ in range(20):
        provider.now += LONGEST_PAUSE_SECONDS * 1.3
        assert await tokens.user_of(signed(CLAIMS)) is not None
    assert provider.fetches == 23


@pytest.mark.parametrize("claims", [b"[]", b"{", b"\xff", b"[" * 100_000], ids=["list", "broken", "bytes", "deep"])
async def test_a_text_with_other_contents_is_refused_as_no_jwt(claims: bytes) -> None:
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", claims, b""))
    with pytest.raises(TokenRefused, match="no JWT"):
        claims_of(token)
    assert expiry_of(token) == 0.0
