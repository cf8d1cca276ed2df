"""Entries of the audit trail about nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kajitori.cluster.objects import Node
from kajitori.cluster.runs.recording import CONTROLLER
from kajitori.core.naming import names
from kajitori.core.nodes.health import DRAINED_BY
from kajitori.core.nodes.trail import Entry, TrailEvent, describe_entry, read_trail
from kajitori.core.usage.records import AuditEntry

UNKNOWN = "(not by kaji)"
"""The actor of a change that was made with kubectl or another program: a Node does not record who changed it."""

_ACTIONS = {
    TrailEvent.OUT: "take node out of the pool",
    TrailEvent.BACK: "put node back into the pool",
    TrailEvent.LOST: "declare node lost",
    TrailEvent.PASSED: "test node",
    TrailEvent.FAILED: "test node",
    TrailEvent.UNTESTED: "test node",
}


@dataclass(frozen=True, slots=True)
class Cordon:
    """Whether a node takes new Pods, and who drains it."""

    uid: str
    is_cordoned: bool
    drained_by: str

    @classmethod
    def of(cls, node: Node) -> Cordon:
        """Return the cordon of a Node."""
        return cls(node.metadata.uid, node.spec.unschedulable, node.drained_by)


def decisions_about(node: Node) -> Iterator[AuditEntry]:
    """Yield the controller's decisions about the health of a node. The Node stores these decisions for a while, and
    each has a key of its own. So each decision is in the audit trail exactly once, even if history was unavailable for
    some time."""
    for entry in read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")):
        at = entry.time
        if at is None or _is_noted_already(entry):
            continue
        yield AuditEntry(
            key=f"{node.metadata.uid}/{entry.what.value}/{entry.at}",
            at=int(at.timestamp() * 1000),
            actor=CONTROLLER,
            action=_ACTIONS[entry.what],
            object=f"node {node.metadata.name}",
            outcome="failed" if entry.what in (TrailEvent.FAILED, TrailEvent.UNTESTED) else "done",
            rule=entry.reason,
            message=describe_entry(entry),
        )


def change_of_cordon(name: str, before: Cordon, after: Cordon, now: datetime) -> AuditEntry | None:
    """Return the entry about a node that was cordoned or uncordoned. None if the cordon has not changed, or if the Web
    API has recorded the change: `kaji drain` writes who drains, and `kaji uncordon` removes that."""
    if before.uid != after.uid or before.is_cordoned == after.is_cordoned:
        return None
    drained_by = after.drained_by if after.is_cordoned else before.drained_by
    about: dict[str, Any] = {"at": int(now.timestamp() * 1000), "object": f"node {name}", "outcome": "done"}
    key = f"{after.uid}/cordon/{after.is_cordoned}/{now.isoformat()}"
    if drained_by.startswith(DRAINED_BY):
        action = "drain node" if after.is_cordoned else "uncordon node"
        reason = drained_by.removeprefix(DRAINED_BY)
        return AuditEntry(key=key, actor=CONTROLLER, action=action, rule=reason, **about)
    if drained_by:
        return None
    action = "cordon node" if after.is_cordoned else "uncordon node"
    message = "seen on the node; the audit log of the API server names the account"
    return AuditEntry(key=key, actor=UNKNOWN, action=action, message=message, **about)


def _is_noted_already(entry: Entry) -> bool:
    """Whether the Web API has recorded this decision: a user declared the node healthy."""
    return entry.what is TrailEvent.BACK and bool(entry.by)
