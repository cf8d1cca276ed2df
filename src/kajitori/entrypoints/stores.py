"""Where code and kept logs lie, and how much of it there may be."""

from __future__ import annotations

from collections.abc import Callable

from kajitori.blobs.blobs import Blobs
from kajitori.blobs.code import CodeLimits
from kajitori.blobs.opening import open_blobs
from kajitori.configuration.policy_file import PolicyFile


async def blobs_of(url: str | None) -> Blobs | None:
    """The store of code and kept logs, where one is named."""
    return await open_blobs(url, field="--blobs") if url is not None else None


def code_limits(policy: PolicyFile) -> Callable[[], CodeLimits]:
    """Asks for the limits of code that policy in force has now."""

    def in_force() -> CodeLimits:
        code = policy.current().policy.code
        return CodeLimits(code.archive_bytes, code.namespace_bytes, code.namespace_files)

    return in_force
