"""Teams of the policy, and the roles that their bindings grant."""

from __future__ import annotations

from typing import Any

from kajitori.core.policy.file import parse_policy
from kajitori.install.parts.objects import AGGREGATE_TO
from kajitori.install.parts.roles import people, teams
from kajitori.install.parts.teams import team_objects

POLICY = """
teams:
  vision: {groups: [oidc:vision], leads: [oidc:vision-leads], namespaces: [vision, vision-tests]}
  speech: {viewers: [oidc:everybody]}
"""


def test_a_team_becomes_namespaces_and_bindings() -> None:
    """Without a list of namespaces, a team works in the one with its name."""
    found = team_objects(parse_policy(POLICY).teams)
    named = [
        (document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"])
        for document in found
    ]
    assert named == [
        ("Namespace", "", "vision"),
        ("Namespace", "", "vision-tests"),
        ("Namespace", "", "speech"),
        ("RoleBinding", "vision", "kajitori-team-user-vision"),
        ("RoleBinding", "vision", "kajitori-team-lead-vision"),
        ("RoleBinding", "vision-tests", "kajitori-team-user-vision"),
        ("RoleBinding", "vision-tests", "kajitori-team-lead-vision"),
        ("RoleBinding", "speech", "kajitori-team-viewer-speech"),
    ]
    (subject,) = found[3]["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "oidc:vision")


def rights(role: str) -> set[tuple[str, str]]:
    """Return the rights of an aggregated role: resources and verbs."""
    (wanted,) = [document for document in teams() if document["metadata"]["name"] == role]
    (selector,) = wanted["aggregationRule"]["clusterRoleSelectors"]
    parts: list[dict[str, Any]] = [
        document for document in people() if selector["matchLabels"].items() <= document["metadata"]["labels"].items()
    ]
    return {
        (resource, verb)
        for part in parts
        for rule in part["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_each_role_has_exactly_its_rights() -> None:
    """Only users see logs and run programs in members, only leads give others access, and only operators change
    nodes."""
    assert rights("kajitori-team-viewer") == {("runs", verb) for verb in ("get", "list", "watch")}
    user, lead = rights("kajitori-team-user"), rights("kajitori-team-lead")
    assert user < lead and {("pods/exec", "create"), ("pods/log", "get"), ("runs", "create")} <= user
    assert ("runs", "administer") in lead - user
    assert {resource for resource, _ in lead - user - {("runs", "administer")}} == {
        "serviceaccounts",
        "serviceaccounts/token",
        "rolebindings",
        "clusterroles",
    }
    operator = rights("kajitori-operators")
    assert {("nodes", "patch"), ("runs", "delete")} <= operator
    assert not {"secrets", "pods/exec"} & {resource for resource, _ in operator}
    assert all(label.startswith(AGGREGATE_TO) for document in teams() for label in _selected(document))


def _selected(role: dict[str, Any]) -> list[str]:
    return [label for one in role["aggregationRule"]["clusterRoleSelectors"] for label in one["matchLabels"]]
