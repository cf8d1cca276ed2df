"""History as one object. It is opened at its first use, so that parts start even if the database is down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Container, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kajitori.core.network.use.exhaustion import DayUse
from kajitori.core.network.use.pools import AddressPool
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.node_figures import NodeInterval
from kajitori.core.traffic.history import HistoryGroup, HourRecord, Key, TrafficRecord
from kajitori.core.usage.daily import TimeAmount, TimeKey, TimeLevel
from kajitori.core.usage.lost_time.slices import Held, Mark
from kajitori.core.usage.records import AttemptRecord, AuditEntry, RunRecord, RunState
from kajitori.core.usage.sums import By, Prices, UsageSum
from kajitori.errors import KajitoriError
from kajitori.history import lost_time, network, node_figures, runs, sums, telemetry, usage, usage_over_time
from kajitori.history.audit import AuditFilter, list_audit, statement_of
from kajitori.history.databases.database import Database, Statement, without_details
from kajitori.history.node_figures import NodeRow
from kajitori.history.runs import RunFilter


class History:
    """Runs, usage and audit in one database. Every method raises the errors of `history.databases.failures`."""

    def __init__(self, url: str, password: str | None = None) -> None:
        """`url` begins with `sqlite:` or `postgresql:`; `configuration.option_faults` checks it."""
        self.where = without_details(url)
        """The database as messages show it."""
        self.trouble = ""
        """The reason for which the last request failed; empty if it did not."""
        self._url = url
        self._password = password
        self._database: Database | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Database:
        """Open the database if it is not open yet, and bring its schema up to date."""
        async with self._opening:
            if self._database is None:
                self._database = await open_database(self._url, self._password)
        return self._database

    async def close(self) -> None:
        """Close the database."""
        if self._database is not None:
            await self._database.close()

    async def record(self, states: Iterable[RunState]) -> None:
        """Store the states of runs in one transaction. Storing them again changes nothing."""
        statements = runs.statements_of(states)
        if statements:
            await self._write(statements)

    async def runs(self, wanted: RunFilter, limit: int, after: tuple[int, str] | None = None) -> list[RunRecord]:
        """Return runs without their documents, newest first."""
        return await runs.list_runs(await self.open(), wanted, limit, after)

    async def run(self, namespace: str, name: str) -> RunRecord | None:
        """Return the newest run with this name, or the run with this UID; None if there is none."""
        return await runs.find_run(await self.open(), namespace, name)

    async def documents(self, uids: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these runs (at most a page of them) by UID."""
        return await runs.documents_of(await self.open(), uids)

    async def attempts(self, uid: str, limit: int = 100) -> list[AttemptRecord]:
        """Return the last attempts of a run."""
        return await runs.attempts_of(await self.open(), uid, limit)

    async def namespaces(self) -> list[str]:
        """Return all namespaces that have, or had, runs."""
        return [row[0] for row in await (await self.open()).fetch(runs.NAMESPACES)]

    async def present(self) -> list[str]:
        """Return the UIDs of all runs that history does not know to be removed from the cluster."""
        rows = await (await self.open()).fetch("SELECT uid FROM runs WHERE removed_at IS NULL")
        return [row[0] for row in rows]

    async def mark_removed(self, uids: Iterable[str], at: int) -> None:
        """Record that the objects of these runs were deleted before this time (seconds since 1970)."""
        rows = [(uid, at) for uid in uids]
        if rows:
            await self._write([Statement(runs.MARK_REMOVED, rows)])

    async def usage(
        self,
        by: By,
        since: int,
        until: int,
        prices: Prices,
        *,
        namespaces: Collection[str] | None = None,
        owner: str = "",
    ) -> dict[str, UsageSum]:
        """Return the usage between two times, which have to be `countable`."""
        wanted = usage.UsageFilter(since, until, namespaces, owner)
        count = usage_over_time.sum_over_time if by.is_time else usage.sum_usage
        return await count(await self.open(), by, wanted, prices)

    async def countable(self, since: int, until: int) -> tuple[int, int]:
        """Return the nearest times between which usage can be counted: for expired runs, only whole days can."""
        return await usage.countable(await self.open(), since, until)

    async def sum_up(self) -> int:
        """Add some of the segments that are in no sum yet to the sums of days; return how many."""
        return await sums.sum_up(await self.open())

    async def divide(self, before: int) -> int:
        """Add some of the segments that ended before this time to the sums of time by cause; return how many."""
        return await sums.divide(await self.open(), before)

    async def record_marks(self, marks: Iterable[tuple[str, Mark]]) -> None:
        """Store marks of attempts, each with the UID of its run. Storing them again changes nothing."""
        await self._write([lost_time.statement_of(marks)])

    async def time_of_run(self, run_uid: str) -> tuple[dict[int, Held], list[Mark]]:
        """Return the segments of a run, by number, and its marks."""
        database = await self.open()
        marks = await lost_time.marks_of(database, (run_uid,))
        return await lost_time.segments_of_run(database, run_uid), marks.get(run_uid, [])

    async def marks(self, uids: Collection[str]) -> dict[str, list[Mark]]:
        """Return the marks of these runs."""
        return await lost_time.marks_of(await self.open(), uids)

    async def times(
        self, level: TimeLevel, since: int, until: int, namespaces: Collection[str] | None
    ) -> dict[TimeKey, TimeAmount]:
        """Return the sums of time by category and cause on the days of these times, without segments that go on."""
        return await lost_time.report(await self.open(), level, since, until, namespaces)

    async def expire(self, before: int) -> int:
        """Remove some of the runs that ended before the day of this time; return how many. Their sums stay."""
        return await sums.expire(await self.open(), before)

    async def note_current(self, at_millis: int) -> None:
        """Record that history lacked nothing at this time (milliseconds since 1970)."""
        await self._write([sums.note_current(at_millis)])

    async def current_at(self) -> int:
        """Return the last time at which history lacked nothing, in milliseconds since 1970; 0 if it is not known."""
        return int(await sums.fact(await self.open(), "current_at"))

    async def note(self, entries: Iterable[AuditEntry]) -> None:
        """Append to the audit trail."""
        await self._write([statement_of(entries)])

    async def audit(
        self, wanted: AuditFilter, limit: int, after: tuple[int, int] | None = None
    ) -> list[tuple[int, AuditEntry]]:
        """Return entries of the audit trail, newest first."""
        return await list_audit(await self.open(), wanted, limit, after)

    async def record_telemetry(self, intervals: Iterable[Interval]) -> None:
        """Store bands in one transaction. Storing them again changes nothing."""
        await self._write([telemetry.statement_of(intervals)])

    async def telemetry(self, run_uid: str, since: int, until: int) -> list[Interval]:
        """Return the bands of a run that begin in this time (seconds since 1970), newest first."""
        return await telemetry.intervals_of(await self.open(), run_uid, since, until)

    async def last_telemetry(self, run_uids: Sequence[str], limit: int) -> dict[str, list[Interval]]:
        """Return the newest bands of each run, newest first: at most `limit` intervals of its last attempt with any."""
        return await telemetry.last_of_runs(await self.open(), run_uids, limit)

    async def newest_minute(self, before: int) -> int | None:
        """Return the beginning of the newest minute before this time for which any run has bands."""
        return await telemetry.newest_minute(await self.open(), before)

    async def telemetry_minute(self, start: int, run_uids: Container[str]) -> AsyncIterator[list[Interval]]:
        """Yield the bands of these runs in the minute that begins at this time, some thousands of runs at a time."""
        async for several in telemetry.minute_of_runs(await self.open(), start, run_uids):
            yield several

    async def downsample_telemetry(self, now: int) -> bool:
        """Merge some bands, and figures of nodes, that are too old for their resolution; return whether there are
        more."""
        database = await self.open()
        more = [await telemetry.downsample(database, table, now) for table in (telemetry.THINNED, node_figures.THINNED)]
        return any(more)

    async def record_node_figures(self, rows: Iterable[NodeRow]) -> None:
        """Store minutes of nodes in one transaction. Storing them again changes nothing."""
        await self._write([node_figures.statement_of(rows)])

    async def node_figures(self, node: str, since: int, until: int) -> list[NodeInterval]:
        """Return the figures of a node in intervals that begin in this time (seconds since 1970), in any order."""
        return await node_figures.intervals_of(await self.open(), node, since, until)

    async def record_traffic(self, records: Iterable[HourRecord]) -> None:
        """Store records of traffic in one transaction. Storing them again changes nothing."""
        await self._write([network.statement_of(records)])

    async def latest_traffic(self, before: int) -> dict[Key, HourRecord]:
        """Return the last record of each subject before this hour; of runs, only those of the last month."""
        return await network.latest(await self.open(), before)

    async def traffic(
        self, group: HistoryGroup, since: int, until: int
    ) -> list[tuple[HourRecord, TrafficRecord | None]]:
        """Return, for each subject with traffic in a span, its last record in it and its last record before."""
        return await network.within(await self.open(), group, since, until)

    async def traffic_of(
        self, group: HistoryGroup, key: str, since: int, until: int
    ) -> tuple[list[HourRecord], TrafficRecord | None]:
        """Return the records of a subject in a span by time, and its last record before."""
        return await network.of_subject(await self.open(), group, key, since, until)

    async def traffic_recorded_at(self, since: int, until: int) -> list[int]:
        """Return the hours of a span in which any traffic was recorded."""
        return await network.recorded_at(await self.open(), since, until)

    async def thin_traffic(self, now: int, since: int) -> int:
        """Reduce the oldest day after `since` that still has hourly records to its last records, and remove records
        that are too old. Return the end of that day; `since` if there is no such day."""
        return await network.thin(await self.open(), now, since)

    async def record_address_use(self, pools: Sequence[AddressPool], day: int) -> None:
        """Record the use of pools on a day (days since 1970); the largest use of the day is kept."""
        await self._write(network.use_statements(pools, day))

    async def address_use(self, since_day: int) -> dict[str, list[DayUse]]:
        """Return the use of each pool on each day after this one, by the pool's name."""
        return await network.use_since(await self.open(), since_day)

    async def _write(self, statements: list[Statement]) -> None:
        try:
            await (await self.open()).write(statements)
        except KajitoriError as error:
            self.trouble = error.message
            raise
        self.trouble = ""


async def open_database(url: str, password: str | None = None) -> Database:
    """Open the database of this URL and bring its schema up to date.

    Raises the errors of `history.databases.failures`, and Unsupported if its schema is newer than this program.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        from kajitori.history.databases.sqlite import SqliteDatabase

        return await SqliteDatabase.open(Path(unquote(parts.path)))
    from kajitori.history.databases.postgres import PostgresDatabase

    return await PostgresDatabase.open(url, password)
