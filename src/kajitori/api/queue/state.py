"""Everything that the queue's next cycle will decide by, as the mirror shows it now."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kajitori.api.context import Api
from kajitori.cluster.queue.outlook import PendingRun, QueueOrder
from kajitori.cluster.queue.simulation import frozen_cluster
from kajitori.core.queue.cycle import ClusterState, place_promised
from kajitori.core.queue.freeing import Simulation
from kajitori.core.queue.preemption import PromisedNodes

ANSWER_SECONDS = 0.5
"""The time that each part of an answer may take if a long queue makes it hard."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """All waiting runs, in order, and the cluster that they wait for."""

    order: QueueOrder
    pending: tuple[PendingRun, ...]
    promised: PromisedNodes
    """Runs that get the nodes that preemptions free for them."""
    simulation: Simulation
    """The input of what-ifs."""


async def queue_state(api: Api, newcomer: PendingRun | None = None) -> QueueState:
    """Return the state of the queue now; with `newcomer` as one more run, which may be among the waiting ones."""
    now = api.now()
    waiting = await api.queue.pending.all(now)
    if newcomer is not None:
        waiting = [run for run in waiting if run.request.key != newcomer.request.key]
    pending = (*waiting, newcomer) if newcomer is not None else tuple(waiting)
    order = api.queue.outlook.order(pending, now)
    moment = frozen_cluster(api.cluster, api.queue.outlook.endings(now), now.timestamp())
    asked = newcomer.request.key if newcomer is not None else ""
    preemptors = _preemptors_in_turn(api, pending)
    before = preemptors[: preemptors.index(asked)] if asked in preemptors else preemptors
    cluster = ClusterState(
        moment.snapshot,
        [ending for _, ending in moment.endings],
        api.queue.preemptions.running_at(now),
        api.queue.outlook.past.users,
        api.queue.outlook.past.teams,
        preemptors=set(before),
    )
    promised = place_promised(cluster, order.queue)
    placed = promised.keys
    queue = [run for run in order.queue if run.key not in placed]
    # then it is looked at right after the preemptors before it, and its place in the queue does not count
    if asked in preemptors:
        turns = {key: turn for turn, key in enumerate((*before, asked))}
        queue.sort(key=lambda run: turns.get(run.key, len(turns)))
    simulation = await moment.simulation(queue, asked=asked, used=promised.snapshot)
    return QueueState(order, pending, promised, simulation)


def _preemptors_in_turn(api: Api, pending: tuple[PendingRun, ...]) -> list[str]:
    """Return the runs for which others were preempted, in the order in which they get the freed nodes."""
    preemptors = api.queue.preemptions.preemptors()
    gangs = [run.request for run in pending if run.request.key in preemptors]
    return [gang.key for gang in sorted(gangs, key=lambda gang: (-gang.priority, gang.queued_at, gang.key))]


def stop_watch() -> Callable[[], bool]:
    """Start to measure the time of a part of an answer; return a test whether some of it is left."""
    until = time.monotonic() + ANSWER_SECONDS
    return lambda: time.monotonic() < until
