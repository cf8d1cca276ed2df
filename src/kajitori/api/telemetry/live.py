"""The newest values of a run's ranks: asked from their nodes while a user looks at them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from kajitori.api.auth import User
from kajitori.api.context import Api
from kajitori.api.runs.members import newest_pods
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import Chunks
from kajitori.api.telemetry.rows import minute_stats, newest_stats
from kajitori.api.views.telemetry import RankStats, RunStats
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.telemetry.bands import RankMinute
from kajitori.core.telemetry.quantities import SAMPLE_SECONDS
from kajitori.core.telemetry.report import MAX_ASKED, Answer
from kajitori.core.words.times import format_time, time_at
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
    latest = api.telemetry.book.latest(run.metadata.uid)
    minutes: Mapping[int, RankMinute] = latest[2] if latest is not None else {}
    pods = {rank: pod for rank, pod in newest_pods(api.mirror.pods_of_run(run)).items() if pod.spec.node_name}
    running = {rank: pod for rank, pod in pods.items() if pod.status.phase == "Running"}
    attempt = run.status.attempts if run.status is not None else 0
    if latest is not None and latest[0].number != attempt:
        minutes = {}
    wanted = set(ranks)
    known = sorted(rank for rank in {*minutes, *running} if not wanted or rank in wanted)
    shown = known[:limit]
    asked = [rank for rank in shown if rank in running][:MAX_LIVE] if live else []
    fresh = await _ask(api, {rank: running[rank] for rank in asked})
    rows = []
    for rank in shown:
        node = pods[rank].spec.node_name if rank in pods else ""
        row = fresh.get(rank) or (minute_stats(minutes[rank], node) if rank in minutes else None)
        if row is not None:
            rows.append(row)
    now = format_time(time_at(api.now().timestamp()))
    silent = len(asked) - len(fresh)
    return RunStats(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        attempt=attempt,
        at=now,
        ranks=rows,
        total=len(known),
        silent=silent,
    )


async def _ask(api: Api, pods: Mapping[int, Pod]) -> dict[int, RankStats]:
    """Return the newest values of these ranks, except ranks on nodes that do not answer in time."""
    by_node: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for rank, pod in pods.items():
        by_node[pod.spec.node_name][pod.metadata.uid] = rank
    since = api.now().timestamp() - 2 * SAMPLE_SECONDS

    async def one(node: str, uids: Sequence[str]) -> tuple[str, Answer | None]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return node, await api.telemetry.ask(node, uids, round(since), fresh=True, elsewhere=elsewhere)
        except (KajitoriError, TimeoutError):
            return node, None

    elsewhere = len(by_node) <= MAX_ELSEWHERE
    questions = []
    for node, members in by_node.items():
        uids = sorted(members)
        questions += [one(node, uids[start : start + MAX_ASKED]) for start in range(0, len(uids), MAX_ASKED)]
    found: dict[int, RankStats] = {}
    for node, answer in await asyncio.gather(*questions):
        for member in answer.members if answer is not None else ():
            number = by_node[node].get(member.uid)
            row = newest_stats(answer, member, number, node) if number is not None and answer is not None else None
            if row is not None:
                found[row.rank] = row
    return found


async def stats_stream(api: Api, user: User, run: RunObject, ranks: Sequence[int], limit: int, *, live: bool) -> Chunks:
    """Yield one document on each line until the run is over."""
    with RunTracker(api, user, run) as tracker:
        while not tracker.is_over:
            began = time.monotonic()
            found = await live_stats(api, tracker.look(), ranks, limit, live=live)
            yield msgspec.json.encode(found) + b"\n"
            await asyncio.sleep(max(0.1, WATCH_SECONDS - (time.monotonic() - began)))
            tracker.look()
