"""A custom resource to test with."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SPEC = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "mode": {"type": "string", "default": "slow", "enum": ["slow", "fast"]},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def definition() -> Object:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    first = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": SPEC},
    }
    second = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SPEC},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example"},
        "spec": {
            "group": "sea.example",
            "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat", "shortNames": ["bo"], "categories": ["all"]},
            "versions": [first, second],
        },
    }


def boat(version: str = "v1", **spec: Any) -> Object:
    return {"apiVersion": f"sea.example/{version}", "kind": "Boat", "metadata": {"name": "b"}, "spec": spec}
