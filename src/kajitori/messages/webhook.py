"""Signed webhooks, as standardwebhooks.com describes them: the receiver can check who sent a request, and when.

The headers are `webhook-id` (the same for every try), `webhook-timestamp` (seconds since the epoch) and
`webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. The text of a key is `whsec_` and the
key in base64. docs/howto/watch/messages.md shows how a receiver checks a request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

KEY_PREFIX = "whsec_"


def new_key() -> str:
    """Return a random key."""
    return KEY_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def signed_headers(key: str, message_id: str, body: bytes, now: float) -> dict[str, str]:
    """Return the headers of a request."""
    timestamp = str(int(now))
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{_signature(key, message_id, timestamp, body)}",
    }


def _signature(key: str, message_id: str, timestamp: str, body: bytes) -> str:
    secret = base64.b64decode(key.removeprefix(KEY_PREFIX))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
