"""The address registry in force, which follows changes of its file as the policy does."""

from __future__ import annotations

from pathlib import Path

from kajitori.configuration.followed_file import FollowedFile, InForce
from kajitori.core.network.registry.model import Networks
from kajitori.core.network.registry.parsing import parse_networks


class NetworksInForce(InForce[Networks]):
    """The address registry that is in force now."""

    __slots__ = ()

    @property
    def networks(self) -> Networks:
        return self.value


class NetworksFile(FollowedFile[Networks, NetworksInForce]):
    """The file of the address registry. The registry is empty if there is no file."""

    def __init__(self, path: Path | None, *, required: bool = False) -> None:
        super().__init__(path, "networks", parse_networks, NetworksInForce, without_file=Networks(), required=required)
