"""Requests for a member's log, batches of its lines, and cursors to resume reading."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from kajitori.api.logs.lines import Position, Text
from kajitori.core.documents.faults import show
from kajitori.errors import InvalidInput

BEGINNING = Position()

OutputStream = Literal["stdout", "stderr"]

_BASE = 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The part of a member's log that a caller wants."""

    follow: bool = False
    """Continue until the run is final, also across restarts."""
    tail: int | None = None
    """Number of last lines; None: all lines."""
    since: datetime | None = None
    """Time of the earliest line."""
    attempt: int | None = None
    """Only this attempt; None: the newest, and with `follow` the later ones."""
    first: int | None = None
    """With `follow`: begin with this attempt, whose Pod may be gone. `tail` and `since` apply to it."""
    position: Position = BEGINNING
    """Position up to which `first` was read before; if set, `tail` and `since` are ignored."""
    timestamps: bool = True
    """Whether the times of lines are needed; a request for a whole log can do without."""
    stream: OutputStream | None = None
    """Only lines that the program wrote to this stream; None: to either."""


def no_such_attempt(run_name: str, attempts: int, wanted: int) -> InvalidInput:
    """Return the error for an attempt that a run has not made. `attempts` is the number of those that it has made."""
    times = f"{attempts} times" if attempts != 1 else "once"
    hint = f"name one of 1 to {attempts}" if attempts > 1 else "leave it out"
    return InvalidInput.one("attempt", f"{run_name} was started {times}", value=str(wanted), hint=hint)


class Batch(NamedTuple):
    """Lines of one attempt that arrived together."""

    attempt: int
    part: Text
    position: Position
    """Position in the attempt's log after this batch."""
    is_notice: bool = False
    """Whether this is a line that the server added, which is not in the log itself."""


class Cursor(NamedTuple):
    """The position up to which a member's log was read. A client sends it to continue after a broken connection."""

    rank: int
    attempt: int
    position: Position

    def __str__(self) -> str:
        """Return a short text, such as `3.1.3mk2lqb2p0xs.2`, since a URL may contain 256 cursors."""
        position = self.position
        text = f"{self.rank}.{self.attempt}"
        if position.time:
            text += f".{_in_base(_nanoseconds(position.time))}.{position.count}"
        return text if position.offset is None else f"{text}.{position.offset}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read a cursor. Raises InvalidInput for a text that no server wrote."""
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
        hint = "send the cursor of each member's last frame unchanged"
        raise InvalidInput.one("resume", "is no cursor of a log", value=show(text), hint=hint)


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
