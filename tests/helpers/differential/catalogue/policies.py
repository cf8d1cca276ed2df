"""Kinds that limit others: quotas, limit ranges, disruption budgets, network policies, priorities."""

from __future__ import annotations

from tests.helpers.differential.catalogue.sample import KindSample

QUOTAS = KindSample(
    "quota",
    "/api/v1/namespaces/{p}-q/resourcequotas",
    {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": ""}, "spec": {"hard": {"pods": "5"}}},
    (
        {"spec": {"hard": {"requests.cpu": "10", "limits.memory": "5Gi", "requests.nvidia.com/gpu": "8"}}},
        {"spec": {"hard": {"pods": "-1"}}},
        {"spec": {"hard": {"pods": "1500m"}}},
        {"spec": {"hard": {"pods": "many"}}},
        {"spec": {"hard": {"bogus": "1"}}},
        {"spec": {"hard": {"count/runs.kajitori.dev": "3"}}},
        {"spec": {"scopes": ["BestEffort"]}},
        {"spec": {"scopes": ["BestEffort"], "hard": {"requests.cpu": "1"}}},
        {"spec": {"scopes": ["BestEffort", "NotBestEffort"]}},
        {"spec": {"scopes": ["Odd"]}},
        {
            "spec": {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            }
        },
        {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}},
        {"spec": None},
    ),
    weight=2,
    watched=False,
    table="",
)

LIMITS = KindSample(
    "limit",
    "/api/v1/namespaces/{p}/limitranges",
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": ""},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1", "memory": "1Gi"}}]},
    },
    (
        {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Container", "min": {"cpu": "600m"}}]}},
        {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "2Gi"}}]}},
        {"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"memory": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "Pod", "default": {"memory": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "Odd"}]}},
        {"spec": {"limits": [{"type": "Container"}, {"type": "Container"}]}},
        {"spec": {"limits": [{"type": "Container", "max": {"bogus": "1"}}]}},
        {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}},
        {"spec": {"limits": None}},
    ),
    names=("a",),
    weight=2,
)

BUDGETS = KindSample(
    "budget",
    "/apis/policy/v1/namespaces/{p}/poddisruptionbudgets",
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": ""},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"tier": "a"}}},
    },
    (
        {"spec": {"minAvailable": "50%"}},
        {"spec": {"minAvailable": "150%"}},
        {"spec": {"minAvailable": "half"}},
        {"spec": {"minAvailable": -1}},
        {"spec": {"maxUnavailable": 1}},
        {"spec": {"minAvailable": None, "maxUnavailable": 1}},
        {"spec": {"minAvailable": None}},
        {"spec": {"selector": None}},
        {"spec": {"selector": {}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "Odd"}]}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]}}},
        {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        {"spec": {"unhealthyPodEvictionPolicy": "Odd"}},
    ),
    statuses=(
        {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1},
        {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 9},
        {"disruptionsAllowed": -1},
        {"disruptedPods": {"p-a": "2026-01-01T00:00:00Z"}},
    ),
    names=("a",),
    weight=3,
)

NETWORK_POLICIES = KindSample(
    "netpol",
    "/apis/networking.k8s.io/v1/namespaces/{p}/networkpolicies",
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": ""},
        "spec": {
            "podSelector": {"matchLabels": {"tier": "a"}},
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}],
        },
    },
    (
        {"spec": {"podSelector": None}},
        {"spec": {"podSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}]}}},
        {"spec": {"podSelector": {"matchExpressions": [{"key": "tier", "operator": "Odd"}]}}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.0.0.0/8", "fd00::/8"]}}]}]}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "2001:DB8::/32"}}]}]}},
        {"spec": {"egress": [{}]}},
        {"spec": {"egress": []}},
        {"spec": {"ingress": None}},
        {"spec": {"ingress": [{"from": [{}]}]}},
        {"spec": {"ingress": [{"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": "http", "endPort": 5}, {"endPort": 5}, {"protocol": "ICMP"}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": 90, "endPort": 80}, {"port": 0}, {"port": "Bad_Name"}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": 80, "endPort": "x"}]}]}},
        {"spec": {"policyTypes": ["Egress"]}},
        {"spec": {"policyTypes": []}},
        {"spec": {"policyTypes": ["Odd", "Ingress"]}},
        {"spec": None},
    ),
    names=("a",),
    weight=2,
)

PRIORITIES = KindSample(
    "priority",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "", "labels": {"sea": "{p}"}},
        "value": 100,
    },
    (
        {"value": 200},
        {"value": 2000000000},
        {"value": "high"},
        {"value": None},
        {"description": "words"},
        {"preemptionPolicy": "Never"},
        {"preemptionPolicy": "Odd"},
        {"metadata": {"name": "system-mine"}},
    ),
    weight=2,
)
