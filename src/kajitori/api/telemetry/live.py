"""The newest values of a run's ranks: asked from their nodes while a user looks at them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kajitori.api.context import Api
from kajitori.api.rights import User
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import Chunks
from kajitori.api.telemetry.rows import minute_stats, newest_stats
from kajitori.api.views.telemetry import RankStats, RunStats
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.times import format_time
from kajitori.core.telemetry.bands import RankMinute
from kajitori.core.telemetry.quantities import SAMPLE_SECONDS
from kajitori.core.telemetry.report import MAX_ASKED
from kajitori.errors import KajitoriError

MAX_LIVE = 64
"""Largest number of ranks that one answer asks from their nodes."""
MAX_ELSEWHERE = 4
"""Most nodes that are asked through other servers, where their agents wait: each question costs the store a few
requests. The ranks of more nodes have means of the last minute there."""
WATCH_SECONDS = 2.0
"""Time between two answers of a stream."""
PATIENCE_SECONDS = 4.0
"""Longest wait for nodes, for one answer of live values."""


async def live_stats(api: Api, run: RunObject, ranks: Sequence[int], limit: int, *, live: bool) -> RunStats:
    """Return the newest values of a run's ranks: those of `ranks` if there are any, else the lowest, at most `limit`.

    The nodes of the first MAX_LIVE of them are asked. If a node does not answer, its ranks have the means of their last
    minute, if this server knows any.
    """
    latest = api.telemetry.collector.latest(run.metadata.uid)
    minutes: Mapping[int, RankMinute] = latest[2] if latest is not None else {}
    pods = {rank: pod for rank, pod in newest_pods(api.mirror.pods_of_run(run)).items() if pod.spec.node_name}
    running = {rank: pod for rank, pod in pods.items() if pod.status.phase == "Running"}
    attempt = run.status.attempts if run.status is not None else 0
    if latest is not None and latest[0].number != attempt:
        minutes = {}
    wanted = set(ranks)
    ranks_with_values = sorted(rank for rank in {*minutes, *running} if not wanted or rank in wanted)
    shown = ranks_with_values[:limit]
    asked = [rank for rank in shown if rank in running][:MAX_LIVE] if live else []
    fresh = await _ask(api, {rank: running[rank] for rank in asked})
    rows = []
    for rank in shown:
        node = pods[rank].spec.node_name if rank in pods else ""
        row = fresh.get(rank) or (minute_stats(minutes[rank], node) if rank in minutes else None)
        if row is not None:
            rows.append(row)
    return RunStats(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        attempt=attempt,
        at=format_time(api.now()),
        ranks=rows,
        total=len(ranks_with_values),
        silent=len(asked) - len(fresh),
    )


async def _ask(api: Api, pods: Mapping[int, Pod]) -> dict[int, RankStats]:
    """Return the newest values of these ranks, except ranks on nodes that do not answer in time."""
    questions = questions_of(pods)
    since = round(api.now().timestamp() - 2 * SAMPLE_SECONDS)
    elsewhere = len({node for node, _ in questions}) <= MAX_ELSEWHERE

    async def ask(node: str, ranks: Mapping[str, int]) -> Iterator[RankStats | None]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await api.telemetry.ask(node, tuple(ranks), since, fresh=True, elsewhere=elsewhere)
        except (KajitoriError, TimeoutError):
            return iter(())
        members = (member for member in answer.members if member.uid in ranks)
        return (newest_stats(answer, member, ranks[member.uid], node) for member in members)

    answers = await asyncio.gather(*(ask(node, ranks) for node, ranks in questions))
    return {row.rank: row for rows in answers for row in rows if row is not None}


def questions_of(pods: Mapping[int, Pod]) -> list[tuple[str, dict[str, int]]]:
    """Return the questions about these ranks, each with its node and at most MAX_ASKED ranks by the UIDs of their
    Pods."""
    by_node: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for rank, pod in pods.items():
        by_node[pod.spec.node_name].append((pod.metadata.uid, rank))
    return [
        (node, dict(sorted(members)[start : start + MAX_ASKED]))
        for node, members in by_node.items()
        for start in range(0, len(members), MAX_ASKED)
    ]


async def stats_stream(api: Api, user: User, run: RunObject, ranks: Sequence[int], limit: int, *, live: bool) -> Chunks:
    """Yield one document on each line until the run is over."""
    with RunTracker(api, user, run) as tracker:
        while not tracker.is_over:
            began = time.monotonic()
            stats = await live_stats(api, tracker.look(), ranks, limit, live=live)
            yield msgspec.json.encode(stats) + b"\n"
            await asyncio.sleep(max(0.1, WATCH_SECONDS - (time.monotonic() - began)))
            tracker.look()
