"""Namespaces."""

from __future__ import annotations

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, invalid
from kajitori.embedded.apiserver.metadata import STANDARD_FINALIZERS, UNQUALIFIED
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy

FINALIZER = "kubernetes"
"""The entry of `spec.finalizers` that stays until the namespace's objects are deleted."""


class NamespaceStrategy(Strategy):
    has_status = True
    name_rule = staticmethod(texts.dns_label)

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", name)
            obj["metadata"]["labels"]["kubernetes.io/metadata.name"] = name
        status = obj.setdefault("status", {})
        status.setdefault("phase", "Active")
        for condition in status.get("conditions") or []:
            condition.setdefault("lastTransitionTime", None)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        # A generated name is known from here on.
        self.default(obj)
        spec = obj.setdefault("spec", {})
        if FINALIZER not in spec.setdefault("finalizers", []):
            spec["finalizers"].append(FINALIZER)
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        # Only `/finalize` changes the finalizers.
        new["spec"] = old.get("spec", {})

    def validate_create(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        for one in obj["spec"]["finalizers"]:
            faults = texts.qualified_name(one)
            causes += [invalid("spec.finalizers", one, fault) for fault in faults]
            if not faults and "/" not in one and one not in STANDARD_FINALIZERS:
                causes.append(invalid("spec.finalizers", one, UNQUALIFIED))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        going, phase = bool(new["metadata"].get("deletionTimestamp")), new["status"]["phase"]
        wanted = "Terminating" if going else "Active"
        if phase == wanted:
            return []
        detail = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if going else ''}empty"
        return [invalid("status.Phase", phase, detail)]

    def fields(self, obj: Object) -> dict[str, str]:
        return {"status.phase": obj.get("status", {}).get("phase", "")}
