"""The file of `--authentication-config`, in the form that kube-apiserver reads (AuthenticationConfiguration).

The same file serves both servers. Expressions (CEL) in it are refused: the embedded server reads claims only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.files import parse_document
from kajitori.core.kubernetes.texts import are_certificates
from kajitori.errors import Fault

_MAX_ISSUERS = 64


class Issuer(Document):
    """An OpenID provider."""

    url: str
    """The `iss` of its tokens. Its description of itself is below this URL."""
    discovery_url: Annotated[str, Field(alias="discoveryURL")] = ""
    """URL of the provider's description of itself, if it is not below `url`."""
    certificate_authority: str = ""
    """The authorities (PEM) that sign its certificate; empty: those of this machine."""
    audiences: Annotated[list[str], Field(min_length=1)]
    """Client IDs. A token must be for one of them."""
    audience_match_policy: Literal["", "MatchAny"] = ""
    """How `audiences` are compared with the token's; with several, `MatchAny` is required."""

    @property
    def description_url(self) -> str:
        """URL of the provider's description of itself (OpenID Connect Discovery, section 4)."""
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


class ClaimRule(Document):
    """A claim that a token must have."""

    claim: str
    required_value: str = ""


class PrefixedClaim(Document):
    """A claim and the text that is put before its value, so that it cannot equal another issuer's or a system name."""

    claim: str
    prefix: str


class ClaimMappings(Document):
    """How claims become a user of Kubernetes."""

    username: PrefixedClaim
    groups: PrefixedClaim | None = None


class JwtAuthenticator(Document):
    """A provider, and how its ID tokens are read."""

    issuer: Issuer
    claim_validation_rules: tuple[ClaimRule, ...] = Field(default=(), strict=False)
    claim_mappings: ClaimMappings


class AuthenticationConfiguration(Document):
    """The whole file."""

    api_version: Literal["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"]
    kind: Literal["AuthenticationConfiguration"]
    jwt: tuple[JwtAuthenticator, ...] = Field(default=(), max_length=_MAX_ISSUERS, strict=False)


def parse_authentication(text: str | bytes) -> AuthenticationConfiguration:
    """Read the file. Raises InvalidInput with all faults at once, each with its path and line."""
    what = "AuthenticationConfiguration"
    return parse_document(AuthenticationConfiguration, text, what, "apiVersion, kind and jwt", _faults_of)


def _faults_of(read: AuthenticationConfiguration, _unread: Collection[str]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, one in enumerate(read.jwt):
        issuer, path = one.issuer, f"jwt[{index}].issuer"
        for field, url in (("url", issuer.url), ("discoveryURL", issuer.discovery_url)):
            if url or field == "url":
                yield from _url_faults(f"{path}.{field}", url)
        if issuer.url in seen:
            yield Fault(f"{path}.url", f"{issuer.url!r:.80} occurs twice", issuer.url, "keep one of them")
        seen.add(issuer.url)
        if len(issuer.audiences) > 1 and not issuer.audience_match_policy:
            yield Fault(f"{path}.audienceMatchPolicy", "several audiences need a policy", "", "write MatchAny")
        if issuer.certificate_authority and not are_certificates(issuer.certificate_authority):
            hint = "paste the file that begins with -----BEGIN CERTIFICATE-----"
            yield Fault(f"{path}.certificateAuthority", "no PEM certificates", "", hint)


def _url_faults(field: str, url: str) -> Iterator[Fault]:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        yield Fault(field, f"{url!r:.80} is not an https URL", url, "such as https://login.example.org")
    elif parts.query or parts.fragment or parts.username:
        yield Fault(field, "a query, a fragment or a user name cannot be part of it", url, "leave it out")
