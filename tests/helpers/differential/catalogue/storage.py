"""Claims and volumes."""

from __future__ import annotations

from tests.helpers.differential.catalogue.sample import KindSample

CLAIMS = KindSample(
    "claim",
    "/api/v1/namespaces/{p}/persistentvolumeclaims",
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": ""},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "manual",
        },
    },
    (
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        {"spec": {"resources": {"requests": {"storage": "0"}}}},
        {"spec": {"resources": {"requests": None}}},
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        {"spec": {"accessModes": ["Sometimes"]}},
        {"spec": {"accessModes": []}},
        {"spec": {"storageClassName": "Bad Class"}},
        {"spec": {"storageClassName": ""}},
        {"spec": {"storageClassName": None}},
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"volumeName": "{p}-a"}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}},
    ),
    statuses=(
        {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        {"phase": "Odd"},
        {"capacity": {"storage": "-1"}},
    ),
)

VOLUMES = KindSample(
    "volume",
    "/api/v1/persistentvolumes",
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "", "labels": {"sea": "{p}"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/x"},
            "storageClassName": "manual",
        },
    },
    (
        {"spec": {"capacity": {"storage": "5Gi"}}},
        {"spec": {"capacity": None}},
        {"spec": {"accessModes": None}},
        {"spec": {"hostPath": None}},
        {"spec": {"hostPath": {"path": "../x"}}},
        {"spec": {"nfs": {"server": "s", "path": "/"}}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        {"spec": {"persistentVolumeReclaimPolicy": "Keep"}},
        {"spec": {"claimRef": {"namespace": "{p}", "name": "c-a"}}},
        {"spec": {"claimRef": None}},
        {"spec": {"volumeMode": "Odd"}},
        {"spec": {"mountOptions": ["ro"]}},
    ),
    statuses=({"phase": "Available"}, {"phase": "Bound"}, {"phase": "Released", "message": "m", "reason": "r"}),
)
