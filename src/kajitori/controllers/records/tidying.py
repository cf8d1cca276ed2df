"""Remove blobs that no run needs any more; find ended runs that are older than policy keeps them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from kajitori.blobs.code import CodeStore
from kajitori.cluster.runs.stored_runs import code_digests
from kajitori.cluster.view import ClusterView
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.workqueue import Key
from kajitori.core.policy.model import Logs
from kajitori.core.words.times import format_time
from kajitori.errors import KajitoriError
from kajitori.kube.mirror.mirror import Mirror

log = logging.getLogger(__name__)

TIDY_SECONDS = 900.0
"""Between two looks at kept logs, which could fill the store in hours."""
LOOKS_PER_CODE = 12
"""As many looks at kept logs come between two at code."""
EXPIRE_SECONDS = 300.0
UNREFERENCED_CODE = timedelta(hours=12)
"""Whoever uploaded code has that long to submit his run."""


async def tidy_forever(mirror: Mirror, cluster: ClusterView, logs: LogKeeper | None, code: CodeStore | None) -> None:
    """Now and then removes kept logs and code that no run has, and logs that are too old or many; until cancelled."""
    await mirror.wait_synced()
    for look in itertools.count():
        await tidy(mirror, cluster.policy.logs, logs, code if look % LOOKS_PER_CODE == 0 else None)
        await asyncio.sleep(TIDY_SECONDS)


async def expire_forever(
    mirror: Mirror, cluster: ClusterView, now: Callable[[], datetime], look_at: Callable[..., None]
) -> None:
    """Have ended runs reconciled that policy does not keep any longer, until cancelled: a run's own alarm is set by the
    policy that was in force when it was looked at last."""
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
        if run.status is not None and run.status.phase.is_final and "" < run.status.finished_at < limit
    ]


async def tidy(mirror: Mirror, rules: Logs, logs: LogKeeper | None, code: CodeStore | None) -> None:
    """One look through the store. What cannot be done now is done the next time.

    A mirror that is cut off does not know the runs that were submitted since: then nothing is removed.
    """
    if mirror.age_seconds():
        return
    if logs is not None:
        await logs.collect({run.metadata.uid for run in mirror.runs.values()}, rules)
    if code is not None:
        try:
            await code.collect(lambda: referenced_code(mirror), UNREFERENCED_CODE)
        except KajitoriError as error:
            log.warning("code was not tidied up: %s", error)


def referenced_code(mirror: Mirror) -> set[tuple[str, str]]:
    """Namespace and digest of the code of every Run: what it asks for, and what its attempt was made with."""
    return {(namespace, digest) for (namespace, _), run in mirror.runs.items() for digest in code_digests(run)}
