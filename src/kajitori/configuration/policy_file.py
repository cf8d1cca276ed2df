"""The policy in force, which follows changes of its file. A faulty file leaves the last valid policy in force."""

from __future__ import annotations

from pathlib import Path

from kajitori.configuration.followed_file import FollowedFile, InForce
from kajitori.core.policy.file import Policy, default_policy, parse_policy


class PolicyInForce(InForce[Policy]):
    """The policy that is in force now."""

    __slots__ = ()

    @property
    def policy(self) -> Policy:
        return self.value


class PolicyFile(FollowedFile[Policy, PolicyInForce]):
    """The policy file, which is checked for changes when the policy is asked for."""

    def __init__(self, path: Path | None, *, without_file: Policy | None = None, required: bool = False) -> None:
        """See FollowedFile. Without a file and without `without_file`, the default policy is in force."""
        without = without_file or default_policy()
        super().__init__(path, "policy", parse_policy, PolicyInForce, without_file=without, required=required)
