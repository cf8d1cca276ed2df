"""The end of the output of runs that have failed, for the messages about them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core.naming import names
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient

LOG_SECONDS = 5.0
"""Longest time for reading the output of one run."""
MOST_OUTPUTS = 10
"""If more runs than this fail at once, no output is read: their digest shows none."""
_LOG_BYTES = 64 * 1024


class FailureOutput:
    """Reads the output of members that failed, from their Pods or from the kept logs."""

    def __init__(self, client: KubeClient, view: ClusterView, kept_logs: KeptLogs | None) -> None:
        self._client = client
        self._view = view
        self._kept_logs = kept_logs

    async def ends_of_output(self, runs: Sequence[RunObject]) -> dict[str, str]:
        """Return the last lines of output by UID of the run. If many runs failed at once, a digest lists them without
        output, so nothing is read."""
        if len(runs) > MOST_OUTPUTS:
            return {}
        ends = await asyncio.gather(*map(self._last_lines, runs))
        return {run.metadata.uid: end for run, end in zip(runs, ends, strict=True)}

    async def _last_lines(self, run: RunObject) -> str:
        """Return the end of the output of the member that failed first; empty if it cannot be read at once."""
        lines, status, meta = self._view.policy.notifications.log_lines, run.current_status, run.metadata
        if not lines or not status.attempts:
            return ""
        worst = min((one for one in status.notable if one.exit_code), key=lambda one: one.since, default=None)
        rank, attempt = (worst.rank, worst.attempt or status.attempts) if worst is not None else (0, status.attempts)
        pod = names.pod_name(meta.name, attempt, rank)
        for read in (
            partial(self._output_of_pod, meta.namespace, pod, lines),
            partial(self._kept_output, run, attempt, rank),
        ):
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    content = await read()
            except (KajitoriError, TimeoutError):
                continue
            if content:
                text = content[-_LOG_BYTES:].decode(errors="replace")
                return "\n".join(_without_time(line) for line in text.splitlines()[-lines:])
        return ""

    async def _output_of_pod(self, namespace: str, pod: str, lines: int) -> bytes:
        stream = await self._client.open_log(
            namespace, pod, container=names.MEMBER_CONTAINER, follow=False, tail_lines=lines, timestamps=True
        )
        async with stream, aclosing(aiter(stream)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def _kept_output(self, run: RunObject, attempt: int, rank: int) -> bytes:
        if self._kept_logs is None:
            return b""
        name = MemberLogName(run.metadata.namespace, run.metadata.uid, attempt, rank)
        async with aclosing(self._kept_logs.read(name)) as pieces:
            return b"".join([piece async for piece in pieces])


def _without_time(line: str) -> str:
    """Return a line of a log without the time that a kubelet writes before it."""
    return line.partition(" ")[2]
