"""One server's memory of telemetry: the latest minutes of all members, and the bands computed from them.

Times are seconds since 1970 unless they are called minutes. A value arrives up to twice, from an agent or from another
server, and counts once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from kajitori.core.telemetry.bands import Bands, RankMinute, pack, unpack
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.core.telemetry.report import MAX_QUANTITIES, MemberMinute

SETTLE_SECONDS = 51.0
"""Time after the end of a minute at which its bands are made. Agents report within two thirds of it."""
SHARED_AFTER_SECONDS = 36.0
"""Time after the end of a minute at which a server shares its values of that minute with other servers."""
KEPT_MINUTES = 6
"""Number of minutes for which single values are kept and late values are accepted."""
AHEAD_MINUTES = 2
"""Tolerated difference of an agent's clock into the future."""
LAST_MINUTES = 5
"""Number of a run's newest minutes that can be found without a search."""
MAX_RECENT_BYTES = 64 << 20
"""Most memory for bands of the last hour."""
RECENT_SECONDS = 3600.0

_Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_QUANTITIES)]


class Attempt(NamedTuple):
    """An attempt of a run."""

    run_uid: str
    number: int


class Minute(NamedTuple):
    """The packed bands of one minute of a run."""

    attempt: int
    number: int
    """Minutes since 1970."""
    document: bytes


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One rank's minute in the form in which servers share it."""

    run_uid: str
    attempt: int
    rank: int
    names: int
    """Index of the names of its quantities."""
    minute: MemberMinute


class Part(msgspec.Struct, frozen=True, array_like=True):
    """All values of one minute that one server received."""

    minute: int
    names: tuple[tuple[_Names, _Names], ...]
    entries: tuple[Entry, ...]


_encode = msgspec.msgpack.Encoder().encode
decode_part = msgspec.msgpack.Decoder(Part).decode

_Ranks = dict[int, RankMinute]


