"""Nodes, running gangs and a queue for tests of backfill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kajitori.core.placement.planner import GangRequest, MemberRequest, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.queue.backfill.schedule import Schedule, schedule
from kajitori.core.queue.waiting import WaitingRun

GIB = 1 << 30


HOUR = 3600.0


FOR_EVER = 1e9


def nodes(count: int, *, gpu_type: str = "h100", gpus: int = 8) -> list[NodeFacts]:
    return [NodeFacts(f"{gpu_type}-{i}", 64_000, 512 * GIB, gpus, 110, gpu_type) for i in range(count)]


def queued(members: int, seconds: float, *, key: str = "bert", gpus: int = 8, **more: Any) -> WaitingRun:
    asked = {name: value for name, value in more.items() if name in MemberRequest.__dataclass_fields__}
    rest = {name: value for name, value in more.items() if name not in asked}
    member = replace(MemberRequest(1000, GIB, gpus=gpus), **asked)
    return WaitingRun(replace(GangRequest(key, member, tuple(range(members))), **rest), seconds)


class Cluster:
    """Nodes, and gangs that run on them with their expected ends."""

    def __init__(self, facts: list[NodeFacts]) -> None:
        self.state = Snapshot.empty(NodeTable(facts))
        self.endings: list[Ending] = []

    def runs(self, on: str | list[str], ends_at: float | None, *, gpus: int = 8, **more: Any) -> None:
        """Put a member on each of these nodes. Without an end it is a foreign Pod or a service."""
        names = [on] if isinstance(on, str) else on
        member = replace(MemberRequest(1000, GIB, gpus=gpus), **more)
        rows = np.array([self.state.table.index[name] for name in names], dtype=np.int64)
        occupy_rows(self.state, member, rows)
        if ends_at is not None:
            self.endings.append(Ending(member, rows, ends_at))

    def schedule(self, *queue: WaitingRun, now: float = 0.0, **more: Any) -> Schedule:
        return schedule(self.state, queue, self.endings, now, **({"likely": 1.0} | more))


def started(answer: Schedule) -> list[str]:
    return [placement.key for placement in answer.placements]
