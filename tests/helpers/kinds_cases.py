"""Objects, and what a real kube-apiserver answered to their creation.

Unit tests hold the embedded API server to these recorded facts; the cluster tests ask a real one again.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "unit" / "embedded" / "apiserver" / "cases"
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
    """The cases of one file."""
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
    """The CustomResourceDefinition that the cases of custom resources belong to."""
    document: dict[str, Any] = yaml.safe_load((FOLDER / "custom_resources.yaml").read_text())["definition"]
    return document


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without what differs from server to server: identities, times, addresses given at random, and the
    account, whose admission a bare kube-apiserver can't do."""
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
