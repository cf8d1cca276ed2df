"""Roles and their bindings."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, invalid, not_supported, required
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy

_GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """Role and ClusterRole."""

    name_rule: texts.Rule = staticmethod(texts.path_segment)

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = []
        for index, rule in enumerate(obj.get("rules") or ()):
            causes += self._rule(rule, f"rules[{index}]")
        return causes

    def _rule(self, rule: dict[str, Any], field: str) -> list[Cause]:
        causes = []
        if not rule.get("verbs"):
            causes.append(required(f"{field}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if self._namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid(f"{field}.nonResourceURLs", rule["nonResourceURLs"], why))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid(f"{field}.nonResourceURLs", rule["nonResourceURLs"], why))
            return causes
        missing = [name for name in ("apiGroups", "resources") if not rule.get(name)]
        words = "resource rules must supply at least one of"
        return causes + [required(f"{field}.{name}", f"{words} {name}") for name in missing]


class RoleBindingStrategy(Strategy):
    """RoleBinding and ClusterRoleBinding."""

    name_rule: texts.Rule = staticmethod(texts.path_segment)

    def __init__(self, *, namespaced: bool) -> None:
        self._roles = ("ClusterRole", "Role") if namespaced else ("ClusterRole",)
        self._namespaced = namespaced

    def default(self, obj: Object) -> None:
        if (reference := obj.get("roleRef")) is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _GROUP

    def validate_create(self, obj: Object) -> list[Cause]:
        reference = obj.get("roleRef") or {}
        causes = []
        if reference.get("kind") not in self._roles:
            causes.append(not_supported("roleRef.kind", reference.get("kind", ""), self._roles))
        if not reference.get("name"):
            causes.append(required("roleRef.name"))
        for index, subject in enumerate(obj.get("subjects") or ()):
            causes += self._subject(subject, f"subjects[{index}]")
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if new.get("roleRef") != old.get("roleRef"):
            causes.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return causes

    def _subject(self, subject: dict[str, Any], field: str) -> list[Cause]:
        kinds = ("ServiceAccount", "User", "Group")
        causes = []
        if not subject.get("name"):
            causes.append(required(f"{field}.name"))
        if subject.get("kind") not in kinds:
            causes.append(not_supported(f"{field}.kind", subject.get("kind", ""), kinds))
        elif subject["kind"] == "ServiceAccount" and not self._namespaced and not subject.get("namespace"):
            causes.append(required(f"{field}.namespace"))
        return causes
