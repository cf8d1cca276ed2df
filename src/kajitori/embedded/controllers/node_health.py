"""Judges silent nodes and the Pods on them: functions of objects and the time.

Constants and messages are those of Kubernetes' node life cycle, taint eviction and Pod garbage collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.kubernetes import taints as taint_rules
from kajitori.embedded.objects import Lease, Node, Pod, Taint, Toleration, condition, is_true

GRACE_SECONDS = 40.0
"""Time without news after which a node counts as silent: the former default of kube-controller-manager's
`--node-monitor-grace-period`."""

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
PRESSURE_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
JUDGED_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
OWN_TAINTS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE_TAINTS.values()})


@dataclass(slots=True)
class SignsOfLife:
    """The time at which each node's sign of life last changed, by this process' clock and never by the node's."""

    grace_seconds: float = GRACE_SECONDS
    _signs: dict[str, tuple[str, str]] = field(default_factory=dict)
    _changed_at: dict[str, float] = field(default_factory=dict)

    def observe(self, node: Node, lease: Lease | None, now: float, late_seconds: float = 0.0) -> bool:
        """Return whether the node counts as alive.

        now: seconds of a monotonic clock.
        late_seconds: the time by which signs of life may be late because this process is busy.
        """
        ready = condition(node.status.conditions, "Ready")
        heartbeat = (ready.last_heartbeat_time or "") if ready is not None and ready.status != "Unknown" else ""
        sign = ((lease.spec.renew_time or "") if lease else "", heartbeat)
        name = node.metadata.name
        before = self._signs.get(name)
        # This controller itself removes the heartbeat of a silent node. That is no sign of life, but a new heartbeat
        # is.
        if before is None or sign[0] != before[0] or (heartbeat and heartbeat != before[1]):
            self._changed_at[name] = now
        if before is None or sign[0] != before[0] or heartbeat:
            self._signs[name] = (sign[0], heartbeat or (before[1] if before else ""))
        return now - self._changed_at[name] <= self.grace_seconds + late_seconds

    def extend_grace(self, seconds: float) -> None:
        """Extend the grace of all nodes by a time in which this process was suspended."""
        for name in self._changed_at:
            self._changed_at[name] += seconds

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget nodes that were deleted."""
        for name in self._signs.keys() - set(names):
            del self._signs[name]
            del self._changed_at[name]


def silent_conditions(node: Node, now: datetime) -> list[dict[str, Any]]:
    """Return the conditions to write on a silent node; empty if it has them already."""
    moment = format_time(now)
    written = []
    for kind in JUDGED_CONDITIONS:
        before = condition(node.status.conditions, kind)
        if before is not None and before.status == "Unknown":
            continue
        never = before is None
        written.append(
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
                "lastTransitionTime": moment,
            }
        )
    return written


def wanted_taints(node: Node, now: datetime) -> list[Taint] | None:
    """Return the taints that the node's conditions and its cordon ask for; None if it has them already."""
    wanted: dict[tuple[str, str], Taint] = {}
    ready = condition(node.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        key = UNREACHABLE if ready is not None and ready.status == "Unknown" else NOT_READY
        wanted[key, "NoSchedule"] = Taint(key)
        wanted[key, "NoExecute"] = Taint(key, effect="NoExecute", time_added=format_time(now))
    for kind, key in PRESSURE_TAINTS.items():
        state = condition(node.status.conditions, kind)
        if state is not None and state.status == "True":
            wanted[key, "NoSchedule"] = Taint(key)
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE, "NoSchedule"] = Taint(UNSCHEDULABLE)
    present = node.spec.taints or []
    kept = [t for t in present if t.key not in OWN_TAINTS or (t.key, t.effect) in wanted]
    added = [t for place, t in wanted.items() if place not in {(k.key, k.effect) for k in kept}]
    return None if not added and len(kept) == len(present) else kept + added


def eviction_time(pod: Pod, taints: Iterable[Taint], seen_at: Callable[[Taint], datetime]) -> datetime | None:
    """Return the time at which NoExecute taints evict the Pod; None if it may stay.

    `seen_at` returns the time for taints that do not say when they were added.
    """
    earliest: datetime | None = None
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        added = parse_time(taint.time_added or "") or seen_at(taint)
        matching = [t for t in pod.spec.tolerations or () if _tolerates_taint(t, taint)]
        bounds = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
        if matching and not bounds:
            continue
        due = added + timedelta(seconds=max(0, min(bounds, default=0)))
        earliest = due if earliest is None else min(earliest, due)
    return earliest


def disruption_target(reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the condition that tells a Pod's owner that the cluster ended it."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }


def is_node_ready(node: Node) -> bool:
    """Return whether the node's Ready condition is true."""
    return is_true(node.status.conditions, "Ready")


def is_ready(pod: Pod) -> bool:
    """Return whether the Pod's Ready condition is true."""
    return is_true(pod.status.conditions, "Ready")


def orphans(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Return the Pods that no kubelet will end: their node is gone or out of service, or they never had one."""
    found = []
    for pod in pods:
        deleting = bool(pod.metadata.deletion_timestamp)
        if not pod.spec.node_name:
            if deleting:
                found.append(pod)
            continue
        node = nodes.get(pod.spec.node_name)
        if node is None or (deleting and is_out_of_service(node)):
            found.append(pod)
    return found


def is_out_of_service(node: Node) -> bool:
    """Return whether an administrator marked the machine as switched off, and it does not answer."""
    return not is_node_ready(node) and any(t.key == OUT_OF_SERVICE for t in node.spec.taints or ())


def _tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    rule = taint_rules.Toleration(toleration.key, toleration.operator or "Equal", toleration.value, toleration.effect)
    return rule.tolerates(taint_rules.Taint(taint.key, taint.value, taint.effect))
