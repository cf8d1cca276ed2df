"""Signed webhooks, as standardwebhooks.com describes them: the receiver can check who sent a request, and when.

The headers are `webhook-id` (the same for every try), `webhook-timestamp` (seconds since the epoch) and
`webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. The key stands behind `whsec_`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

KEY_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
"""Age from which a receiver should refuse a request, because it may be a recorded one."""


def new_key() -> str:
    """Return a random key."""
    return KEY_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def is_key(text: str) -> bool:
    """Whether the text is a key of at least 24 bytes."""
    try:
        return text.startswith(KEY_PREFIX) and len(base64.b64decode(text[len(KEY_PREFIX) :], validate=True)) >= 24
    except binascii.Error:
        return False


def signed_headers(key: str, message_id: str, body: bytes, now: float) -> dict[str, str]:
    """Return the headers of a request."""
    timestamp = str(int(now))
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{_signature(key, message_id, timestamp, body)}",
    }


def is_genuine(key: str, message_id: str, timestamp: str, signatures: str, body: bytes, now: float) -> bool:
    """Return whether a request comes from the holder of the key and is recent. Receivers may copy this function."""
    if not timestamp.isdigit() or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    wanted = _signature(key, message_id, timestamp, body)
    return any(
        version == "v1" and hmac.compare_digest(given, wanted)
        for version, _, given in (one.partition(",") for one in signatures.split())
    )


def _signature(key: str, message_id: str, timestamp: str, body: bytes) -> str:
    secret = base64.b64decode(key.removeprefix(KEY_PREFIX))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
