"""Which of the nodes that have room a gang takes: the fewest topology domains, then the fewest and the fullest nodes.

Everything here is arrays over the rows of a node table. It is done for each gang that starts, on all nodes of the
cluster, so nothing here loops over nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kajitori.core.snapshot import Counts, Mask

Rows = npt.NDArray[np.int64]


def choose(room: Counts, need: int, levels: Sequence[Counts], leftover: Counts, near: Rows) -> Rows:
    """Rows for `need` members, in table order, so that neighbouring ranks stand next to each other.

    room: (nodes,) how many members each node takes; together at least `need`. levels: the domain of each node, level by
    level, from the widest to the narrowest. leftover: (nodes,) how empty each node is; full ones are taken first.
    near: rows that other members of the gang already have; their domains come first.
    """
    taken = np.zeros(len(room), dtype=np.int64)
    _descend(room, need, levels, near, leftover, taken, np.flatnonzero(room > 0))
    rows = np.flatnonzero(taken)
    return np.repeat(rows, taken[rows])


def _descend(
    room: Counts, need: int, levels: Sequence[Counts], near: Rows, leftover: Counts, taken: Counts, rows: Rows
) -> None:
    """Takes `need` members from `rows`, whose room is enough, touching as few domains of each level as it can."""
    if not levels:
        _take_nodes(room, need, leftover, taken, rows)
        return
    numbers = levels[0][rows]
    if numbers[0] == numbers[-1]:  # numbers grow along the table
        _descend(room, need, levels[1:], near, leftover, taken, rows)
        return
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    capacity = np.add.reduceat(room[rows], starts)
    for domain in _fewest(capacity, need, np.isin(numbers[starts], levels[0][near]) if near.size else None):
        part = min(need, int(capacity[domain]))
        end = starts[domain + 1] if domain + 1 < len(starts) else len(rows)
        _descend(room, part, levels[1:], near, leftover, taken, rows[starts[domain] : end])
        need -= part


def _fewest(capacity: Counts, need: int, close: Mask | None) -> list[int]:
    """The fewest domains that together hold `need`, as indices; the last one the smallest that still fits.

    Domains marked `close` are used up first, since the gang stands there already.
    """
    if close is None and int(capacity.max()) >= need:  # one will do, as for most gangs
        return [int(np.where(capacity >= need, capacity, capacity.max() + 1).argmin())]
    chosen: list[int] = []
    groups = [np.arange(len(capacity))] if close is None else [np.flatnonzero(close), np.flatnonzero(~close)]
    for group in groups:
        if need <= 0 or not group.size:
            continue
        group = group[np.argsort(-capacity[group], kind="stable")]
        sums = np.cumsum(capacity[group])
        full = int(np.searchsorted(sums, need, side="left"))
        chosen += group[:full].tolist()
        need -= int(sums[full - 1]) if full else 0
        rest = group[full:]
        if rest.size:  # the first of them alone would do
            fitting = rest[capacity[rest] >= need]
            chosen.append(int(fitting[np.argmin(capacity[fitting])]))
            need = 0
    return chosen


def _take_nodes(room: Counts, need: int, leftover: Counts, taken: Counts, rows: Rows) -> None:
    """Takes members from nodes of one domain: fewest nodes first, then the fullest of those that fit alike."""
    while True:
        most = int(room[rows].max())
        roomiest = room[rows] == most
        group = rows[roomiest]
        wanted = (
            need - 1
        ) // most  # nodes that are used up; the one after them gets what is left, and is chosen for it
        if wanted < len(group):
            break
        taken[group] = most
        need -= most * len(group)
        rows = rows[~roomiest]
    full = _least(group, leftover, wanted)
    taken[full] = most
    need -= most * len(full)
    fitting = rows[(room[rows] >= need) & (taken[rows] == 0)]
    fitting = fitting[room[fitting] == room[fitting].min()]
    taken[fitting[np.argmin(leftover[fitting])]] = need


def _least(rows: Rows, leftover: Counts, count: int) -> Rows:
    """The `count` rows with the least left over; among equals the first."""
    if count == 0:
        return rows[:0]
    values = leftover[rows]
    threshold = np.partition(values, count - 1)[count - 1]
    below = rows[values < threshold]
    return np.concatenate((below, rows[values == threshold][: count - len(below)]))
