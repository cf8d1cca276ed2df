"""Signed webhooks: requests carry the signature of standardwebhooks.com, and receivers can check it."""

from __future__ import annotations

import pytest

from kajitori.messages.webhook import TOLERANCE_SECONDS, is_genuine, is_key, new_key, signed_headers

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_the_signature_is_that_of_the_specification() -> None:
    """The example is from the specification's reference libraries."""
    headers = signed_headers(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", BODY, 1614265330.5)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"


@pytest.mark.parametrize("change", ["", "key", "id", "time", "body", "age", "number"])
def test_a_receiver_recognises_forged_and_old_requests(change: str) -> None:
    headers = signed_headers(KEY, "m1", BODY, 1000.0)
    genuine = is_genuine(
        new_key() if change == "key" else KEY,
        "m2" if change == "id" else "m1",
        {"time": "1001", "number": "soon"}.get(change, headers["webhook-timestamp"]),
        f"v1,AAAA {headers['webhook-signature']}",
        b"{}" if change == "body" else BODY,
        1000.0 + (TOLERANCE_SECONDS + 1 if change == "age" else 3),
    )
    assert genuine is (not change)


def test_keys_are_long_and_random() -> None:
    assert is_key(new_key()) and new_key() != new_key()
    assert not any(map(is_key, ("", "whsec_", "whsec_AAAA", "whsec_?", "AAAA")))
