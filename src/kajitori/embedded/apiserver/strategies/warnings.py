"""Warnings about objects that are valid but probably not what their writer meant."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import format_value
from kajitori.embedded.apiserver.metadata import STANDARD_FINALIZERS
from kajitori.embedded.apiserver.schemas.quantities import NANO, parse_nano

Spec = dict[str, Any]


def of_pod(spec: Spec) -> list[str]:
    """Return the warnings about a Pod."""
    found = []
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            where, resources = f"spec.{part}[{index}]", container.get("resources") or {}
            for name in ("limits", "requests"):
                found += _fractional_bytes(resources.get(name) or {}, f"{where}.resources.{name}")
            found += _repeated_variables(container.get("env") or [], f"{where}.env")
    return found


def of_claim(spec: Spec) -> list[str]:
    """Return the warnings about a PersistentVolumeClaim."""
    return _fractional_bytes((spec.get("resources") or {}).get("requests") or {}, "spec.resources.requests")


def of_finalizers(new: list[str], old: list[str]) -> list[str]:
    """Return the warnings about a custom resource's finalizers, of which any text is allowed."""
    found = []
    for name in sorted(set(new) - set(old)):
        found += [f"metadata.finalizers: {format_value(name)}: {fault}" for fault in texts.qualified_name(name)]
        if "/" not in name and name not in STANDARD_FINALIZERS:
            advice = "prefer a name with a domain, such as example.com/name"
            found.append(f"metadata.finalizers: {format_value(name)}: {advice}")
    return found


def _fractional_bytes(amounts: dict[str, str], path: str) -> list[str]:
    return [
        f"{path}[{name}]: {format_value(amounts[name])} is a fraction of a byte"
        for name in ("memory", "ephemeral-storage", "storage")
        if name in amounts and parse_nano(amounts[name]) % NANO
    ]


def _repeated_variables(variables: list[Spec], path: str) -> list[str]:
    found, seen = [], set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen and f"$({name})" not in variable.get("value", ""):
            found.append(f"{path}[{index}]: hides the previous definition of {format_value(name)}")
        seen.add(name)
    return found
