"""Blobs that belong to a run: their keys are PREFIX/NAMESPACE/UID/..., and they are removed with the run."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from datetime import timedelta

from kajitori.blobs.stores.blobs import Blob, Blobs


async def forget_run(
    blobs: Blobs, prefix: str, namespace: str, run_uid: str, *, up_to_attempt: int | None = None
) -> None:
    """Remove the blobs of a run. With `up_to_attempt`, remove only the blobs of its oldest attempts; the attempt is
    then the part of the key behind the UID."""
    async with aclosing(blobs.under(f"{prefix}/{namespace}/{run_uid}")) as found:
        keys = [
            blob.key async for blob in found if up_to_attempt is None or int(blob.key.split("/")[3]) <= up_to_attempt
        ]
    if keys:
        await blobs.delete(*keys)


async def collect_runs(
    blobs: Blobs, prefix: str, runs: Collection[str], keep_for: timedelta | None = None, *, least_age: timedelta
) -> int:
    """Remove blobs that are older than `keep_for`, and those that belong to no run in `runs` (UIDs) and are older than
    `least_age`. Return their number."""
    now = await blobs.now()
    async with aclosing(blobs.under(prefix)) as found:
        left = [
            blob.key
            async for blob in found
            if (keep_for is not None and now - blob.modified_at > keep_for)
            or (now - blob.modified_at > least_age and run_uid_of(blob) not in runs)
        ]
    if left:
        await blobs.delete(*left)
    return len(left)


def run_uid_of(blob: Blob) -> str:
    """Return the UID of the run that a blob belongs to."""
    return blob.key.split("/")[2]
