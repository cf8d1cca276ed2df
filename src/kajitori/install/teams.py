"""Objects for the policy's teams: namespaces, and bindings of the teams' groups to roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kajitori.core.policy.teams import Team
from kajitori.install.objects import RBAC, Object, made
from kajitori.install.roles import TEAM_LEAD, TEAM_USER, TEAM_VIEWER


def team_objects(teams: Mapping[str, Team]) -> list[Object]:
    """Return the namespaces of all teams, then a binding for each role that a team gives in a namespace."""
    places = {namespace: None for name, team in teams.items() for namespace in team.namespaces_of(name)}
    found = [made("v1", "Namespace", namespace) for namespace in places]
    for name, team in teams.items():
        for namespace in team.namespaces_of(name):
            for role, groups in ((TEAM_VIEWER, team.viewers), (TEAM_USER, team.groups), (TEAM_LEAD, team.leads)):
                if groups:
                    found.append(_binding(name, namespace, role, groups))
    return found


def _binding(team: str, namespace: str, role: str, groups: Iterable[str]) -> Object:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups]
    name = f"{role}-{team}"
    return made(f"{RBAC}/v1", "RoleBinding", name, namespace, roleRef=reference, subjects=subjects)
