"""The output of an attached program, without gaps and repetitions: the bytes of the connections, joined with the
log."""

from __future__ import annotations

KEPT_BYTES = 4096
_KEYS = (KEPT_BYTES, 512, 64)
"""The end of the shown output is searched in a log with these lengths, one after the other. The order of standard
output and standard error may differ between the log and a connection, so shorter ends are tried, too."""
LEAST_BYTES = 8
"""Fewer bytes are found in a log by chance: the echo of a key."""


class Shown:
    """Remembers what was shown of a program, to find the place of its end in the log.

    The end may stand in the log more than once, such as a line of dots. Then the number of bytes since the beginning,
    which stands there once, tells the place. A kubelet sends attached clients no position, neither offset nor time.

    A log ends an unfinished last line, which the program did not do if a connection brings the line without an end.
    """

    def __init__(self) -> None:
        self._beginning = b""
        """The first KEPT_BYTES of what was shown."""
        self._end = b""
        """The last KEPT_BYTES."""
        self._count = 0
        """Number of bytes from the one to the other."""
        self._expected = b""
        """The bytes that the log has shown already and that the connection will bring next."""

    def add(self, text: bytes) -> bytes:
        """Remember text that is shown, and return it."""
        self._beginning += text[: KEPT_BYTES - len(self._beginning)]
        self._end = (self._end + text)[-KEPT_BYTES:]
        self._count += len(text)
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
        text, both = _without_unfinished_line(log, attached)
        self._expected = text[len(text) - both :]
        return self.add(text)

    def precede(self, log: bytes) -> None:
        """Remember a log as the output before a connection. The bytes that the connection has brought so far were
        shown."""
        if self._count <= KEPT_BYTES:
            text, both = _without_unfinished_line(log, self._end)
        else:
            text, both = log, self._count if log.endswith(self._end) else 0
        before = text[: len(text) - both][-KEPT_BYTES:]
        self._beginning = (before + self._beginning)[:KEPT_BYTES]
        self._end = (before + self._end)[-KEPT_BYTES:]
        self._count += len(before)

    def go_on(self, log: bytes, attached: bytes, *, guesses: bool = True) -> bytes | None:
        """Like `begin`, for a new connection: return what of the log was not shown yet.

        None if the end of what was shown is not in the log; also if it is there more than once, nothing tells which
        place is right, and the caller does not want a guess. A guess is the last place: nothing is shown twice.
        """
        place = self._place_in_log(log, guesses)
        if place is None:
            return None
        missed = log[place:]
        if missed == b"\n" and not self._end.endswith(b"\n"):
            missed = b""
        return self.begin(missed, attached)

    def _place_in_log(self, log: bytes, guesses: bool) -> int | None:
        for length in _KEYS if self._end else ():
            key = self._end[-length:]
            if (last := log.rfind(key)) < 0:
                continue
            if log.find(key) == last:
                return last + len(key)
            place = self._counted_place(log, key)
            return last + len(key) if place is None and guesses else place
        return None

    def _counted_place(self, log: bytes, key: bytes) -> int | None:
        """Return the place by the number of bytes since the beginning; None if that is not in the log exactly once."""
        begin = log.find(self._beginning)
        if begin < 0 or log.rfind(self._beginning) != begin:
            return None
        place = begin + self._count
        return place if log[place - len(key) : place] == key else None


def _without_unfinished_line(log: bytes, attached: bytes) -> tuple[bytes, int]:
    """Return the log, without the end of a line that has none in `attached`, and the number of its last bytes that the
    connection brings as its first ones, sooner or later."""
    if attached and not attached.endswith(b"\n") and log.endswith(attached + b"\n"):
        return log[:-1], len(attached)
    at = log.rfind(attached) if len(attached) >= LEAST_BYTES else -1
    if at >= 0:  # the log was read faster than the connection
        return log, len(log) - at
    for length in range(min(len(log), len(attached)), 0, -1):
        if log.endswith(attached[:length]):
            return log, length
    return log, 0
