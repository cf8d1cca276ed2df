"""Nodes that do not answer: how long they have not, and how long that is put up with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kajitori.core import gang
from kajitori.kube.mirror.mirror import Mirror

NODE_PATIENCE = timedelta(seconds=15)
"""How long a node has to be silent before its members are given up. After an outage of the API server all nodes look
dead for a moment, and kubelets report every ten seconds: no reason to start every gang of the cluster anew."""


class Silence:
    """Since when each node has been silent, as far as that is known here."""

    def __init__(self, mirror: Mirror, now: Callable[[], datetime], patience: timedelta = NODE_PATIENCE) -> None:
        self._mirror = mirror
        self._now = now
        self._patience = patience
        self._since: dict[str, datetime] = {}

    def note(self, node_name: str) -> None:
        """The mirror shows this node anew."""
        node = self._mirror.nodes.get(node_name)
        if node is None or node.is_ready:
            self._since.pop(node_name, None)
        else:
            self._since.setdefault(node_name, self._now())

    def patience_left(self, member: gang.Member) -> timedelta:
        """For how long the member is to be looked at as if its node answered; zero where it does, or did not for too
        long. What is not shown because the mirror is old does not count as silence."""
        since = self._since.get(member.node)
        if member.node_ready or since is None:
            return timedelta()
        return max(timedelta(), self._patience - (self._mirror.shown_until(self._now()) - since))
