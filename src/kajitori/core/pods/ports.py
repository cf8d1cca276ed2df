"""The port that the members of an attempt meet on: one of its own, so that two runs on one machine never meet."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from kajitori.errors import Unavailable


def choose_port(uid: str, attempt: int, taken: Collection[int], first: int, last: int) -> int:
    """A port of `first..last` that no other live attempt has; the same question has the same answer.

    It differs from attempt to attempt, so that a port that something foreign holds is not met twice. Raises
    Unavailable when all are taken.
    """
    count = last - first + 1
    start = zlib.crc32(f"{uid}/{attempt}".encode()) % count
    used = set(taken)
    for offset in range(count):
        port = first + (start + offset) % count
        if port not in used:
            return port
    raise Unavailable(f"all ports from {first} to {last} are in use by live runs", hint="widen `ports` in the policy")
