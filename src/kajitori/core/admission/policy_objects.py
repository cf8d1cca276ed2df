"""Admission policies and their bindings as objects of Kubernetes."""

from __future__ import annotations

from typing import Any, Literal

from kajitori.core.naming import names

Manifest = dict[str, Any]

_API_VERSION = "admissionregistration.k8s.io/v1"


def admission_policy(
    kind: Literal["Validating", "Mutating"], name: str, spec: Manifest, labels: dict[str, str] | None = None
) -> Manifest:
    """Return an admission policy of this kind with our labels and `labels`."""
    return _object(f"{kind}AdmissionPolicy", name, spec, labels)


def policy_binding(
    kind: Literal["Validating", "Mutating"], name: str, action: str = "", labels: dict[str, str] | None = None
) -> Manifest:
    """Return the binding, of the same name, that applies a policy to all namespaces. `action`: what a validating policy
    does with a request that breaks it, such as "Deny"."""
    spec: Manifest = {"policyName": name} | ({"validationActions": [action]} if action else {})
    return _object(f"{kind}AdmissionPolicyBinding", name, spec, labels)


def _object(kind: str, name: str, spec: Manifest, labels: dict[str, str] | None) -> Manifest:
    own = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    metadata = {"name": name, "labels": own | (labels or {})}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
