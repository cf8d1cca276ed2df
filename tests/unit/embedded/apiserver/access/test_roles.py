"""Roles: what they allow, and that no user can grant more rights than they have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kajitori.embedded.apiserver.access.roles import (
    RoleAuthorizer,
    account_groups,
    default_objects,
    is_subject,
    rule_allows,
    rule_is_covered,
)
from kajitori.embedded.apiserver.auth import ADMINISTRATOR, ANONYMOUS, Attributes, User
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.kube.resources import Resource

RUNS = {"verbs": ["get", "list"], "apiGroups": ["kajitori.dev"], "resources": ["runs"]}
ALICE = User("oidc:alice", ("oidc:vision", "system:authenticated"))
BOB = User("oidc:bob", ("oidc:speech", "system:authenticated"))
GROUP = "rbac.authorization.k8s.io"


class Stored:
    """Roles and bindings by kind, namespace and name."""

    def __init__(self, *objects: tuple[str, Object]) -> None:
        self.objects = [(resource.kind, obj) for resource, obj in default_objects()] + list(objects)

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = (one for one in self.list(resource, namespace) if one["metadata"]["name"] == name)
        return next(found, None)

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        return [
            obj
            for kind, obj in self.objects
            if kind == resource.kind and namespace in ("", obj["metadata"].get("namespace", ""))
        ]


def role(name: str, *rules: dict[str, Any], labels: dict[str, str] | None = None) -> tuple[str, Object]:
    return "ClusterRole", {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}


def bound(name: str, to: str, namespace: str = "vision") -> tuple[str, Object]:
    subjects = [{"kind": "Group", "apiGroup": GROUP, "name": to}]
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    metadata = {"name": f"{to}-{name}", "namespace": namespace}
    return "RoleBinding", {"metadata": metadata, "roleRef": reference, "subjects": subjects}


def bound_everywhere(name: str, to: str) -> tuple[str, Object]:
    _, binding = bound(name, to, "")
    return "ClusterRoleBinding", binding


def runs(verb: str, namespace: str, name: str = "") -> Attributes:
    return Attributes(verb, "kajitori.dev", "v1alpha1", "runs", "", namespace, name)


def test_a_binding_counts_in_its_namespace_for_its_group() -> None:
    decides = RoleAuthorizer(Stored(role("viewer", RUNS), bound("viewer", "oidc:vision")))
    assert decides.refusal(ALICE, runs("list", "vision")) == ""
    for user, asked in (
        (ALICE, runs("list", "speech")),
        (ALICE, runs("list", "")),
        (ALICE, runs("delete", "vision")),
        (BOB, runs("list", "vision")),
        (ANONYMOUS, runs("list", "vision")),
    ):
        assert user.name in decides.refusal(user, asked)
    assert decides.refusal(ADMINISTRATOR, runs("delete", "speech")) == ""


@pytest.mark.parametrize(
    ("subject", "named"),
    [
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "vision"}, True),
        ({"kind": "ServiceAccount", "name": "robot"}, True),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "speech"}, False),
        ({"kind": "ServiceAccount", "name": "other", "namespace": "vision"}, False),
        ({"kind": "User", "name": "system:serviceaccount:vision:robot"}, True),
        ({"kind": "User", "name": "robot", "namespace": "vision"}, False),
        ({"kind": "Group", "name": "system:serviceaccounts:vision"}, True),
        ({"kind": "Group", "name": "system:serviceaccounts:speech"}, False),
    ],
)
def test_a_binding_names_service_accounts_by_namespace(subject: dict[str, Any], named: bool) -> None:
    """The binding's own namespace, if the subject has none."""
    account = "system:serviceaccount:vision:robot"
    assert is_subject(subject, User(account, account_groups(account)), "vision") is named


def test_a_review_lists_the_rules_of_the_user() -> None:
    decides = RoleAuthorizer(Stored(role("viewer", RUNS), bound("viewer", "oidc:vision")))
    assert RUNS in decides.rules_review(ALICE, "vision")["resourceRules"]
    assert RUNS not in decides.rules_review(BOB, "vision")["resourceRules"]
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert decides.rules_review(ADMINISTRATOR, "vision")["resourceRules"] == [everything]


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["a"]}, True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["b"]}, False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, False),
        ({"verbs": ["list"], "apiGroups": [""], "resources": ["pods/log"]}, False),
        ({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods/log"]}, False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, False),
    ],
)
def test_a_rule_names_verb_group_resource_and_object(rule: dict[str, Any], allowed: bool) -> None:
    assert rule_allows(rule, Attributes("get", "", "v1", "pods", "log", "x", "a")) is allowed


def test_paths_are_allowed_by_prefix() -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": ["/apis/*", "/version"]}
    assert rule_allows(rule, Attributes("get", path="/apis/kajitori.dev"))
    for other in ("/metrics", "/version/x", "/versions"):
        assert not rule_allows(rule, Attributes("get", path=other))
    decides = RoleAuthorizer(Stored())
    assert decides.refusal(ALICE, Attributes("get", path="/openapi/v3")) == ""
    assert decides.refusal(ANONYMOUS, Attributes("get", path="/readyz")) == ""
    assert decides.refusal(ANONYMOUS, Attributes("get", path="/openapi/v3")) != ""


def test_an_aggregated_role_has_the_rules_of_those_it_selects() -> None:
    """Also of aggregated ones, and in circles."""

    def aggregated(name: str, label: str, **labels: str) -> tuple[str, Object]:
        rule = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        return "ClusterRole", {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule, "rules": []}

    decides = RoleAuthorizer(
        Stored(
            role("part", RUNS, labels={"to-user": "true"}),
            aggregated("user", "to-user", **{"to-lead": "true", "to-user": "true"}),
            aggregated("lead", "to-lead", **{"to-user": "true"}),
            bound("lead", "oidc:vision"),
        )
    )
    assert decides.refusal(ALICE, runs("list", "vision")) == ""
    assert decides.refusal(ALICE, runs("delete", "vision")) != ""


def test_a_user_cannot_grant_rights_that_they_lack() -> None:
    """Unless they may bind that role, or escalate roles."""
    binds = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["admin"]}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    stored = Stored(role("viewer", RUNS), role("admin", everything), bound("viewer", "oidc:vision"))
    decides = RoleAuthorizer(stored)

    def refused(kind: str, obj: Object) -> bool:
        return bool(decides.escalation(ALICE, kind, "vision", obj))

    assert not refused("RoleBinding", bound("viewer", "x")[1])
    assert refused("RoleBinding", bound("admin", "x")[1])
    assert refused("RoleBinding", bound("nosuch", "x")[1])
    assert not refused("Role", role("mine", RUNS)[1])
    assert not refused("ClusterRole", role("mine", RUNS)[1])
    assert refused("Role", role("mine", RUNS | {"verbs": ["delete"]})[1])
    assert refused("ClusterRole", role("metrics", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]})[1])
    assert refused("ClusterRole", {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}})
    stored.objects += [role("binder", binds), bound("binder", "oidc:vision")]
    assert not refused("RoleBinding", bound("admin", "x")[1])


def test_only_a_wildcard_covers_a_wildcard() -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert rule_is_covered(everything, [everything])
    assert rule_is_covered(RUNS, [everything])
    assert not rule_is_covered(everything, [RUNS])
    named = RUNS | {"resourceNames": ["a"]}
    assert rule_is_covered(named, [RUNS]) and not rule_is_covered(RUNS, [named])
