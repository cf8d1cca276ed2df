"""The rendezvous port of an attempt. Each attempt has its own, so that runs on one machine do not mix."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from kajitori.errors import Unavailable


def choose_port(uid: str, attempt: int, taken: Collection[int], first: int, last: int) -> int:
    """Return a port of `first..last` that no other live attempt has. The result depends on the arguments only.

    It differs between attempts, so that a port that another program occupies fails one attempt only. Raises Unavailable
    if all ports are taken.
    """
    count = last - first + 1
    start = zlib.crc32(f"{uid}/{attempt}".encode()) % count
    used = set(taken)
    for offset in range(count):
        port = first + (start + offset) % count
        if port not in used:
            return port
    hint = "widen rendezvous (firstPort, lastPort) in the policy"
    raise Unavailable(f"all ports from {first} to {last} are in use by live runs", hint=hint)
