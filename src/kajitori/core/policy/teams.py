"""Policy for teams: the section `teams`, as types. Groups come from the cluster's identity provider."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel

GroupName = Annotated[str, Field(min_length=1, max_length=253)]


class Team(Document):
    """A team: groups of users, and the namespaces in which they work."""

    groups: list[GroupName] = Field(default_factory=list, max_length=100)
    """Groups of users who submit runs, as the API server names them (with its prefix): `oidc:vision`."""
    leads: list[GroupName] = Field(default_factory=list, max_length=100)
    """Groups of users who also give others access to the team's namespaces, and make tokens for robots."""
    viewers: list[GroupName] = Field(default_factory=list, max_length=100)
    """Groups of users who see the team's runs and change nothing."""
    namespaces: list[DnsLabel] = Field(default_factory=list, max_length=100)
    """Namespaces of the team. Left out: the one with the team's name."""

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups of all its members."""
        return (*self.groups, *self.leads, *self.viewers)

    def namespaces_of(self, name: str) -> tuple[str, ...]:
        """Return the namespaces of the team with this name."""
        return tuple(self.namespaces) or (name,)
