"""Encodings of a log in an answer: plain text, JSON documents, or frames."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kajitori.api.logs.lines import UNKNOWN_TIME, Text, rows, with_known_stamps, without_stamps
from kajitori.api.logs.merge import RankedBatch
from kajitori.api.logs.request import Cursor
from kajitori.api.views.logs import LogFrame, LogLine

FRAMES = "application/vnd.kajitori.log-frames"

Encoding = Callable[[RankedBatch], bytes]


def as_text(ranked: RankedBatch, *, timestamps: bool) -> bytes:
    """Return the lines as text, with their times if `timestamps`."""
    part = ranked.batch.part
    return with_known_stamps(part) if timestamps else without_stamps(part)


def as_frame(ranked: RankedBatch, *, timestamps: bool) -> bytes:
    """Return a LogFrame as a line of JSON, followed by the lines."""
    rank, batch = ranked
    text = as_text(ranked, timestamps=timestamps)
    cursor = str(Cursor(rank, batch.attempt, batch.position))
    return msgspec.json.encode(LogFrame(rank, batch.attempt, len(text), cursor)) + b"\n" + text


def documents() -> Encoding:
    """Return an encoder that writes a LogLine for each line or part of a line. It never splits a UTF-8 character."""
    begun: dict[int, tuple[bytes, bytes]] = {}

    def encode(ranked: RankedBatch) -> bytes:
        rank, batch = ranked
        return b"".join(
            msgspec.json.encode(line) + b"\n" for line in _log_lines(rank, batch.attempt, batch.part, begun)
        )

    return encode


def _log_lines(rank: int, attempt: int, part: Text, begun: dict[int, tuple[bytes, bytes]]) -> list[LogLine]:
    """Return the LogLines of a part. `begun` holds, by rank, an open line's time and the first bytes of a character."""
    lines = []
    for time, text, goes_on in rows(part):
        if not time:
            time, before = begun.pop(rank, (UNKNOWN_TIME, b""))
            text = before + text
        if goes_on:
            whole = _whole_characters(text)
            text, begun[rank] = text[:whole], (time, text[whole:])
        if text or not goes_on:
            shown = time.decode() if time != UNKNOWN_TIME else ""
            lines.append(LogLine(rank, attempt, shown, text.decode(errors="replace"), goes_on))
    return lines


def _whole_characters(text: bytes) -> int:
    """Return the length of the longest beginning of a UTF-8 text that does not end inside a character."""
    for back, byte in enumerate(reversed(text[-3:]), start=1):
        if byte >= 0xC0:  # the first byte of a character; it tells the number of bytes
            return len(text) - back if back < 2 + (byte >= 0xE0) + (byte >= 0xF0) else len(text)
        if byte < 0x80:
            break
    return len(text)
