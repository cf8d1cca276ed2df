"""Kinds that describe the cluster: nodes, namespaces, leases, events."""

from __future__ import annotations

from tests.helpers.differential.catalogue.sample import KindSample

NODES = KindSample(
    "node",
    "/api/v1/nodes",
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "", "labels": {"sea": "{p}"}}},
    (
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": None}},
        {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": "bad key", "effect": "Sometimes"}]}},
        {"spec": {"taints": []}},
        {"spec": {"taints": None}},
        {"spec": {"podCIDR": "172.16.1.0/24", "podCIDRs": ["172.16.1.0/24"]}},
        {"spec": {"podCIDR": "172.16.2.0/24"}},
        {"spec": {"podCIDR": "nonsense"}},
        {"spec": {"providerID": "kaji://one"}},
        {"spec": {"providerID": "kaji://two"}},
        {"spec": {"bogus": True}},
        {"status": {"capacity": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}}},
        {"metadata": {"labels": {"kajitori.dev/gpu-type": "h100"}}},
    ),
    statuses=(
        {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110"}, "allocatable": {"cpu": "7500m"}},
        {"capacity": {"cpu": "minus"}},
        {"capacity": {"cpu": "-8"}},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
        {"conditions": [{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "True"}]},
        {"addresses": [{"type": "InternalIP", "address": "172.16.0.1"}, {"type": "Hostname", "address": "h"}]},
        {"images": [{"names": ["bert:3"], "sizeBytes": 5}]},
        {"nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"}},
        {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}},
    ),
    selectors=("spec.unschedulable=true", "metadata.name={p}-a", "spec.podCIDR=x"),
    names=("a", "b"),
    weight=6,
)

NAMESPACES = KindSample(
    "namespace",
    "/api/v1/namespaces",
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "", "labels": {"sea": "{p}"}}},
    (
        {"spec": {"finalizers": ["kubernetes", "example.com/hold"]}},
        {"spec": {"finalizers": []}},
        {"spec": {"finalizers": ["nodomain"]}},
        {"metadata": {"labels": {"kubernetes.io/metadata.name": "wrong"}}},
        {"metadata": {"name": "with.dots"}},
        {"status": {"phase": "Terminating"}},
    ),
    statuses=({"phase": "Active"}, {"conditions": [{"type": "NamespaceContentRemaining", "status": "True"}]}),
    selectors=("status.phase=Active", "metadata.name={p}-a", "name={p}-a"),
    weight=3,
)

LEASES = KindSample(
    "lease",
    "/apis/coordination.k8s.io/v1/namespaces/{p}/leases",
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": ""},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    (
        {"spec": {"holderIdentity": "you", "leaseTransitions": 1}},
        {"spec": {"renewTime": "2026-01-01T00:00:01.5Z"}},
        {"spec": {"renewTime": "2026-01-01T00:00:01Z"}},
        {"spec": {"renewTime": "yesterday"}},
        {"spec": {"renewTime": None}},
        {"spec": {"leaseDurationSeconds": 0}},
        {"spec": {"leaseDurationSeconds": "15"}},
        {"spec": {"leaseDurationSeconds": 15.5}},
        {"spec": {"leaseTransitions": -1}},
        {"spec": {"preferredHolder": "x"}},
        {"spec": {"strategy": "OldestEmulationVersion"}},
        {"spec": None},
    ),
)

_REGARDING = {"kind": "Pod", "namespace": "{p}", "name": "p-a", "apiVersion": "v1"}
EVENTS = KindSample(
    "event",
    "/api/v1/namespaces/{p}/events",
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": ""},
        "involvedObject": _REGARDING,
        "reason": "Started",
        "message": "it started",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    },
    (
        {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z"},
        {"type": "Bad"},
        {"involvedObject": {"namespace": "other"}},
        {"involvedObject": {"namespace": None}},
        {"involvedObject": {"kind": "Node", "namespace": None, "name": "{p}-a"}},
        {"involvedObject": None},
        {"reason": None},
        {"message": "x" * 1100},
        {"eventTime": "2026-01-01T00:00:00.000000Z"},
        {
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "kajitori.dev/c",
            "reportingInstance": "i",
            "action": "Start",
        },
        {"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
        {"related": {"kind": "Node", "name": "x"}},
        {"firstTimestamp": None},
        {"metadata": {"name": "", "generateName": "bert."}},
    ),
    selectors=(
        "involvedObject.name=p-a",
        "involvedObject.kind=Pod,type=Normal",
        "reason=Started",
        "source=kubelet",
        "reportingComponent=kubelet",
        "involvedObject.uid=",
        "type!=Normal",
    ),
)
