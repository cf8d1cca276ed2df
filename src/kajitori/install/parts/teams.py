"""Objects for the policy's teams: namespaces, and bindings of the teams' groups to roles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kajitori.core.policy.teams import Team
from kajitori.install.parts.objects import RBAC, Identity, Object, identity, made
from kajitori.install.parts.roles import TEAM_LEAD, TEAM_USER, TEAM_VIEWER


def team_objects(teams: Mapping[str, Team]) -> list[Object]:
    """Return the namespaces of all teams, then a binding for each role that a team gives in a namespace."""
    places = {namespace: None for name, team in teams.items() for namespace in team.namespaces_of(name)}
    found = [made("v1", "Namespace", namespace) for namespace in places]
    for name, team in teams.items():
        for namespace in team.namespaces_of(name):
            for role, groups in ((TEAM_VIEWER, team.viewers), (TEAM_USER, team.groups), (TEAM_LEAD, team.leads)):
                if groups:
                    found.append(_role_binding(name, namespace, role, groups))
    return found


def is_left_over(binding: Mapping[str, Any], kept: Collection[Identity]) -> bool:
    """Return whether a RoleBinding of ours belongs to a team, or to a role in a team, that the policy no longer has.
    Bindings of robots have other names."""
    role = binding["roleRef"]["name"]
    is_of_team = role in (TEAM_VIEWER, TEAM_USER, TEAM_LEAD) and binding["metadata"]["name"].startswith(f"{role}-")
    return is_of_team and identity(binding) not in kept


def _role_binding(team: str, namespace: str, role: str, groups: Iterable[str]) -> Object:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups]
    name = f"{role}-{team}"
    return made(f"{RBAC}/v1", "RoleBinding", name, namespace, roleRef=reference, subjects=subjects)
