"""Roles and their bindings."""

from __future__ import annotations

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy

_GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """Role and ClusterRole."""

    name_rule = staticmethod(texts.path_segment)

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        causes = []
        for index, rule in enumerate(new.get("rules") or ()):
            urls, field = rule.get("nonResourceURLs"), f"rules[{index}]"
            if not urls:
                missing = [name for name in ("apiGroups", "resources") if not rule.get(name)]
                causes += [required(f"{field}.{name}") for name in missing]
            elif new["kind"] == "Role" or any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                why = "only for rules of a ClusterRole without apiGroups and resources"
                causes.append(invalid(f"{field}.nonResourceURLs", urls, why))
        return causes


class RoleBindingStrategy(Strategy):
    """RoleBinding and ClusterRoleBinding."""

    name_rule = staticmethod(texts.path_segment)
    immutable = ("roleRef",)

    def complete(self, obj: Object) -> None:
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _GROUP

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        causes = []
        everywhere = new["kind"] == "ClusterRoleBinding"
        reference = new.get("roleRef") or {}
        roles = ("ClusterRole",) if everywhere else ("ClusterRole", "Role")
        if reference.get("kind") not in roles:
            causes.append(not_supported("roleRef.kind", reference.get("kind", ""), roles))
        for index, subject in enumerate(new.get("subjects") or ()):
            if subject.get("kind") == "ServiceAccount" and everywhere and not subject.get("namespace"):
                causes.append(required(f"subjects[{index}].namespace"))
        return causes
