"""An OpenID provider's description of itself (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kajitori.errors import Unavailable

_CHECK = "ask your cluster's operators: --sign-in-issuer of the server names the provider"


@dataclass(frozen=True, slots=True)
class Provider:
    """The endpoints of a provider; an endpoint that it does not offer is empty."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    device_endpoint: str = ""
    revocation_endpoint: str = ""
    end_session_endpoint: str = ""
    names_itself: bool = False
    """Whether the redirect after sign-in names the issuer (RFC 9207)."""


def description_url(issuer: str) -> str:
    """Return the URL of the provider's description of itself."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def provider_of(document: object, issuer: str) -> Provider:
    """Return the provider in a description.

    Raises:
        Unavailable: it describes another issuer, or names an endpoint without TLS.
    """
    if not isinstance(document, Mapping):
        raise Unavailable(f"{issuer} does not describe itself as an OpenID provider", hint=_CHECK)
    if document.get("issuer") != issuer:
        raise Unavailable(f"{issuer} describes another issuer: {document.get('issuer')!r:.200}", hint=_CHECK)
    return Provider(
        issuer,
        _checked_endpoint(document, "authorization_endpoint", issuer),
        _checked_endpoint(document, "token_endpoint", issuer),
        _checked_endpoint(document, "device_authorization_endpoint", issuer, optional=True),
        _checked_endpoint(document, "revocation_endpoint", issuer, optional=True),
        _checked_endpoint(document, "end_session_endpoint", issuer, optional=True),
        document.get("authorization_response_iss_parameter_supported") is True,
    )


def _checked_endpoint(document: Mapping[str, Any], name: str, issuer: str, *, optional: bool = False) -> str:
    url = document.get(name)
    if url is None and optional:
        return ""
    if not isinstance(url, str) or urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise Unavailable(f"{issuer} names no https address for {name}", hint=_CHECK)
    return url
