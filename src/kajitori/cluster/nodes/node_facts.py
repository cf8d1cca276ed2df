"""The facts about a Node that planning needs, in the types of `core`."""

from __future__ import annotations

from kajitori.cluster.mirror.usage import amount_of
from kajitori.cluster.objects import Node
from kajitori.core.gpus.offers import GpuOffer, plugin_offers
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.naming import names
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.policy.file import Policy

_NOT_READY_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
"""Taints that only repeat a node's conditions and its spec."""


def node_facts(node: Node, policy: Policy, devices: tuple[GpuOffer, ...] = ()) -> NodeFacts:
    """Return the facts about a Node that planning needs.

    `devices` are its GPUs as devices of dynamic resource allocation. They do not count if the node has GPUs of a device
    plugin, because they would be the same GPUs.
    """
    amounts = node.status.allocatable or node.status.capacity
    labels = node.metadata.labels
    gpus = amount_of(policy.gpu.resource, amounts.get(policy.gpu.resource, "0"))
    gpu_type = policy.gpu.type_of(labels) if gpus else ""
    domain = policy.gpu.resource.partition("/")[0]
    plugin = {name: amount_of(name, text) for name, text in amounts.items() if name.startswith(f"{domain}/")}
    offers = plugin_offers(policy.gpu.type_of(labels), plugin, policy.gpu.resource)
    if devices and not gpus and not offers:
        offers = devices
        whole = next((offer for offer in offers if offer.is_whole), None)
        gpus, gpu_type = (whole.count, whole.type) if whole is not None else (0, "")
    out = (names.TAINT_UNHEALTHY, policy.preflight.taint)
    taints = [Taint(t.key, t.value, t.effect) for t in node.spec.taints if t.key not in _NOT_READY_TAINTS]
    blocking = next((t.key for t in node.spec.taints if t.key in _NOT_READY_TAINTS[:2]), "")
    return NodeFacts(
        name=node.metadata.name,
        cpu_millis=amount_of("cpu", amounts.get("cpu", "0")),
        memory_bytes=amount_of("memory", amounts.get("memory", "0")),
        gpus=gpus,
        pods=amount_of("pods", amounts.get("pods", "110")),
        gpu_type=gpu_type,
        gpu_offers=offers,
        labels=dict(labels),
        taints=tuple(taint for taint in taints if taint.key not in out),
        out=tuple(taint for taint in taints if taint.key in out),
        ready=node.is_ready and not blocking,
        stale_taint=blocking if node.is_ready else "",
        schedulable=not node.spec.unschedulable,
        drained_by=node.drained_by,
        domains=tuple(labels.get(label, "") for label in policy.topology),
        created_at=node.metadata.creation_timestamp,
    )
