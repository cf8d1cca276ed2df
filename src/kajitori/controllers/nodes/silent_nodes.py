"""Nodes that do not answer: since when, and how long their members are still treated as alive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.core import gang

NODE_PATIENCE = timedelta(seconds=15)
"""Time that a node must be silent before its members count as lost. After an outage of the API server all nodes look
silent for a moment, because kubelets report every ten seconds; that must not restart every gang of the cluster."""


class SilentNodes:
    """Remembers since when each node has been silent."""

    def __init__(self, mirror: Mirror, now: Callable[[], datetime], patience: timedelta = NODE_PATIENCE) -> None:
        self._mirror = mirror
        self._now = now
        self._patience = patience
        self._since: dict[str, datetime] = {}

    def note(self, node_name: str) -> None:
        """React to a change of this node in the mirror."""
        node = self._mirror.nodes.get(node_name)
        if node is None or node.is_ready:
            self._since.pop(node_name, None)
        else:
            self._since.setdefault(node_name, self._now())

    def patience_left(self, member: gang.Member) -> timedelta:
        """Return how much longer the member's node counts as ready although it is silent.

        Zero if it answers or has been silent for too long. Time that the mirror does not show does not count as
        silence.
        """
        since = self._since.get(member.node)
        if member.node_ready or since is None:
            return timedelta()
        return max(timedelta(), self._patience - (self._mirror.shown_until(self._now()) - since))
