"""The health of a run's members in its status, and what kubelets say of failed checks."""

from __future__ import annotations

import msgspec

OUTPUT_LENGTH = 500
"""Characters of a check's output that are kept in the run's status."""


class RunHealth(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Health of the running members, by the run's health check."""

    status: str
    """unhealthy if any member is; healthy if all members run and are healthy; else starting."""
    since: str = ""
    """Time since which that holds; empty while members are starting."""
    healthy: int = 0
    starting: int = 0
    """Members in which no check has succeeded yet."""
    unhealthy: int = 0
    ranks: str = ""
    """Unhealthy ranks as ranges, at most the first 64."""
    output: str = ""
    """Output of the last failed check of the first unhealthy member, or why the check failed."""

    @property
    def is_healthy(self) -> bool:
        """Whether all members run and are healthy."""
        return self.status == "healthy"

    def describe(self, members: int) -> str:
        """Return it in a sentence; `members` is the number of the run's members."""
        if self.unhealthy:
            ranks = f"{'rank' if self.ranks.isdecimal() else 'ranks'} {self.ranks}"
            several = f" in {self.unhealthy} of {members} members ({ranks})" if members > 1 else ""
            return f"its health check fails{several}{f': {self.output}' if self.output else ''}"
        if self.is_healthy:
            return "its health check succeeds" if members == 1 else f"the health checks of {members} members succeed"
        return "its health check has not succeeded yet"


def output_of_check(message: str) -> str:
    """Return what a failed check printed, from the message of a kubelet's Event: `Readiness probe failed: no file`."""
    head, colon, rest = message.partition(": ")
    text = rest if colon and " probe " in head else message
    return text.replace("\0", "").strip()  # of a check that prints bytes
