"""The Node and Lease objects of simulated nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kajitori.core.formats.times import format_time
from kajitori.embedded.names import ANNOTATION_SERVING_CERTIFICATE, GPU_RESOURCE
from kajitori.embedded.simulator.settings import SimSettings

LABEL_POOL = "sim.kajitori.dev/pool"
LEASE_NAMESPACE = "kube-node-lease"


def node(settings: SimSettings, number: int, fingerprint: str = "") -> dict[str, Any]:
    """Return the Node to create; its status is written afterwards, through the subresource.

    `fingerprint` is that of its kubelet's certificate, if no authority signed it.
    """
    name = settings.name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "simulated",
        LABEL_POOL: pool_label(settings),
        **settings.topology_labels(number),
        **settings.labels,
    }
    if settings.gpus and settings.gpu_product:
        labels["nvidia.com/gpu.product"] = settings.gpu_product
        labels["nvidia.com/gpu.count"] = str(settings.gpus)
    cidr = f"{settings.pod_network}.{number // 256}.{number % 256}.0/24"
    spec: dict[str, Any] = {"podCIDR": cidr, "podCIDRs": [cidr]}
    if settings.taints:
        spec["taints"] = [dict(taint) for taint in settings.taints]
    meta: dict[str, Any] = {"name": name, "labels": labels}
    if fingerprint:
        meta["annotations"] = {ANNOTATION_SERVING_CERTIFICATE: fingerprint}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec}


def node_status(settings: SimSettings, number: int, port: int, now: datetime) -> dict[str, Any]:
    """Return a healthy node's status; `port` is that of its kubelet API."""
    amounts = {
        "cpu": settings.cpu,
        "memory": settings.memory,
        "ephemeral-storage": settings.ephemeral_storage,
        "pods": str(settings.max_pods),
    }
    if settings.gpus:
        amounts[GPU_RESOURCE] = str(settings.gpus)
    name = settings.name(number)
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": conditions(now),
        # No Hostname: kube-apiserver would prefer it for logs, and no name server knows it.
        "addresses": [{"type": "InternalIP", "address": settings.address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "simulated",
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-kajitori-sim",
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "simulated",
            "systemUUID": name,
        },
    }


def conditions(now: datetime) -> list[dict[str, str]]:
    """Return the conditions of a healthy node."""
    moment = format_time(now)
    times = {"lastHeartbeatTime": moment, "lastTransitionTime": moment}
    return [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "", **times},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure", "message": "", **times},
        {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID", "message": "", **times},
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated node", **times},
    ]


def lease(name: str, node_uid: str, now: datetime, lease_seconds: int) -> dict[str, Any]:
    """Return the node's Lease, which is deleted with its Node."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": lease_seconds, "renewTime": micro_time(now)},
    }


def micro_time(moment: datetime) -> str:
    """Return a time with microseconds, as in a Lease."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def pool_label(settings: SimSettings) -> str:
    """Return the label value by which one simulator finds its nodes."""
    return f"{settings.prefix}{settings.first}".strip("-_.")
