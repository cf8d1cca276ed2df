"""Drains of nodes, and their ends: both are written to the Node with the caller's credentials, and to its history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kajitori.api.nodes.health import change_node
from kajitori.api.rendering.nodes import drains_of
from kajitori.api.rights import User
from kajitori.cluster.objects import Node
from kajitori.core.naming import names
from kajitori.core.nodes.health import DRAINED_BY
from kajitori.core.nodes.trail import Entry, TrailEvent, append_entry, new_entry, write_trail


async def drain(user: User, name: str, reason: str, now: datetime) -> Node:
    """Cordon a Node and mark it as drained by the user. If a user drains it already, nothing changes; a drain by the
    controller, for the node's health, becomes the user's, and then ends by the user's word alone."""

    def patch(node: Node, _: dict[str, Any]) -> dict[str, Any] | None:
        if node.drained_by and not node.drained_by.startswith(DRAINED_BY):
            return None
        entry = new_entry(now, TrailEvent.DRAINED, by=user.name, evidence=[reason] if reason else [])
        return _patch(node, ": ".join((user.name, *entry.evidence)), entry, unschedulable=True)

    return await change_node(user, name, patch)


async def uncordon(user: User, name: str, now: datetime) -> Node:
    """Let a Node take work again, whether it was drained or only cordoned."""

    def patch(node: Node, _: dict[str, Any]) -> dict[str, Any] | None:
        if not node.spec.unschedulable:
            return None
        return _patch(node, None, new_entry(now, TrailEvent.UNCORDONED, by=user.name), unschedulable=None)

    return await change_node(user, name, patch)


def _patch(node: Node, mark: str | None, entry: Entry, *, unschedulable: bool | None) -> dict[str, Any]:
    trail = write_trail(append_entry(drains_of(node), entry))
    annotations = {names.ANNOTATION_DRAIN: mark, names.ANNOTATION_DRAINS: trail}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}}
