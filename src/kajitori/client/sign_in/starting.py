"""Signing in at a server: ask it for its provider, sign in there, keep the tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kajitori.client.sign_in.asking import Asker
from kajitori.client.sign_in.loopback import Loopback
from kajitori.configuration.contexts import SignedIn
from kajitori.errors import InvalidInput, Unavailable
from kajitori.openid.flows import Client, Device, begin_code
from kajitori.openid.tokens import Tokens, expiry_of

BROWSER_SECONDS = 600.0
"""Time that a person may take for the sign-in in the browser."""


@dataclass(frozen=True)
class SignInPlace:
    """The provider where users of a server sign in, from `GET /v1/sign-in`."""

    issuer: str
    client_id: str
    scopes: str
    ca: str
    namespace: str


def place_of(document: Any) -> SignInPlace:
    """Return how to sign in, from a server's answer. Raises Unavailable if the server offers no sign-in."""
    if not isinstance(document, Mapping) or not document.get("issuer"):
        message = "this server offers no sign-in"
        hint = "give it a token of the cluster: kaji login URL --token-stdin; or ask its operators for --sign-in-issuer"
        raise Unavailable(message, hint=hint)
    return SignInPlace(
        issuer=str(document["issuer"]),
        client_id=str(document.get("clientId") or ""),
        scopes=" ".join(map(str, document.get("scopes") or ())),
        ca=str(document.get("certificateAuthority") or ""),
        namespace=str(document.get("namespace") or ""),
    )


def server_url(text: str, *, insecure: bool) -> str:
    """Return the URL of a server from what a person typed: `kaji.example.org` is https.

    Raises:
        InvalidInput: it is none, or tokens would cross the network in plain text.
    """
    url = text if "://" in text else f"https://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or " " in url:
        hint = "for example https://kaji.example.org"
        raise InvalidInput.one("URL", f"{text!r:.80} is not the address of a server", value=text, hint=hint)
    is_here = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
    if parts.scheme == "http" and not is_here and not insecure:
        hint = "write https://…; or, if something else encrypts, add --insecure-http"
        raise InvalidInput.one("URL", "your tokens would cross the network in plain text", value=text, hint=hint)
    return url.rstrip("/")


def context_name(server: str) -> str:
    """Return the name of a server's context: its host, and its port if the URL names one."""
    parts = urlsplit(server)
    host = (parts.hostname or "server").replace(":", "-").strip("-")
    return f"{host}-{parts.port}" if parts.port else host


def has_browser(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a person at this terminal sees a browser that runs on this machine."""
    if environment.get("BROWSER"):
        return True
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def by_browser(ask: Asker, client: Client, show: Callable[[str], None], seconds: float = BROWSER_SECONDS) -> Tokens:
    """Sign in by authorisation code: `show` opens or prints the address, and the browser comes back to this machine."""
    with Loopback() as loopback:
        url, code = begin_code(client, loopback.address)
        show(url)
        return ask.by_code(client, code, loopback.wait(seconds))


def by_device(ask: Asker, client: Client, show: Callable[[Device], None]) -> Tokens:
    """Sign in by a code that the person enters in any browser: `show` prints it."""
    device = ask.device(client)
    show(device)
    return ask.by_device(client, device)


def signed_in_at(server: str, server_ca: str, place: SignInPlace, tokens: Tokens) -> SignedIn:
    """Return the context to store."""
    return SignedIn(
        server,
        place.namespace,
        ca=server_ca,
        issuer=place.issuer,
        issuer_ca=place.ca,
        client_id=place.client_id,
        scopes=place.scopes,
        token=tokens.id_token,
        refresh_token=tokens.refresh_token,
        expires=tokens.expires,
    )


def with_given_token(server: str, server_ca: str, namespace: str, token: str) -> SignedIn:
    """Return the context of a robot, which has a token that is not renewed."""
    return SignedIn(server, namespace, ca=server_ca, token=token, expires=expiry_of(token))
