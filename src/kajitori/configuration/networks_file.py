"""The address registry in force: as the policy, read from its file as that changes."""

from __future__ import annotations

from pathlib import Path

from kajitori.configuration.followed_file import FollowedFile, InForce
from kajitori.core.network.registry import Networks, parse_networks


class NetworksInForce(InForce[Networks]):
    """What counts now."""

    __slots__ = ()

    @property
    def networks(self) -> Networks:
        return self.value


class NetworksFile(FollowedFile[Networks, NetworksInForce]):
    """Asked for the registry, it looks whether the file changed; without a file there is an empty one."""

    def __init__(self, path: Path | None, *, required: bool = False) -> None:
        super().__init__(path, "networks", parse_networks, NetworksInForce, without_file=Networks(), required=required)
