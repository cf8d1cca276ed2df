"""The nodes that a run avoids because its members failed there."""

from __future__ import annotations

from collections.abc import Mapping

AVOID_AFTER_FAILURES = 2
"""Failures of a run's members on one node after which the run avoids that node."""


def avoided_nodes(failures: Mapping[str, int], *, is_sweep: bool) -> frozenset[str]:
    """Return the nodes that a run avoids, from its failures by node.

    Members of a sweep are independent, and some fail wherever they run. So a sweep avoids a node only if more than half
    of its failures are on that node.
    """
    total = sum(failures.values()) if is_sweep else 0
    return frozenset(node for node, count in failures.items() if count >= AVOID_AFTER_FAILURES and 2 * count > total)
