"""Sums of usage between two times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from kajitori.core.usage.sums import By, Prices, UsageSum, add_up
from kajitori.core.words.node_lists import expand
from kajitori.history.database import Database, Row

_KEYS = {
    By.TEAM: "namespace",
    By.OWNER: "owner",
    By.TYPE: "gpu_type",
    By.RUN: "namespace || '/' || name || '/' || run_uid",
}
_OVERLAP = "((CASE WHEN until < $2 THEN until ELSE $2 END) - (CASE WHEN since > $1 THEN since ELSE $1 END))"
_WITHIN = "(until > $1 OR (since = until AND until >= $1)) AND since < $2"
_PAGE = 20_000
UNKNOWN_NODE = "(unknown)"
"""Key of time whose nodes were left out of a status that had no room for them."""


async def sum_usage(
    database: Database,
    by: By,
    since: int,
    until: int,
    prices: Prices,
    *,
    namespaces: Collection[str] | None = None,
    owner: str = "",
) -> dict[str, UsageSum]:
    """Return what was used between two times (seconds since 1970), by key.

    Segments that reach beyond these times count with the part between them. Time that a status had no room to describe
    (see `core.usage.ledger`) counts as a whole if it ended between them.
    """
    if namespaces is not None and not namespaces:
        return {}
    conditions, parameters = [_WITHIN], list[Any]([since, until])
    if namespaces is not None:
        places = ", ".join(f"${len(parameters) + 1 + number}" for number in range(len(namespaces)))
        conditions.append(f"namespace IN ({places})")
        parameters += sorted(namespaces)
    if owner:
        parameters.append(owner)
        conditions.append(f"owner = ${len(parameters)}")
    where = " AND ".join(conditions)
    if by is By.NODE:
        return await _by_node(database, where, parameters, prices)
    seconds = f"CASE WHEN members > 0 THEN members * {_OVERLAP} WHEN until <= $2 THEN member_seconds ELSE 0 END"
    sql = (
        f"SELECT {_KEYS[by]}, gpu_type, gpus, cpu_millis, memory_bytes, SUM({seconds}) FROM usage WHERE {where} "
        "GROUP BY 1, 2, 3, 4, 5"
    )
    rows = await database.fetch(sql, *parameters)
    return add_up(((row[0], row[1], row[2], row[3], row[4], int(row[5])) for row in rows), prices)


async def _by_node(database: Database, where: str, parameters: list[Any], prices: Prices) -> dict[str, UsageSum]:
    """Return the sums by node. Node lists are expanded page by page, so the memory does not grow with the runs."""
    sums: dict[str, UsageSum] = {}
    run_uid, number = "", -(2**63)
    more = len(parameters) + 1
    sql = (
        "SELECT run_uid, id, nodes, gpu_type, gpus, cpu_millis, memory_bytes, members, "
        f"CASE WHEN members > 0 THEN {_OVERLAP} WHEN until <= $2 THEN member_seconds ELSE 0 END "
        f"FROM usage WHERE {where} AND (run_uid, id) > (${more}, ${more + 1}) ORDER BY run_uid, id LIMIT {_PAGE}"
    )
    while rows := await database.fetch(sql, *parameters, run_uid, number):
        add_up(_nodes_of(rows), prices, sums)
        run_uid, number = rows[-1][:2]
        if len(rows) < _PAGE:
            break
    return sums


def _nodes_of(rows: list[Row]) -> Iterator[tuple[str, str, int, int, int, int]]:
    for _, _, nodes, gpu_type, gpus, cpu_millis, memory_bytes, members, seconds in rows:
        amounts = gpu_type, gpus, cpu_millis, memory_bytes
        if not nodes:
            yield UNKNOWN_NODE, *amounts, max(1, members) * seconds
            continue
        for node, count in Counter(expand(nodes)).items():
            yield node, *amounts, count * seconds
