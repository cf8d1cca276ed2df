"""Figures of nodes on their way from agents to history.

A node's figures come whole from one agent. So the server that gets a report writes it, and other servers read it from
history; nothing is kept in memory.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from kajitori.core.telemetry.node_figures import Holders, figures_of, pack
from kajitori.core.telemetry.report import NodeMinute
from kajitori.history.node_figures import NodeRow
from kajitori.history.store import History

MAX_WAITING = 50_000
"""Most minutes that wait while the database is away; beyond it the oldest are dropped. They take 20 MB."""
_ROWS_AT_ONCE = 2000


class NodeWriter:
    """Writes reported minutes of nodes into history."""

    def __init__(self) -> None:
        self._waiting: deque[NodeRow] = deque(maxlen=MAX_WAITING)
        self._newest: dict[str, int] = {}
        """The newest minute of each node that came here: agents report each minute twice."""

    def take(self, node: str, minute: NodeMinute, holders: Holders) -> None:
        """Take a minute of a node, unless it was taken before."""
        if minute.minute > self._newest.get(node, -1):
            self._newest[node] = minute.minute
            self._waiting.append(NodeRow(node, minute.minute, pack(figures_of(minute, holders))))

    def forget(self, before: int) -> None:
        """Forget the nodes that have reported nothing since this minute."""
        self._newest = {node: minute for node, minute in self._newest.items() if minute >= before}

    async def write(self, history: History | None) -> None:
        """Write what was taken. Raises the errors of the database; what was not written stays. Without a history,
        nothing is kept."""
        if history is None:
            self._waiting.clear()
        while self._waiting and history is not None:
            several = list(islice(self._waiting, _ROWS_AT_ONCE))
            await history.record_node_figures(several)
            for row in several:
                if self._waiting and self._waiting[0] is row:  # else it was dropped meanwhile
                    self._waiting.popleft()
