"""The output of an attached program, without gaps and repetitions: what connections bring, joined with the log."""

from __future__ import annotations

KEPT_BYTES = 4096
_KEYS = (KEPT_BYTES, 512, 64)
"""Lengths of the end of what was shown that is looked for in a log. The order of standard output and standard error may
differ between the log and a connection, so shorter ends are tried, too."""
_LEAST_BYTES = 8
"""Fewer bytes are found in a log by chance: the echo of a key."""


class Shown:
    """Remembers the end of what was shown of a program, to find the same place in its log.

    A log ends an unfinished last line, which the program did not do if a connection brings the line without an end.
    """

    def __init__(self) -> None:
        self._end = b""
        self._expected = b""
        """What the connection brings next, and the log has shown already."""

    def add(self, text: bytes) -> bytes:
        """Remember text that is shown, and return it."""
        self._end = (self._end + text)[-KEPT_BYTES:]
        return text

    def new(self, data: bytes) -> bytes:
        """Return the part of a connection's next bytes that a log has not shown before."""
        known = min(len(self._expected), len(data))
        if self._expected[:known] == data[:known]:
            self._expected = self._expected[known:]
            return self.add(data[known:])
        self._expected = b""
        return self.add(data)

    def begin(self, log: bytes, attached: bytes) -> bytes:
        """Return what to show of the log before the bytes of a connection, which go through `new` afterwards.

        `attached` is what the connection has brought until the log was read: it is older than the end of the log.
        """
        text, both = _overlap(log, attached)
        self._expected = text[len(text) - both :]
        return self.add(text)

    def precede(self, log: bytes) -> None:
        """Remember a log as what came before a connection, whose bytes so far have been shown."""
        text, both = _overlap(log, self._end)
        self._end = (text[: len(text) - both] + self._end)[-KEPT_BYTES:]

    def go_on(self, log: bytes, attached: bytes) -> bytes | None:
        """Like `begin`, for a new connection: return what of the log was not shown yet.

        None if the end of what was shown is not in the log.
        """
        place = self._place(log)
        if place is None:
            return None
        missed = log[place:]
        if missed == b"\n" and not self._end.endswith(b"\n"):
            missed = b""
        return self.begin(missed, attached)

    def _place(self, log: bytes) -> int | None:
        for length in _KEYS if self._end else ():
            key = self._end[-length:]
            if (at := log.rfind(key)) >= 0:
                return at + len(key)
        return None


def _overlap(log: bytes, attached: bytes) -> tuple[bytes, int]:
    """Return the log, without the end of a line that has none in `attached`, and the number of its last bytes that the
    connection brings as its first ones, sooner or later."""
    if attached and not attached.endswith(b"\n") and log.endswith(attached + b"\n"):
        return log[:-1], len(attached)
    at = log.rfind(attached) if len(attached) >= _LEAST_BYTES else -1
    if at >= 0:  # the log was read faster than the connection
        return log, len(log) - at
    for length in range(min(len(log), len(attached)), 0, -1):
        if log.endswith(attached[:length]):
            return log, length
    return log, 0
