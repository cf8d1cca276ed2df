"""The store of code and logs, and the limits of code."""

from __future__ import annotations

from collections.abc import Callable

from kajitori.blobs.blobs import Blobs
from kajitori.blobs.code import CodeLimits
from kajitori.blobs.opening import open_blobs
from kajitori.configuration.policy_file import PolicyFile


async def blobs_of(url: str | None) -> Blobs | None:
    """Open the store of code and logs; None if the options name none."""
    return await open_blobs(url, field="--blobs") if url is not None else None


def code_limits(policy: PolicyFile) -> Callable[[], CodeLimits]:
    """Return a function that reads the limits of code from the policy in force."""

    def in_force() -> CodeLimits:
        code = policy.current().policy.code
        return CodeLimits(code.archive_bytes, code.namespace_bytes, code.namespace_files)

    return in_force