class TelemetryCollector:
    """Values of the latest minutes, by attempt and rank, and packed bands of the last hour."""

    def __init__(self) -> None:
        self._minutes: dict[int, dict[Attempt, _Ranks]] = {}
        self._own: dict[int, set[tuple[Attempt, int]]] = {}
        """Values that this server received from agents, not from other servers."""
        self._unshared: set[int] = set()
        """Minutes with values that no part has yet."""
        self._changed: dict[int, set[Attempt]] = {}
        """Attempts with values that are not in the bands yet."""
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._recent: OrderedDict[tuple[int, Attempt], tuple[int, bytes]] = OrderedDict()
        self._recent_bytes = 0
        self._last: dict[str, list[Minute]] = {}
        """The newest minutes with bands by UID of the run, newest first."""

    def accepts(self, minute: int, now: float) -> bool:
        """Whether a minute is neither too old nor in the future."""
        present = int(now // MINUTE_SECONDS)
        return present - KEPT_MINUTES < minute <= present + AHEAD_MINUTES

    def add(self, attempt: Attempt, each: RankMinute, *, own: bool = True) -> None:
        """Add one rank's minute. Only the first value of a rank and minute counts."""
        minute = each.minute.minute
        ranks = self._minutes.setdefault(minute, {}).setdefault(attempt, {})
        if own and (attempt, each.rank) not in (measured := self._own.setdefault(minute, set())):
            measured.add((attempt, each.rank))
            self._unshared.add(minute)
        if each.rank in ranks:
            return
        names = self._names
        member_names = names.setdefault(each.member_names, each.member_names)
        gpu_names = names.setdefault(each.gpu_names, each.gpu_names)
        ranks[each.rank] = RankMinute(each.rank, member_names, gpu_names, each.minute)
        self._changed.setdefault(minute, set()).add(attempt)

    def due(self, now: float) -> Iterator[tuple[int, Attempt, list[RankMinute]]]:
        """Yield the ranks of each attempt and minute that is complete, or has late values. The caller makes their bands
        and passes them to `settle`."""
        for minute in sorted(self._changed):
            if now >= (minute + 1) * MINUTE_SECONDS + SETTLE_SECONDS:
                for attempt in self._changed.pop(minute):
                    yield minute, attempt, list(self._minutes[minute][attempt].values())

    def settle(self, minute: int, attempt: Attempt, ranks: int, bands: Bands) -> Interval:
        """Store the bands of one attempt and minute, and return them as an interval."""
        document = pack(bands)
        self._remember_minute(minute, attempt, ranks, document)
        start, stored = minute * MINUTE_SECONDS, unpack(document)  # history stores the packed form
        return Interval(attempt.run_uid, attempt.number, MINUTE_SECONDS, start, ranks, stored)

    def forget(self, now: float) -> None:
        """Drop the values of old minutes, and old bands."""
        present = int(now // MINUTE_SECONDS)
        for minute in [minute for minute in self._minutes if minute <= present - KEPT_MINUTES]:
            del self._minutes[minute]
            self._own.pop(minute, None)
            self._changed.pop(minute, None)
            self._unshared.discard(minute)
        while self._recent:
            (minute, _), (_, document) = next(iter(self._recent.items()))
            if self._recent_bytes <= MAX_RECENT_BYTES and (minute + 1) * MINUTE_SECONDS > now - RECENT_SECONDS:
                break
            self._recent.popitem(last=False)
            self._recent_bytes -= len(document)
        for uid in [uid for uid, minutes in self._last.items() if minutes[0].number <= present - KEPT_MINUTES]:
            del self._last[uid]

    def _remember_minute(self, minute: int, attempt: Attempt, ranks: int, document: bytes) -> None:
        others = [each for each in self._last.get(attempt.run_uid, ()) if each[:2] != (attempt.number, minute)]
        newest = sorted([*others, Minute(attempt.number, minute, document)], reverse=True)
        self._last[attempt.run_uid] = newest[:LAST_MINUTES]
        known = self._recent.pop((minute, attempt), None)
        self._recent[minute, attempt] = ranks, document
        self._recent_bytes += len(document) - (len(known[1]) if known is not None else 0)

    # ------------------------------------------------------------------------------------------ parts of other servers

    def unshared(self, now: float) -> list[int]:
        """Return the minutes that have to be shared with other servers; most of their reports have arrived."""
        return sorted(
            minute for minute in self._unshared if now >= (minute + 1) * MINUTE_SECONDS + SHARED_AFTER_SECONDS
        )

    def part(self, minute: int) -> bytes:
        """Return all values of a minute that this server received from agents. The minute counts as shared from then
        on."""
        self._unshared.discard(minute)
        numbers: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        entries = []
        for attempt, rank in sorted(self._own.get(minute, ())):
            each = self._minutes[minute][attempt][rank]
            number = numbers.setdefault((each.member_names, each.gpu_names), len(numbers))
            entries.append(Entry(attempt.run_uid, attempt.number, rank, number, each.minute))
        return _encode(Part(minute, tuple(numbers), tuple(entries)))

    def keep_unshared(self, minute: int) -> None:
        """Note that a part could not be stored."""
        if minute in self._own:
            self._unshared.add(minute)

    def take(self, part: Part, now: float) -> None:
        """Add the values that another server received."""
        if not self.accepts(part.minute, now):
            return
        for entry in part.entries:
            names = part.names[entry.names]
            rank = RankMinute(entry.rank, *names, entry.minute)
            self.add(Attempt(entry.run_uid, entry.attempt), rank, own=False)

    # ------------------------------------------------------------------------------------------ queries

    def latest(self, run_uid: str) -> tuple[Attempt, int, dict[int, RankMinute]] | None:
        """Return attempt, minute and ranks of the newest minute of a run that most of its ranks have reported.

        That is the newest one, or the one before if it has more ranks. None without any value.
        """
        found: list[tuple[Attempt, int, _Ranks]] = []
        for minute in sorted(self._minutes, reverse=True):
            attempts = self._minutes[minute].items()
            of_run = [(attempt, ranks) for attempt, ranks in attempts if attempt.run_uid == run_uid]
            if of_run:
                attempt, ranks = max(of_run, key=lambda item: item[0])
                found.append((attempt, minute, ranks))
            if len(found) == 2:
                break
        if len(found) == 2 and found[0][0] == found[1][0] and len(found[1][2]) > len(found[0][2]):
            return found[1]
        return found[0] if found else None

    def newest_ranks(self) -> Iterator[RankMinute]:
        """Yield the newest minute of every rank that reported in the last minutes."""
        seen: set[tuple[Attempt, int]] = set()
        for minute in sorted(self._minutes, reverse=True):
            for attempt, ranks in self._minutes[minute].items():
                for rank, each in ranks.items():
                    if (attempt, rank) not in seen:
                        seen.add((attempt, rank))
                        yield each

    def newest(self) -> dict[Attempt, tuple[int, bytes]]:
        """Return minute and packed bands of every attempt that reported in the last minutes."""
        found: dict[Attempt, tuple[int, bytes]] = {}
        for (minute, attempt), (_, document) in reversed(self._recent.items()):
            if attempt not in found and minute in self._minutes:
                found[attempt] = minute, document
        return found

    def last(self, run_uid: str) -> list[Minute]:
        """Return the newest minutes of a run that reported in the last minutes, newest first; at most LAST_MINUTES."""
        return self._last.get(run_uid, [])

    def recent(self, run_uid: str, since: float, until: float) -> list[Interval]:
        """Return the bands of a run for minutes that begin in this time, in any order."""
        return [
            Interval(run_uid, attempt.number, MINUTE_SECONDS, minute * MINUTE_SECONDS, ranks, unpack(document))
            for (minute, attempt), (ranks, document) in self._recent.items()
            if attempt.run_uid == run_uid and since <= minute * MINUTE_SECONDS < until
        ]
