"""What is asked of a member's log, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kajitori.api.logs.lines import Position, Text
from kajitori.core.documents.faults import show
from kajitori.errors import InvalidInput

BEGINNING = Position()

_BASE = 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What of a log is wanted."""

    follow: bool = False
    """Continue until the run is final, also across restarts."""
    tail: int | None = None
    """Only so many of the last lines."""
    since: datetime | None = None
    """Only what was written from then on."""
    attempt: int | None = None
    """Only this attempt; else the newest, and with `follow` those that come after."""
    first: int | None = None
    """With `follow`: this attempt and those that come after, of which the Pods may be gone. `tail` and `since` are
    about this one."""
    position: Position = BEGINNING
    """How far `first` was read before; then `tail` and `since` do not count."""
    timestamps: bool = True
    """Whether the times of lines matter: who asks for all of a log at once may do without them."""


class Batch(NamedTuple):
    """What came at once."""

    attempt: int
    part: Text
    position: Position
    """How far the attempt was read with it."""
    is_notice: bool = False
    """It is a line of ours, which is not there when the log is read again."""


class Cursor(NamedTuple):
    """How far a member's log was read: what a client keeps, and shows to go on after a broken connection."""

    rank: int
    attempt: int
    position: Position

    def __str__(self) -> str:
        """Short, since a client may have to show 256 of them in an address: `3.1.3mk2lqb2p0xs.2` and so on."""
        position = self.position
        text = f"{self.rank}.{self.attempt}"
        if position.time:
            text += f".{_in_base(_nanoseconds(position.time))}.{position.count}"
        return text if position.offset is None else f"{text}.{position.offset}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises InvalidInput for what no server said."""
        try:
            rank, attempt, *rest = text.split(".")
            position = BEGINNING
            if rest:
                time, count, *offset = rest
                position = Position(_time(int(time, _BASE)), int(count), int(offset[0]) if offset else None)
            cursor = cls(int(rank), int(attempt), position)
            if str(cursor) == text and cursor.attempt >= 1:
                return cursor
        except (ValueError, OverflowError):
            pass
        hint = "send the cursor of the last frame of each member as it was"
        raise InvalidInput.one("resume", "this is no cursor of a log", value=show(text), hint=hint)


def _nanoseconds(time: bytes) -> int:
    text = time.decode()
    return int((datetime.fromisoformat(f"{text[:19]}+00:00") - _EPOCH).total_seconds()) * 10**9 + int(text[20:29])


def _time(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.isoformat()[:19]}.{rest:09d}Z".encode()


def _in_base(number: int) -> str:
    sign, number = ("-", -number) if number < 0 else ("", number)
    digits = ""
    while number or not digits:
        number, digit = divmod(number, _BASE)
        digits = _DIGITS[digit] + digits
    return sign + digits
