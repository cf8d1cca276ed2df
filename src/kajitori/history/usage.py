"""Sums of usage between two times: from the sums of whole days, and from segments at both ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.formats.node_lists import expand
from kajitori.core.usage.daily import DAY, MIB_SHIFT, Level, Stretch, parts_of
from kajitori.core.usage.sums import By, MemberTime, Prices, ResourceTime, UsageSum, add_up, add_whole
from kajitori.history.databases.database import Database, Parameters, Reader, Row
from kajitori.history.sums import fact

LONG_SECONDS = 2 * DAY
"""Segments longer than this have an index of their own. A shorter one that overlaps a time ends soon after it."""
UNKNOWN_NODE = "(unknown)"
"""Key of the time for which the status had no room to name the nodes."""
EXPIRED = "(expired)"
"""Key of the time of runs and nodes for which history keeps only daily sums."""
OTHERS = "(others)"
"""Key of the time of all runs but the largest ones, if there are very many."""
MOST_SEGMENTS = 100_000
"""With more segments than this, only the largest runs have a sum of their own."""
MOST_RUNS = 10_000
"""Number of runs that have a sum of their own then."""

_PAGE = 20_000
_KEYS = {By.TEAM: "namespace", By.OWNER: "owner", By.TYPE: "gpu_type"}
AMOUNTS = "gpu_type, gpus, cpu_millis, memory_bytes"
_NODE_GROUP = f"nodes, {AMOUNTS}"
SUMMED_COLUMNS = "gpu_seconds, cpu_milli_seconds, mib_seconds, odd_byte_seconds, member_seconds"
_TOTALS = ", ".join(f"SUM({column})" for column in SUMMED_COLUMNS.split(", "))


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """A filter of usage. Empty fields match all."""

    since: int
    until: int
    namespaces: Collection[str] | None = None
    owner: str = ""


class Query(Parameters):
    """The parameters of one query, and the conditions and expressions that use them."""

    def __init__(self, wanted: UsageFilter) -> None:
        super().__init__()
        places = self.add_all(sorted(wanted.namespaces)) if wanted.namespaces is not None else ""
        owner = self.add(wanted.owner) if wanted.owner else ""

        def condition(namespace: str, user: str) -> str:
            in_namespaces = f" AND {namespace} IN ({places})" if places else ""
            return f"{in_namespaces} AND {user} = {owner}" if owner else in_namespaces

        self.filter = condition("namespace", "owner")
        self.filter_few = condition("(namespace || '')", "(owner || '')")
        """The same condition, written with expressions: they keep the databases from using the indexes of these columns
        if another index finds fewer segments."""

    def member_seconds(self, since: int, until: int) -> str:
        """Return the expression for the seconds of all members of a segment between two times."""
        return f"CASE WHEN members > 0 THEN members * {self.overlap(since, until)} ELSE member_seconds END"

    def overlap(self, since: int, until: int) -> str:
        """Return the expression for the seconds of a segment between two times."""
        start, end = self.add(since), self.add(until)
        return (
            f"((CASE WHEN until < {end} THEN until ELSE {end} END) "
            f"- (CASE WHEN since > {start} THEN since ELSE {start} END))"
        )

    def within(self, since: int, until: int) -> str:
        """Return the condition of segments that overlap the time between two times.

        Time without members counts as a whole if it ended between them. The plus signs keep the databases from using an
        index for a column: only the condition of `ended_since` is meant for one.
        """
        start, end = self.add(since), self.add(until)
        return (
            f"(+until > {start} OR (since = until AND +until >= {start})) AND +since < {end} "
            f"AND (members > 0 OR +until <= {end})"
        )

    def ended_since(self, since: int) -> str:
        """Return the condition that an index on the end of segments serves."""
        return f"until >= {self.add(since)}"

    def edge(self, since: int, until: int) -> tuple[str, str]:
        """Return the conditions of short and of long segments at an edge; each reads a small part of one index."""
        within = f"{self.ended_since(since)} AND {self.within(since, until)}"
        short = f"until <= {self.add(until + LONG_SECONDS)} AND until - since <= {LONG_SECONDS}"
        long = f"until - since > {LONG_SECONDS} AND {within}"
        return f"{short} AND {within}{self.filter}", f"{long}{self.filter_few}"


async def sum_usage(database: Database, by: By, wanted: UsageFilter, prices: Prices) -> dict[str, UsageSum]:
    """Return the usage between two times (seconds since 1970), by key.

    Segments that reach beyond these times count with the part between them. Time that a status had no room to describe
    (see `core.usage.ledger`) counts as a whole if it ended between them. Both times have to be `countable`.
    """
    if wanted.namespaces is not None and not wanted.namespaces:
        return {}
    if by in _KEYS:
        return await _by_sums(database, by, wanted, prices)
    sums = await (_by_node if by is By.NODE else _by_run)(database, wanted, prices)
    return await add_expired(database, wanted, prices, sums)


async def countable(database: Database, since: int, until: int) -> tuple[int, int]:
    """Return the times between which usage can be counted: whole days, if only daily sums are left of them."""
    limit = int(await fact(database, "expired_before"))
    return (
        since // DAY * DAY if since < limit else since,
        -(-until // DAY) * DAY if until < limit else until,
    )


async def _by_sums(database: Database, by: By, wanted: UsageFilter, prices: Prices) -> dict[str, UsageSum]:
    """Return the sums by team, owner or type. One statement reads them, because other processes sum up segments
    meanwhile."""
    query, parts, key = Query(wanted), parts_of(wanted.since, wanted.until), _KEYS[by]
    level = level_of(by, wanted)
    # 1. Whole days from their sums.
    of_level = " AND namespace = ''" if level == Level.OWNER.value else ""  # for the index
    selects = [
        f"SELECT {key} AS key, gpu_type, {_sums_of(query, stretch, level)}{query.filter}{of_level}"
        for stretch in parts.sums
    ]
    # 2. Segments that are not part of the sums yet.
    not_summed = f"summed = 0 AND {query.within(wanted.since, wanted.until)}{query.filter_few}"
    selects.append(_segments_of(query, key, wanted.since, wanted.until, not_summed))
    # 3. The parts of days at both ends, from the segments of these days.
    for since, until in parts.edges:
        conditions = (f"summed <> 0 AND {condition}" for condition in query.edge(since, until))
        selects += [_segments_of(query, key, since, until, condition) for condition in conditions]
    sql = f"""
        WITH parts(key, gpu_type, {SUMMED_COLUMNS}) AS ({" UNION ALL ".join(selects)})
        SELECT key, gpu_type, {_TOTALS} FROM parts GROUP BY 1, 2
    """
    return add_whole(resource_times(await database.fetch(sql, *query.values)), prices)


def _sums_of(query: Query, stretch: Stretch, level: str) -> str:
    """Return the end of a SELECT of the daily sums in a stretch of days."""
    return (
        f"{SUMMED_COLUMNS} FROM usage_sums WHERE level = {query.add(level)} AND days = {query.add(stretch.days)} "
        f"AND first >= {query.add(stretch.since)} AND first < {query.add(stretch.until)}"
    )


def _segments_of(query: Query, key: str, since: int, until: int, condition: str) -> str:
    """Return the SELECT of what segments used between two times, in the columns of the daily sums."""
    seconds = query.member_seconds(since, until)
    mib, odd_bytes = f"memory_bytes >> {MIB_SHIFT}", f"memory_bytes & {(1 << MIB_SHIFT) - 1}"
    return f"""
        SELECT key, gpu_type, gpus * seconds, cpu_millis * seconds, ({mib}) * seconds, ({odd_bytes}) * seconds, seconds
        FROM (
            SELECT {key} AS key, gpu_type, gpus, cpu_millis, memory_bytes, {seconds} AS seconds
            FROM usage WHERE {condition}
        ) AS segments
    """


def level_of(by: By, wanted: UsageFilter) -> str:
    """Return the coarsest level of sums that has the keys and the columns of the filter."""
    needs_owner = by is By.OWNER or bool(wanted.owner)
    needs_team = by is By.TEAM or wanted.namespaces is not None
    if not needs_owner:
        return Level.TEAM.value
    return Level.BOTH.value if needs_team else Level.OWNER.value


async def add_expired(
    reader: Reader, wanted: UsageFilter, prices: Prices, sums: dict[str, UsageSum]
) -> dict[str, UsageSum]:
    """Add the usage of expired runs, of which only daily sums are left, under one key."""
    query = Query(wanted)
    selects = [
        f"SELECT gpu_type, {_sums_of(query, stretch, Level.BOTH.value)} AND origin <> ''{query.filter}"
        for stretch in parts_of(wanted.since, wanted.until).sums
    ]
    if not selects:
        return sums
    sql = f"SELECT '{EXPIRED}', gpu_type, {_TOTALS} FROM ({' UNION ALL '.join(selects)}) AS days GROUP BY 2"
    return add_whole(resource_times(await reader.fetch(sql, *query.values)), prices, sums)


def resource_times(rows: list[Row]) -> Iterator[ResourceTime]:
    """Yield the resource time of each row: a key, a GPU type, and the columns of the daily sums."""
    for key, gpu_type, gpus, cpu, mib, odd, members in rows:
        byte_seconds = (int(mib) << MIB_SHIFT) + int(odd)
        yield ResourceTime(key, gpu_type, int(gpus), int(cpu), byte_seconds, int(members))


async def _by_run(database: Database, wanted: UsageFilter, prices: Prices) -> dict[str, UsageSum]:
    """Return the sums by run. If there are very many, only the largest have a sum of their own, to bound the memory.

    Most runs have one segment, so grouping them here is faster than in the database.
    """
    query = Query(wanted)
    within = f"{query.ended_since(wanted.since)} AND {query.within(wanted.since, wanted.until)}{query.filter}"
    seconds = query.member_seconds(wanted.since, wanted.until)
    segments = f"SELECT namespace, name, run_uid, {AMOUNTS}, {seconds} FROM usage WHERE {within}"
    rows = await database.fetch(f"{segments} LIMIT {MOST_SEGMENTS + 1}", *query.values)
    if len(rows) <= MOST_SEGMENTS:
        return add_up(_runs_of(rows), prices)
    del rows
    largest_runs = f"""
        SELECT run_uid FROM usage WHERE {within} GROUP BY run_uid
        ORDER BY SUM(gpus * ({seconds})) DESC, SUM(cpu_millis * ({seconds})) DESC, run_uid LIMIT {MOST_RUNS}
    """
    each_run = f"""
        SELECT namespace, name, run_uid, {AMOUNTS}, CAST(SUM({seconds}) AS BIGINT) FROM usage
        WHERE {within} AND run_uid IN ({largest_runs}) GROUP BY namespace, name, run_uid, {AMOUNTS}
    """
    all_others = f"""
        SELECT {AMOUNTS}, CAST(SUM({seconds}) AS BIGINT) FROM usage
        WHERE {within} AND run_uid NOT IN ({largest_runs}) GROUP BY {AMOUNTS}
    """
    async with database.snapshot() as reader:
        sums = add_up(_runs_of(await reader.fetch(each_run, *query.values)), prices)
        rows = await reader.fetch(all_others, *query.values)
    return add_up((MemberTime(OTHERS, *row) for row in rows), prices, sums)


def _runs_of(rows: list[Row]) -> Iterator[MemberTime]:
    """Yield the time of each row under the key of its run."""
    for namespace, name, uid, *amounts_and_seconds in rows:
        yield MemberTime(f"{namespace}/{name}/{uid}", *amounts_and_seconds)


async def _by_node(database: Database, wanted: UsageFilter, prices: Prices) -> dict[str, UsageSum]:
    """Return the sums by node. Segments with the same node list are added up in the database, and lists are expanded
    page by page, so the memory does not grow with the runs."""
    query = Query(wanted)
    within = f"{query.ended_since(wanted.since)} AND {query.within(wanted.since, wanted.until)}{query.filter}"
    overlap = query.overlap(wanted.since, wanted.until)
    on_each_node = f"{overlap} * (CASE WHEN nodes = '' THEN members ELSE 1 END)"
    seconds = f"CASE WHEN members > 0 THEN {on_each_node} ELSE member_seconds END"
    sums: dict[str, UsageSum] = {}
    after: Sequence[Any] = ("", "", -1, -1, -1)
    places = ", ".join(f"${len(query.values) + number + 1}" for number in range(len(after)))
    sql = f"""
        SELECT {_NODE_GROUP}, CAST(SUM({seconds}) AS BIGINT) FROM usage
        WHERE {within} AND ({_NODE_GROUP}) > ({places})
        GROUP BY {_NODE_GROUP} ORDER BY {_NODE_GROUP} LIMIT {_PAGE}
    """
    while rows := await database.fetch(sql, *query.values, *after):
        add_up(_nodes_of(rows), prices, sums)
        after = rows[-1][: len(after)]
        if len(rows) < _PAGE:
            break
    return sums


def _nodes_of(rows: list[Row]) -> Iterator[MemberTime]:
    """Yield the time of each row on each of its nodes, under the node's name."""
    for nodes, gpu_type, gpus, cpu_millis, memory_bytes, seconds in rows:
        amounts = gpu_type, gpus, cpu_millis, memory_bytes
        if not nodes:
            yield MemberTime(UNKNOWN_NODE, *amounts, seconds)
            continue
        for node, count in Counter(expand(nodes)).items():
            yield MemberTime(node, *amounts, count * seconds)
