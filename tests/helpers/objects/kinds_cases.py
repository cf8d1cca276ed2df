"""Objects, and a real kube-apiserver's answers to their creation.

Unit tests compare the embedded API server with them; cluster tests ask a real server again.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "unit" / "embedded" / "apiserver" / "cases"
_BY_CHANCE = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "finalizers")


@dataclass(frozen=True)
class Case:
    """A body, and the server's answer to its creation: the code, and the object that would be stored."""

    name: str
    body: dict[str, Any]
    code: int = 201
    object: dict[str, Any] | None = None
    unknown: tuple[str, ...] = field(default=())


def load(name: str) -> list[Case]:
    """Return the cases of one file."""
    document = yaml.load((FOLDER / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    return [
        Case(
            one["name"],
            one["body"],
            one.get("code", 201),
            one.get("object"),
            tuple(one.get("unknown", ())),
        )
        for one in document["cases"]
    ]


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of the cases of custom resources."""
    document: dict[str, Any] = yaml.safe_load((FOLDER / "custom_resources.yaml").read_text())["definition"]
    return document


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what differs between servers: identities, times, random addresses, and the service
    account, which a kube-apiserver without controllers cannot set."""
    shown = copy.deepcopy(obj)
    if shown.pop("kind", "") == "CustomResourceDefinition":
        shown.pop("status", None)
    shown.pop("apiVersion", None)
    for name in _BY_CHANCE:
        shown["metadata"].pop(name, None)
    if isinstance(shown.get("status"), dict):
        shown["status"].pop("lastPhaseTransitionTime", None)
    spec = shown.get("spec")
    if isinstance(spec, dict):
        if spec.get("clusterIP", "None") != "None":
            spec["clusterIP"], spec["clusterIPs"] = "X", ["X"]
        for port in spec.get("ports") or []:
            if "nodePort" in port:
                port["nodePort"] = 1
        if "containers" in spec:
            for name in ("serviceAccount", "serviceAccountName"):
                spec.pop(name, None)
    return shown
