"""Keeps the namespaces and role bindings of the policy's teams in the cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kajitori.cluster.platform.applying import put, remove, resource_of
from kajitori.cluster.platform.keeping import Keeper
from kajitori.core.naming.names import MANAGED
from kajitori.core.policy.teams import Team
from kajitori.errors import NotFound
from kajitori.install.parts.objects import identity
from kajitori.install.parts.teams import is_left_over, team_objects
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import ROLE_BINDINGS

log = logging.getLogger(__name__)

Teams = Mapping[str, Team]


class TeamKeeper(Keeper[Teams]):
    """Applies the objects of `team_objects`, and deletes bindings of teams that left the policy. It needs the
    ClusterRole `kajitori-team-keeper`. Namespaces stay: they contain people's data."""

    def __init__(self, client: KubeClient, teams: Callable[[], Teams], clock: Callable[[], float]) -> None:
        super().__init__(teams, clock)
        self._client = client

    async def _apply(self, wanted: Teams) -> None:
        try:
            bound = (await self._client.list(ROLE_BINDINGS, label_selector=MANAGED)).items
        except NotFound:
            return  # an embedded API server without roles
        objects = team_objects(wanted)
        for document in objects:
            await put(self._client, resource_of(document), document)
        kept = {identity(document) for document in objects}
        for binding in bound:
            described = {"apiVersion": ROLE_BINDINGS.api_version, "kind": ROLE_BINDINGS.kind, **binding}
            if is_left_over(described, kept):
                await remove(self._client, identity(described))
                log.info("removed the role binding %(namespace)s/%(name)s of a former team", binding["metadata"])

    def _report(self, message: str, wanted: Teams) -> None:
        text = "the policy's teams are not applied here: %s. kaji install --policy FILE applies them"
        level = logging.DEBUG if not wanted else logging.INFO if self._applied is None else logging.WARNING
        log.log(level, text, message)
