"""Signed webhooks: requests carry the signature of standardwebhooks.com, and receivers can check it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from kajitori.messages.webhook import new_key, signed_headers

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_the_signature_is_that_of_the_specification() -> None:
    """The example is from the specification's reference libraries."""
    headers = signed_headers(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", BODY, 1614265330.5)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"


@pytest.mark.parametrize("change", ["", "key", "id", "time", "body", "age"])
def test_the_receiver_in_the_docs_refuses_forged_and_old_requests(change: str) -> None:
    page = Path(__file__).parents[3] / "docs/howto/watch/messages.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    receiver: dict[str, Any] = {}
    exec(code, receiver)
    now = time.time()
    headers = signed_headers(KEY, "m1", BODY, now - 400 if change == "age" else now - 3)
    headers["webhook-signature"] = f"v1,AAAA {headers['webhook-signature']}"
    if change == "id":
        headers["webhook-id"] = "m2"
    elif change == "time":
        headers["webhook-timestamp"] = str(int(now))
    key, body = new_key() if change == "key" else KEY, b"{}" if change == "body" else BODY
    assert receiver["is_genuine"](key, headers, body) is (not change)


def test_keys_are_random() -> None:
    assert new_key() != new_key()
