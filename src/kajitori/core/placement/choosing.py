"""The choice among nodes with room: the fewest topology domains, then the fewest and the fullest nodes.

Everything here works on arrays over the rows of a node table. It is done for each gang that starts, on all nodes of the
cluster, so nothing here loops over nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kajitori.core.placement.snapshot import Counts, Domains, Mask

Rows = npt.NDArray[np.int64]


def choose(room: Counts, need: int, levels: Sequence[Domains], leftover: Counts, near: Rows) -> Rows:
    """Return rows for `need` members, in table order, so that neighbouring ranks are close to each other.

    room: (nodes,) number of members that each node takes; together at least `need`. levels: the topology, from the
    widest to the narrowest. leftover: (nodes,) how empty each node is; fuller nodes are taken first. near: rows that
    other members of the gang already have; their domains come first.
    """
    chosen: list[Rows] = []
    _choose_within(room, need, levels, near, leftover, chosen, 0, len(room))
    rows = chosen[0] if len(chosen) == 1 else np.concatenate(chosen)
    rows.sort()
    return rows


def _choose_within(
    room: Counts,
    need: int,
    levels: Sequence[Domains],
    near: Rows,
    leftover: Counts,
    chosen: list[Rows],
    begin: int,
    end: int,
) -> None:
    """Add `need` members on the rows from `begin` to `end`, which have room enough, in as few domains of each level as
    possible."""
    if not levels:
        chosen += [rows + begin for rows in _take_nodes(room[begin:end], need, leftover[begin:end])]
        return
    level, inner = levels[0], levels[1:]
    first, after = level.within(begin, end)
    if after - first == 1:
        _choose_within(room, need, inner, near, leftover, chosen, begin, end)
        return
    capacity = np.add.reduceat(room[begin:end], level.begins[first:after] - begin)
    for domain in _fewest_domains(capacity, need, level.holds(near)[first:after] if near.size else None):
        part = min(need, int(capacity[domain]))
        _choose_within(room, part, inner, near, leftover, chosen, *level.bounds[first + domain : first + domain + 2])
        need -= part


def _fewest_domains(capacity: Counts, need: int, close: Mask | None) -> list[int]:
    """Return the fewest domains that together hold `need`, as indices; the last one is the smallest that still fits.

    Domains marked `close` are used up first, since the gang has members there already.
    """
    if close is None:
        alone = (capacity >= need).nonzero()[0]
        if alone.size:  # most gangs fit into one domain
            return [int(alone[capacity[alone].argmin()])]
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
        if rest.size:  # the first of these domains alone is enough
            fitting = rest[capacity[rest] >= need]
            chosen.append(int(fitting[np.argmin(capacity[fitting])]))
            need = 0
    return chosen


def _take_nodes(room: Counts, need: int, leftover: Counts) -> list[Rows]:
    """Return a row of one domain for each member: the fewest nodes, and among equals the fullest."""
    taken = []
    while need > (most := int(np.maximum.reduce(room))):
        group = (room == most).nonzero()[0]
        wanted = (need - 1) // most  # nodes that are used up; the rest goes to a node that is chosen for it
        full = _least_leftover(group, leftover, min(wanted, len(group)))
        taken.append(full.repeat(most))
        need -= most * len(full)
        room = room.copy()
        room[full] = 0
    fitting = (room >= need).nonzero()[0]
    rooms = room[fitting]
    fitting = fitting[rooms == np.minimum.reduce(rooms)]
    taken.append(fitting[[leftover[fitting].argmin()]].repeat(need))
    return taken


def _least_leftover(rows: Rows, leftover: Counts, count: int) -> Rows:
    """Return the `count` rows with the least left over; among equals the first."""
    if count == 0:
        return rows[:0]
    values = leftover[rows]
    threshold = np.partition(values, count - 1)[count - 1]
    below = rows[values < threshold]
    return np.concatenate((below, rows[values == threshold][: count - len(below)]))
