"""Custom resources: boats in two versions, and our own runs."""

from __future__ import annotations

from tests.helpers.differential.catalogue.sample import KindSample

BOATS = KindSample(
    "boat",
    "/apis/sea.example/v1/namespaces/{p}/boats",
    {"apiVersion": "sea.example/v1", "kind": "Boat", "metadata": {"name": ""}, "spec": {"size": 3}},
    (
        {"spec": {"size": 0}},
        {"spec": {"size": None}},
        {"spec": {"size": 1.5}},
        {"spec": {"mode": "fast"}},
        {"spec": {"mode": "odd"}},
        {"spec": {"parts": [{"name": "mast"}, {"name": "sail"}]}},
        {"spec": {"parts": [{"name": "mast"}, {"name": "mast"}]}},
        {"spec": {"parts": [{}]}},
        {"spec": {"parts": [{"name": "keel", "bogus": 1}]}},
        {"spec": {"parts": "none"}},
        {"spec": {"bogus": {"deep": 1}}},
        {"spec": None},
        {"status": {"phase": "Afloat"}},
        {"apiVersion": "sea.example/v1alpha1"},
        {"top": 1},
    ),
    statuses=({"phase": "Afloat"}, {"phase": 5}, {"bogus": 1}, None),
    selectors=("spec.mode=fast", "spec.size=3", "metadata.name=b-a"),
    custom=True,
    scale=True,
    weight=8,
)

OLD_BOATS = KindSample(
    "boat",
    "/apis/sea.example/v1alpha1/namespaces/{p}/boats",
    {"apiVersion": "sea.example/v1alpha1", "kind": "Boat", "metadata": {"name": ""}, "spec": {"size": 3}},
    BOATS.pieces,
    custom=True,
    weight=2,
)

RUNS = KindSample(
    "run",
    "/apis/kajitori.dev/v1alpha1/namespaces/{p}/runs",
    {
        "apiVersion": "kajitori.dev/v1alpha1",
        "kind": "Run",
        "metadata": {"name": ""},
        "spec": {"image": "bert:3", "command": ["python", "train.py"], "resources": {"cpu": 8, "memory": "64Gi"}},
    },
    (
        {"spec": {"replicas": 4}},
        {"spec": {"replicas": "four"}},
        {"spec": {"replicas": -1}},
        {"spec": {"minReplicas": 9}},
        {"spec": {"resources": {"gpu": 8, "gpuType": "h100"}}},
        {"spec": {"resources": {"memory": True}}},
        {"spec": {"resources": {"cpu": "500m"}}},
        {"spec": {"env": {"LR": "3e-4"}}},
        {"spec": {"env": {"LR": 3}}},
        {"spec": {"volumes": [{"name": "data", "path": "/data", "readOnly": True}]}},
        {"spec": {"volumes": "data"}},
        {"spec": {"stopped": True}},
        {"spec": {"resumes": 1}},
        {"spec": {"imge": "typo"}},
        {"spec": {"command": "not a list"}},
        {"spec": None},
        {"status": {"phase": "Running"}},
    ),
    statuses=(
        {"phase": "Queued", "reason": "WaitingForGPU", "message": "needs 32"},
        {"phase": "Running", "members": {"total": 4, "running": 3}},
        {"phase": 5},
        {"attempt": {"number": 1, "nodes": "gpu-[1-4]"}},
        {},
    ),
    custom=True,
    weight=8,
)
