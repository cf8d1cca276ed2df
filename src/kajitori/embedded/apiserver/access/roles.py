"""Role-based access control (rbac.authorization.k8s.io/v1): what roles and their bindings allow a user.

The rules are those of kube-apiserver: roles only allow, nothing denies, and users cannot grant rights that they lack.
The rules of an aggregated ClusterRole are collected when they are needed, so no controller has to write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kajitori.core.kubernetes.selectors import label_selector_of
from kajitori.embedded.apiserver.auth import ANONYMOUS, MASTERS, Attributes, User, denial
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.kube.resources import Resource

GROUP = "rbac.authorization.k8s.io"
API_VERSION = f"{GROUP}/v1"
ROLES = Resource(GROUP, "v1", "roles", "Role")
CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

ACCOUNT_PREFIX = "system:serviceaccount:"
_ALL = "*"


class RoleView(Protocol):
    """The stored objects."""

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object, or None."""

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """Return all objects, in one namespace or (with "") in all."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules that a binding gives to a user, everywhere or in one namespace."""

    rules: tuple[Mapping[str, Any], ...]
    namespace: str = ""
    """Empty: everywhere."""


def rule_allows(rule: Mapping[str, Any], asked: Attributes) -> bool:
    """Return whether one rule of a role allows this."""
    if not _rule_names(rule, "verbs", asked.verb):
        return False
    if asked.path:
        return any(_path_matches(pattern, asked.path) for pattern in rule.get("nonResourceURLs") or ())
    combined = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = {_ALL, combined} | ({f"*/{asked.subresource}"} if asked.subresource else set())
    if not _rule_names(rule, "apiGroups", asked.group) or wanted.isdisjoint(rule.get("resources") or ()):
        return False
    only = rule.get("resourceNames") or ()
    return not only or asked.name in only


def rule_is_covered(rule: Mapping[str, Any], by: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether other rules allow everything that this rule allows (kube-apiserver `validation.Covers`)."""
    owned = list(by)
    return all(any(rule_allows(one, part) for one in owned) for part in _single_permissions(rule))


def _single_permissions(rule: Mapping[str, Any]) -> Iterator[Attributes]:
    """Yield every single permission of a rule. A `*` is kept, since only another rule with `*` covers it."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plural, _, subresource = resource.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield Attributes(verb, group, "", plural, subresource, "", name)


def _rule_names(rule: Mapping[str, Any], field: str, value: str) -> bool:
    listed = rule.get(field) or ()
    return _ALL in listed or value in listed


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith(_ALL) and path.startswith(pattern[:-1]))


