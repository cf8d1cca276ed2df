"""States of nodes in words, and nodes as rows of tables."""

from __future__ import annotations

from collections.abc import Sequence

from kajitori.api.views.nodes import Amount, NodeState, NodeTableRow
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.mirror.usage import NodeUsage
from kajitori.cluster.objects import Node
from kajitori.cluster.view import ClusterView
from kajitori.core.gpus.offers import GpuOffer
from kajitori.core.naming import names
from kajitori.core.nodes.trail import Entry, describe_entry, last_removal, last_test, read_trail
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.policy.file import Policy
from kajitori.core.queue.explain import Use

MAX_HOLDERS = 4
"""Most runs that the row of a node names."""


def unavailable_reason(facts: NodeFacts, node: Node, policy: Policy) -> str:
    """Return why no new run is placed on a node; empty if the node takes work.

    Ordinary taints do not count, since runs may tolerate them. The taints that keep a node out of the pool do.
    """
    if facts.stale_taint:
        return f"Ready, but {facts.why_no_work}"
    if not facts.ready:
        for condition in node.status.conditions:
            if condition.type == "Ready" and condition.status != "True":
                reason = condition.message or condition.reason
                return f"not ready: {reason}" if reason else "not ready"
        return "not ready"
    cordoned = f"drained by {node.drained_by}" if node.drained_by else "cordoned"
    return "; ".join(filter(None, (removal_reason(node, policy), "" if facts.schedulable else cordoned)))


def removal_reason(node: Node, policy: Policy) -> str:
    """Return why a node is out of the pool; empty if it is in the pool."""
    taints = {taint.key: taint.value for taint in node.spec.taints}
    if names.TAINT_UNHEALTHY in taints:
        removal = last_removal(trail_of(node))
        if removal is None:
            return f"unhealthy: {taints[names.TAINT_UNHEALTHY] or 'marked by hand'}"
        evidence = f": {removal.evidence[0]}" if removal.evidence else ""
        return f"unhealthy: {removal.reason}{evidence}"
    if policy.preflight.taint not in taints:
        return ""
    if not policy.preflight.covers(node.metadata.labels):
        return "not tested, and the policy has no test for it (preflight)"
    test = last_test(trail_of(node))
    last_result = f"; {describe_entry(test)}" if test is not None else ""
    return f"not tested yet{last_result}"


def trail_of(node: Node) -> tuple[Entry, ...]:
    """Return the health history of a node, the oldest entry first."""
    return read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, ""))


def drains_of(node: Node) -> tuple[Entry, ...]:
    """Return the drains of a node by users and their ends, the oldest first."""
    return read_trail(node.metadata.annotations.get(names.ANNOTATION_DRAINS, ""))


def gpu_amounts(cluster: ClusterView, facts: NodeFacts, uses: Sequence[Use]) -> list[tuple[GpuOffer, Amount]]:
    """Return what a node has of each GPU type, and how much of that is in use.

    `uses` are those of all Pods on it and of starting members. Devices are in use as well if they are allocated to a
    claim of another Pod, or share their hardware with one that is.
    """
    by_devices = cluster.devices.used(facts.name) if facts.is_by_devices else {}
    amounts = []
    for offer in facts.offers:
        used = sum(use.gpus for use in uses if use.gpu_type == offer.type or (offer.is_whole and not use.gpu_type))
        amounts.append((offer, Amount(total=offer.count, used=max(used, by_devices.get(offer.type, 0)))))
    return amounts


def state_of(facts: NodeFacts, node: Node, policy: Policy) -> NodeState:
    """Return whether a node takes work, or the first reason why it does not."""
    if not facts.ready:
        return NodeState.NOT_READY
    taints = {taint.key for taint in node.spec.taints}
    if names.TAINT_UNHEALTHY in taints:
        return NodeState.UNHEALTHY
    if policy.preflight.taint in taints:
        return NodeState.UNTESTED
    if node.drained_by:
        return NodeState.DRAINING
    return NodeState.READY if facts.schedulable else NodeState.CORDONED


def table_row(
    mirror: Mirror, cluster: ClusterView, facts: NodeFacts, node: Node, promised: Sequence[Use], pool: str
) -> NodeTableRow:
    """Return the row of a node. `promised` are the resources of starting members that are not bound to it yet."""
    policy, usage = cluster.policy, mirror.usage_of(facts.name) or NodeUsage()
    uses = (*cluster.uses(facts.name), *promised)
    types = gpu_amounts(cluster, facts, uses)
    held: dict[str, int] = {}
    owners: dict[str, str] = {}
    for use in uses:
        if use.is_run or use.gpus:
            held[use.holder] = held.get(use.holder, 0) + use.gpus
            owners[use.holder] = use.owner
    holders = sorted(held, key=lambda holder: (-held[holder], holder))
    return NodeTableRow(
        name=facts.name,
        state=state_of(facts, node, policy),
        why=unavailable_reason(facts, node, policy),
        gpu_type=facts.gpu_type,
        gpus=next((amount for offer, amount in types if offer.is_whole), Amount(total=0, used=0)),
        partial_gpus={offer.type: amount for offer, amount in types if not offer.is_whole},
        cpu_millis=Amount(total=facts.cpu_millis, used=usage.cpu_millis + sum(use.cpu_millis for use in promised)),
        memory_bytes=Amount(
            total=facts.memory_bytes, used=usage.memory_bytes + sum(use.memory_bytes for use in promised)
        ),
        pods=Amount(total=facts.pods, used=usage.pods + len(promised)),
        pool=pool,
        places=[place for place in facts.domains if place],
        holders=holders[:MAX_HOLDERS],
        owner=owners[holders[0]] if holders else "",
    )
