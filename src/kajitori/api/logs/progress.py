"""How much of a member's log was read, and which part of it is still wanted."""

from __future__ import annotations

from dataclasses import replace

from kajitori.api.logs.lines import UNKNOWN_TIME, Resumption, Text, last_lines, since, stamp_of
from kajitori.api.logs.request import BEGINNING, Batch, LogRequest


class ReadingProgress:
    """The progress of one reader through the attempts of a member. It makes the batches that the reader gets."""

    def __init__(self, request: LogRequest) -> None:
        resumed = bool(request.position.time)
        self.newest_first = request.first is None
        """Whether reading begins with the newest attempt that has a Pod, since none was read yet."""
        self.last_opened = request.first or 0 if resumed else 0
        """Number of the attempt of which the log was opened last; 0 before the first."""
        self.read_attempts = (request.first or 1) - 1
        """The last attempt that was read to its end, like all before it."""
        self.tail = None if resumed else request.tail
        """Number of last lines that are wanted from the next log; None: all."""
        self.since = None if resumed else request.since
        """Time of the earliest line that is wanted from the next log; None: from its beginning."""
        self.position = request.position
        """Position in the log of the attempt that was opened last."""

    @property
    def is_at_beginning(self) -> bool:
        """Whether the next log is read from its beginning."""
        return self.tail is None and self.since is None and not self.position.time

    @property
    def since_time(self) -> str:
        """Time from which the API server has to send the next log, in whole seconds; empty: from its beginning."""
        stamps = [stamp for stamp in (self.position.time, self._since_stamp()) if stamp > UNKNOWN_TIME]
        return max(stamps)[:19].decode() + "Z" if stamps else ""

    def unread(self) -> Resumption:
        """Return a filter that skips the lines of the next log that were read before or are too old."""
        return Resumption(self.position) if self.position.time else since(self._since_stamp())

    def select(self, text: bytes) -> bytes:
        """Return the lines that are wanted, by time and number, of a log that was not read before."""
        if self.since is not None:
            text = since(self._since_stamp()).fresh(Text(text)).text
        return last_lines(text, self.tail)

    def _since_stamp(self) -> bytes:
        return stamp_of(self.since) if self.since is not None else b""

    def skip_to(self, attempt: int) -> None:
        """Note that no earlier attempt will be read any more."""
        self.read_attempts = max(self.read_attempts, attempt - 1)

    def finish(self, attempt: int) -> None:
        """Note that an attempt was read to its end, so that the next is read from its beginning."""
        self.skip_to(attempt + 1)
        self.newest_first = False
        self.tail = self.since = None
        self.position = BEGINNING

    def advance(self, attempt: int, part: Text) -> Batch:
        """Return the batch of lines that were just read, and move the position behind them."""
        if part.stamped:
            self.position = self.position.after(part)
        return Batch(attempt, part, self.position)

    def cursor_update(self) -> Batch:
        """Return an empty batch with the present cursor, so that a follower can resume there."""
        return Batch(self.read_attempts + 1, Text(b""), self.position)

    def line_end(self, attempt: int) -> Batch | None:
        """Return the missing line end of an attempt's last line; None if the line has one."""
        if self.position.offset is None:
            return None
        self.position = replace(self.position, offset=None)
        return Batch(attempt, Text(b"\n", inside=True, is_added_end=True), self.position)

    def notice(self, text: str) -> Batch:
        """Return a line that the server adds. It leaves the position unchanged, since it is not in the log itself."""
        inside = self.position.offset is not None
        self.position = replace(self.position, offset=None)
        stamp = self.position.time or UNKNOWN_TIME
        line = b"\n" * inside + stamp + b" " + text.encode() + b"\n"
        return Batch(self.last_opened, Text(line, inside), self.position, is_notice=True)
