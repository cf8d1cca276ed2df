"""Cookies that only this server can read: encrypted (JWE, AES-256-GCM), in parts of a size that browsers take."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from http.cookies import SimpleCookie
from typing import Any

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

PART_BYTES = 3_600
"""Browsers take 4,096 bytes for name, value and attributes."""
MAX_PARTS = 5
_HEAD = {"alg": "dir", "enc": "A256GCM"}


class TooLong(Exception):
    """The content does not fit into the parts."""


class Seal:
    """Encrypts documents into cookies of one name."""

    def __init__(self, secret: bytes, name: str) -> None:
        """`secret`: random bytes. The key is derived from them and from the cookie's name, so no cookie passes for
        another one."""
        self._key = OctKey.import_key(hmac.digest(secret, f"kajitori cookie {name}".encode(), hashlib.sha256))

    def close(self, document: Mapping[str, Any]) -> str:
        """Return the document in encrypted form."""
        return jwe.encrypt_compact(_HEAD, json.dumps(document).encode(), self._key)

    def open(self, text: str) -> dict[str, Any] | None:
        """Return the document; None if the text was not made by this seal, or was changed."""
        try:
            document = json.loads(jwe.decrypt_compact(text, self._key, algorithms=["dir", "A256GCM"]).plaintext or b"")
        except (JoseError, ValueError):
            return None
        return document if isinstance(document, dict) else None


def read_parts(cookies: Mapping[str, str], name: str) -> str:
    """Return the text in the cookies `name-0`, `name-1` and so on; empty if there are none."""
    parts = []
    for index in range(MAX_PARTS):
        part = cookies.get(f"{name}-{index}")
        if part is None:
            break
        parts.append(part)
    return "".join(parts)


def in_parts(name: str, text: str, seconds: int) -> Iterator[str]:
    """Yield the `Set-Cookie` headers that store a text, and remove parts that it does not need.

    Raises:
        TooLong: it needs more than MAX_PARTS.
    """
    parts = [text[begin : begin + PART_BYTES] for begin in range(0, len(text), PART_BYTES)]
    if len(parts) > MAX_PARTS:
        raise TooLong
    for index in range(MAX_PARTS):
        wanted = index < len(parts)
        yield set_cookie(f"{name}-{index}", parts[index] if wanted else "", seconds if wanted else 0)


def set_cookie(name: str, value: str, seconds: int) -> str:
    """Return a `Set-Cookie` header: sent to this host alone, over TLS (or loopback), and not shown to scripts."""
    cookie: SimpleCookie = SimpleCookie()
    cookie[name] = value
    morsel = cookie[name]
    morsel["path"], morsel["max-age"], morsel["samesite"] = "/", seconds, "Lax"
    morsel["httponly"] = morsel["secure"] = True
    return morsel.OutputString()
