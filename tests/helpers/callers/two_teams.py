"""Two teams in a cluster: vision works in the cluster's namespace, speech in another one.

The people are those of tests/harness/servers/identity_provider.py.
"""

from __future__ import annotations

import asyncio

from tests.harness.cluster import Cluster
from tests.harness.servers.identity_provider import PREFIX
from tests.helpers.callers.rights import SUBMIT, until_allowed

from kajitori.cluster.platform.applying import apply
from kajitori.core.naming.names import GROUP, PLURAL
from kajitori.core.policy.teams import Team
from kajitori.install.parts.roles import people, teams
from kajitori.install.parts.teams import team_objects
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import SELF_ACCESS_REVIEWS

PATIENCE_SECONDS = 60.0
OF_USERS = (
    SUBMIT,
    ("get", "", "pods/log"),
    *(("create", "", f"pods/{stream}") for stream in ("exec", "attach", "portforward")),
    ("delete", "", "persistentvolumeclaims"),
    ("create", "", "secrets"),
)
"""A right of each of the roles that make up the role of a team's users."""
OF_LEADS = (*OF_USERS, ("create", "", "serviceaccounts/token"))
OF_VIEWERS = (("get", GROUP, PLURAL),)


def speech_of(cluster: Cluster) -> str:
    return f"{cluster.namespace}-speech"


def teams_of(cluster: Cluster, prefix: str = PREFIX) -> dict[str, dict[str, list[str]]]:
    """Return both teams as the policy has them, with the prefix of their groups' names."""
    others = {"leads": [f"{prefix}vision-leads"], "viewers": [f"{prefix}vision-viewers"]}
    return {
        "vision": {"groups": [f"{prefix}vision"], "namespaces": [cluster.namespace]} | others,
        "speech": {"groups": [f"{prefix}speech"], "namespaces": [speech_of(cluster)]},
    }


async def bind(cluster: Cluster, prefix: str = PREFIX) -> None:
    """Make the roles, and bind the groups of both teams, with the prefix of their names."""
    named = teams_of(cluster, prefix)
    cluster.use_policy(teams=named)
    wanted = {name: Team.model_validate(team) for name, team in named.items()}
    for document in (*people(), *teams(), *team_objects(wanted)):
        await apply(cluster.client, document)
    of_team = [("vision", "groups", OF_USERS), ("vision", "leads", OF_LEADS), ("vision", "viewers", OF_VIEWERS)]
    for team, people_of_team, rights in (*of_team, ("speech", "groups", OF_USERS)):
        (namespace,) = named[team]["namespaces"]
        await until_allowed(cluster.client, namespace, *rights, groups=named[team][people_of_team])


async def may_submit(cluster: Cluster, token: str) -> None:
    """Wait until the user may submit."""
    asked = {"verb": "create", "group": "kajitori.dev", "resource": "runs", "namespace": cluster.namespace}
    review = {
        "apiVersion": SELF_ACCESS_REVIEWS.api_version,
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": asked},
    }
    async with KubeClient(cluster.server.config.with_token(token)) as client, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(int(PATIENCE_SECONDS * 10)):
            if (await client.create(SELF_ACCESS_REVIEWS, review))["status"]["allowed"]:
                return
            await asyncio.sleep(0.1)
