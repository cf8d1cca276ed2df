"""Removal of blobs that no run needs any more, and of ended runs that are older than policy keeps them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from kajitori.blobs.code import CodeStore
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.runs.stored_runs import code_digests
from kajitori.cluster.view import ClusterView
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.workqueue import Key
from kajitori.core.formats.times import format_time
from kajitori.core.policy.model import Logs
from kajitori.core.spec.reasons import Reason
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)

TIDY_SECONDS = 900.0
"""Time between two collections of kept logs, which could fill the store within hours."""
LOOKS_PER_CODE = 12
"""Number of collections of kept logs for each collection of code."""
EXPIRE_SECONDS = 300.0
UNREFERENCED_CODE = timedelta(hours=12)
"""Age from which uploaded code that no run refers to is deleted."""


async def tidy_forever(
    mirror: Mirror, cluster: ClusterView, logs: LogKeeper | None, code: CodeStore | None, *, outlives: bool = False
) -> None:
    """Regularly remove kept logs and code that no run has, and logs beyond policy's limits, until cancelled.

    With `outlives`, logs and results of removed runs stay for as long as policy keeps logs: history refers to them.
    """
    await mirror.wait_synced()
    for look in itertools.count():
        some_code = code if look % LOOKS_PER_CODE == 0 else None
        await tidy(mirror, cluster.policy.logs, logs, some_code, outlives=outlives)
        await asyncio.sleep(TIDY_SECONDS)


async def expire_forever(
    mirror: Mirror, cluster: ClusterView, now: Callable[[], datetime], look_at: Callable[..., None]
) -> None:
    """Regularly queue ended runs that policy no longer keeps, until cancelled.

    A run's own alarm follows the policy that was in force when the run was reconciled last.
    """
    await mirror.wait_synced()
    while True:
        await asyncio.sleep(EXPIRE_SECONDS)
        look_at(*overdue(mirror, cluster.policy.ended_runs.keep_for_seconds, now()))


def overdue(mirror: Mirror, keep_for_seconds: int | None, now: datetime) -> list[Key]:
    """Return the runs that ended more than `keep_for_seconds` ago; none if that is None."""
    if keep_for_seconds is None:
        return []
    limit = format_time(now - timedelta(seconds=keep_for_seconds))
    return [
        key
        for key, run in mirror.runs.items()
        if run.status is not None
        and run.status.phase.is_final
        and run.status.reason is not Reason.NOT_STARTED
        and "" < run.status.finished_at < limit
    ]


async def tidy(
    mirror: Mirror, rules: Logs, logs: LogKeeper | None, code: CodeStore | None, *, outlives: bool = False
) -> None:
    """Remove what no run needs from the store, once. Failures are repeated the next time. For `outlives` see
    `tidy_forever`.

    Nothing is removed while the mirror is behind, because it does not know the newest runs.
    """
    if mirror.age_seconds():
        return
    if logs is not None:
        await logs.collect({run.metadata.uid for run in mirror.runs.values()}, rules, outlives=outlives)
    if code is not None:
        try:
            await code.collect(lambda: referenced_code(mirror), UNREFERENCED_CODE)
        except KajitoriError as error:
            log.warning("code was not tidied up: %s", error)


def referenced_code(mirror: Mirror) -> set[tuple[str, str]]:
    """Return (namespace, digest) of all code that Runs refer to, in their specs and in their attempts."""
    return {(namespace, digest) for (namespace, _), run in mirror.runs.items() for digest in code_digests(run)}
