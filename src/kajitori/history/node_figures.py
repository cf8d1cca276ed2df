"""Figures of nodes, downsampled with age as bands of runs are."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kajitori.core.telemetry.levels import NODE_LEVELS
from kajitori.core.telemetry.node_figures import NodeInterval, coarser, pack, unpack
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.history.databases.database import Database, Row, Statement
from kajitori.history.telemetry import Thinned

_COLUMNS = "seconds, began_at, node, document"
_STORE = f"INSERT INTO node_figures ({_COLUMNS}) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
_OF_NODE = (
    "WITH RECURSIVE starts(at) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT at + CAST($2 AS BIGINT) FROM starts "
    "WHERE at + CAST($2 AS BIGINT) < $3) SELECT seconds, began_at, node, document FROM starts JOIN node_figures "
    "ON seconds = $2 AND began_at = at AND node = $4"
)
"""The key begins with the time, so each interval is looked up."""
_LATE_SECONDS = 6 * 3600
"""Time for which intervals may be older than their level keeps them: servers that were away have to merge them yet."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The figures of a node in one minute, as they are stored."""

    node: str
    minute: int
    """Minutes since 1970."""
    document: bytes


def statement_of(rows: Iterable[NodeRow]) -> Statement:
    """Return the statement that stores these minutes. Storing them again changes nothing."""
    return Statement(
        _STORE, [(MINUTE_SECONDS, each.minute * MINUTE_SECONDS, each.node, each.document) for each in rows]
    )


async def intervals_of(database: Database, node: str, since: int, until: int) -> list[NodeInterval]:
    """Return the intervals of a node that begin in this time (seconds since 1970), in any order."""
    found: list[NodeInterval] = []
    for level in NODE_LEVELS:
        first = -(-since // level.seconds) * level.seconds
        oldest = until - level.kept_seconds - _LATE_SECONDS
        first = max(first, oldest - oldest % level.seconds)
        if first < until:
            rows = await database.fetch(_OF_NODE, first, level.seconds, until, node)
            found += await asyncio.to_thread(_intervals_of, rows)
    return found


def _merge_statement(rows: Sequence[Row], seconds: int) -> Statement:
    by_node: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_node[row[2]].append(row)
    made: list[Row] = []
    for node, several in by_node.items():  # unpacked node by node: the rows of all nodes would take 100 MB
        made += [(seconds, each.start, node, pack(each.figures)) for each in coarser(_intervals_of(several), seconds)]
    return Statement(_STORE, made)


def _intervals_of(rows: Sequence[Row]) -> list[NodeInterval]:
    return [NodeInterval(seconds, start, unpack(bytes(document))) for seconds, start, _, document in rows]


THINNED = Thinned("node_figures", NODE_LEVELS, _COLUMNS, _merge_statement)