def is_subject(subject: Mapping[str, Any], user: User, namespace: str) -> bool:
    """Return whether a subject of a binding in this namespace names the user, or a group of the user."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    where = subject.get("namespace") or namespace
    return bool(kind == "ServiceAccount" and where and user.name == f"{ACCOUNT_PREFIX}{where}:{name}")


class RoleAuthorizer:
    """Decides by the roles and bindings that are stored."""

    def __init__(self, view: RoleView) -> None:
        self._view = view

    def refusal(self, user: User, attributes: Attributes) -> str:
        """Return an empty text if a role of the user allows this, else the reason for a 403. `system:masters` may do
        everything."""
        if MASTERS in user.groups:
            return ""
        for grant in self.grants(user, attributes.namespace):
            if any(rule_allows(rule, attributes) for rule in grant.rules):
                return ""
        return denial(user, attributes)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield the rules that bindings give a user everywhere, and in this namespace if it is not empty."""
        for binding in self._view.list(CLUSTER_ROLE_BINDINGS):
            if any(is_subject(one, user, "") for one in binding.get("subjects") or ()):
                yield Grant(self.rules_of(binding["roleRef"], ""))
        if not namespace:
            return
        for binding in self._view.list(ROLE_BINDINGS, namespace):
            if any(is_subject(one, user, namespace) for one in binding.get("subjects") or ()):
                yield Grant(self.rules_of(binding["roleRef"], namespace), namespace)

    def rules_of(self, reference: Mapping[str, Any], namespace: str) -> tuple[Mapping[str, Any], ...]:
        """Return the rules of the role that a binding refers to; none if it does not exist."""
        if reference.get("kind") == "Role":
            role = self._view.get(ROLES, namespace, reference.get("name", ""))
            return tuple((role or {}).get("rules") or ())
        role = self._view.get(CLUSTER_ROLES, "", reference.get("name", ""))
        return self.rules_of_cluster_role(role) if role is not None else ()

    def rules_of_cluster_role(self, role: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> tuple[Any, ...]:
        """Return the rules of a ClusterRole; those of all roles that it selects, if it aggregates."""
        name = role["metadata"].get("name", "")
        if not role.get("aggregationRule"):
            return tuple(role.get("rules") or ())
        seen |= {name}
        found: list[Mapping[str, Any]] = []
        for document in role["aggregationRule"].get("clusterRoleSelectors") or ():
            selector = label_selector_of(document)
            for other in self._view.list(CLUSTER_ROLES):
                meta = other["metadata"]
                if meta["name"] not in seen and selector is not None and selector.matches(meta.get("labels") or {}):
                    found += self.rules_of_cluster_role(other, seen)
        return tuple(found)

    # ------------------------------------------------------------------------------------------ escalation

    def escalation(self, user: User, kind: str, namespace: str, obj: Object) -> str:
        """Return the reason for which a user may not write this role or binding; empty if the user may.

        It is refused if it grants rights that the user lacks, and the user may neither `escalate` roles nor `bind` this
        one.
        """
        if MASTERS in user.groups:
            return ""
        if kind in ("Role", "ClusterRole"):
            granted: tuple[Mapping[str, Any], ...] = tuple(obj.get("rules") or ())
            if kind == "ClusterRole" and obj.get("aggregationRule"):
                granted = ({"verbs": [_ALL], "apiGroups": [_ALL], "resources": [_ALL]},)
            plural = ROLES.plural if kind == "Role" else CLUSTER_ROLES.plural
            verb, name = "escalate", obj["metadata"].get("name", "")
        else:
            reference = obj["roleRef"]
            granted = self.rules_of(reference, namespace)
            plural = ROLES.plural if reference.get("kind") == "Role" else CLUSTER_ROLES.plural
            verb, name = "bind", reference.get("name", "")
        if not self.refusal(user, Attributes(verb, GROUP, "v1", plural, "", namespace, name)):
            return ""
        owned = [rule for grant in self.grants(user, namespace) for rule in grant.rules]
        lacking = [rule for rule in granted if not rule_is_covered(rule, owned)]
        if not lacking and (granted or verb == "escalate"):
            return ""
        return f'user "{user.name}" is attempting to grant RBAC permissions not currently held: {_rules_text(lacking)}'

    def rules_review(self, user: User, namespace: str) -> dict[str, Any]:
        """Return the status of a SelfSubjectRulesReview."""
        rules = [rule for grant in self.grants(user, namespace) for rule in grant.rules]
        if MASTERS in user.groups:
            everything = {"verbs": [_ALL]}
            rules = [everything | {"apiGroups": [_ALL], "resources": [_ALL]}, everything | {"nonResourceURLs": [_ALL]}]
        return {
            "resourceRules": [dict(rule) for rule in rules if not rule.get("nonResourceURLs")],
            "nonResourceRules": [dict(rule) for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


def _rules_text(rules: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{', '.join(rule.get('verbs') or ())} {', '.join(rule.get('resources') or rule.get('nonResourceURLs') or ())}"
        for rule in rules
    )


def account_groups(user_name: str) -> tuple[str, ...]:
    """Return the groups of a service account's user."""
    namespace = user_name.removeprefix(ACCOUNT_PREFIX).partition(":")[0]
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


# ---------------------------------------------------------------------------------------------- default roles


def default_objects() -> list[tuple[Resource, Object]]:
    """Return the roles and bindings that every cluster has from the start, as kube-apiserver makes them."""
    readable = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
    readable += ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    public = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    reviews = {"authorization.k8s.io": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}
    reviews["authentication.k8s.io"] = ["selfsubjectreviews"]
    every = [
        {"verbs": [_ALL], "apiGroups": [_ALL], "resources": [_ALL]},
        {"verbs": [_ALL], "nonResourceURLs": [_ALL]},
    ]
    basic = [{"verbs": ["create"], "apiGroups": [group], "resources": plurals} for group, plurals in reviews.items()]
    return [
        *_default_role("cluster-admin", every, (MASTERS,)),
        *_default_role(
            "system:discovery", [{"verbs": ["get"], "nonResourceURLs": readable}], ("system:authenticated",)
        ),
        *_default_role("system:basic-user", basic, ("system:authenticated",)),
        *_default_role(
            "system:public-info-viewer",
            [{"verbs": ["get"], "nonResourceURLs": public}],
            ("system:authenticated", *ANONYMOUS.groups),
        ),
    ]


def _default_role(name: str, rules: list[Any], groups: Iterable[str]) -> list[tuple[Resource, Object]]:
    metadata = {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
    binding = {
        "metadata": {**metadata},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }
    return [(CLUSTER_ROLES, {"metadata": metadata, "rules": rules}), (CLUSTER_ROLE_BINDINGS, binding)]
