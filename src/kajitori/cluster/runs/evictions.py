"""Kubelets' messages about evictions: which container used more than its request.

A message: `The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container main was using
5Gi, request is 1Gi, has larger consumption of memory.` Only containers above their request are named. Kubelets before
1.27 write `which exceeds its request of 1Gi`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kajitori.core.formats.quantities import parse_memory_bytes
from kajitori.core.naming import names

SHORT_OF_MEMORY = "low on resource: memory"

_QUANTITY = r"(\d{1,30}(?:\.\d{1,30})?[A-Za-z]{0,2})"
_USED = re.compile(
    rf"Container (\S{{1,63}}) was using {_QUANTITY}, (?:request is|which exceeds its request of) {_QUANTITY}"
)

_OWN_DISK_LIMIT = (
    "Usage of EmptyDir volume",
    "exceeded its local ephemeral storage limit",
    "ephemeral local storage usage exceeds the total limit",
)
"""Texts in messages about a Pod that exceeded its own disk limit, on a node without a shortage."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The memory that the program of a member used, and its request."""

    used_bytes: int
    asked_bytes: int


def memory_excess(message: str) -> Excess | None:
    """Return the memory use and request of an evicted Pod that exceeded its request; None if it did not, or if the
    message does not say.

    Only the program counts, not containers that a webhook added. An unreadable message is no evidence.
    """
    if SHORT_OF_MEMORY not in message:
        return None
    for container, used, asked in _USED.findall(message):
        if container != names.MEMBER_CONTAINER:
            continue
        try:
            found = Excess(parse_memory_bytes(used), parse_memory_bytes(asked))
        except ValueError:
            continue
        if found.used_bytes > found.asked_bytes:
            return found
    return None


def is_own_disk_limit(message: str) -> bool:
    """Whether a Pod was evicted because it exceeded its own disk limit."""
    return any(phrase in message for phrase in _OWN_DISK_LIMIT)
