"""The policy in force: read from its file, read again when the file changes; a faulty file changes nothing."""

from __future__ import annotations

from pathlib import Path

from kajitori.configuration.followed_file import FollowedFile, InForce
from kajitori.core.policy.file import Policy, default_policy, parse_policy


class PolicyInForce(InForce[Policy]):
    """What counts now."""

    __slots__ = ()

    @property
    def policy(self) -> Policy:
        return self.value


class PolicyFile(FollowedFile[Policy, PolicyInForce]):
    """Asked for the policy, it looks whether the file changed, unless it did so a moment ago."""

    def __init__(self, path: Path | None, *, without_file: Policy | None = None, required: bool = False) -> None:
        """As FollowedFile; without a file and `without_file` the default policy counts."""
        without = without_file or default_policy()
        super().__init__(path, "policy", parse_policy, PolicyInForce, without_file=without, required=required)
