"""Answers that contain parts of members' logs."""

from __future__ import annotations

from kajitori.api.views.base import Time, View


class LogFrame(View):
    """The head of a frame of a log, with the number of bytes that follow."""

    rank: int
    attempt: int
    size: int
    """Number of bytes of the log that follow this line. They may end within a line of the log, which continues in the
    member's next frame."""
    cursor: str
    """Position after this frame; a request with it as `resume` continues there."""


class LogLine(View, omit_defaults=True):
    """One line that a member printed."""

    rank: int
    attempt: int
    time: Time
    line: str
    goes_on: bool = False
    """Whether this is only a part of a very long line that the member's next part continues."""


class LogWindowLine(View, omit_defaults=True):
    """One line of a window."""

    time: Time
    line: str
    nth: int = 1
    """Number of the line among consecutive lines with this time, from 1."""
    cut: bool = False
    """Whether the line is longer than what is shown of it."""


class LogWindow(View, omit_defaults=True):
    """Some lines of the log of one rank in one attempt."""

    rank: int
    attempt: int
    lines: list[LogWindowLine]
    live: bool = False
    """Whether lines may still be added."""
    before: str = ""
    """Send it as `before` for the lines before these; absent if these begin the log."""
    after: str = ""
    """Send it as `after` for the lines behind these, or as `resume` to follow the log; absent if there are no lines."""
    at_end: bool = False
    """Whether the log has no further lines now."""
    missing: str = ""
    """Why there is no log, if there is none."""
    first: int | None = None
    """Number of the first of these lines, from 1; only for a window that begins with a line of a given number."""


class LogMatch(View, omit_defaults=True):
    """A line that a search found."""

    rank: int
    attempt: int
    time: Time
    line: str
    cursor: str
    """Send it as `at` for the lines around this one."""
    nth: int = 1
    """Number of the line among consecutive lines with this time, from 1."""
    number: int | None = None
    """Number of the line, from 1; absent if the search began inside of the log."""
    cut: bool = False
    """Whether the line is longer than what is shown of it."""


class LogSearchState(View, omit_defaults=True):
    """How far a search of one rank's log is."""

    rank: int
    attempt: int
    matches: int
    """Lines that were found so far, including those that are over the limit and therefore not in the answer."""
    searched: int
    """Bytes that were searched so far."""
    done: bool = False
    """Whether the search of this log is over."""
    next: str = ""
    """If the search is over, but the log is not: send it as `after` to go on."""
