"""The store of code and logs, the limits of code, and history."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kajitori.blobs.code import CodeLimits
from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.configuration.option_faults import HISTORY_PASSWORD
from kajitori.configuration.policy_file import PolicyFile
from kajitori.history.store import History


async def blobs_of(url: str | None) -> Blobs | None:
    """Open the store of code and logs; None if the options name none."""
    return await open_blobs(url, field="--blobs") if url is not None else None


@asynccontextmanager
async def history_of(url: str | None, password_file: Path | None) -> AsyncIterator[History | None]:
    """Yield the history of these options, and close it at the end; None if they name none.

    Its database is opened at its first use, so that processes start even if the database is down.
    """
    if url is None:
        yield None
        return
    password = os.environ.get(HISTORY_PASSWORD)
    if password_file is not None:
        password = (await asyncio.to_thread(password_file.read_text)).strip()
    history = History(url, password)
    try:
        yield history
    finally:
        await history.close()


def code_limits(policy: PolicyFile) -> Callable[[], CodeLimits]:
    """Return a function that reads the limits of code from the policy in force."""

    def in_force() -> CodeLimits:
        code = policy.current().policy.code
        return CodeLimits(code.archive_bytes, code.namespace_bytes, code.namespace_files)

    return in_force
