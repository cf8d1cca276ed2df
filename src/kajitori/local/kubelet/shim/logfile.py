"""A container's log on disk, as Kubernetes' runtimes write it: `2026-11-21T11:00:00.123456789Z stdout F line`.

`F` ends a line; `P` is a piece of one: longer than 16 KiB, not finished for a second (a progress bar), or cut off by
the program's end. Readers join pieces, so that not a byte is added or lost.
"""

from __future__ import annotations

import contextlib
import os
import time

PIECE_BYTES = 16 * 1024
BLOCK_BYTES = 32 * 1024
PARTIAL_AFTER_SECONDS = 1.0


def timestamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with nine digits, as readers sort by."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


class LogWriter:
    """Writes one log with rotation: `0.log` is being written, `0.log.1` is the file before it, and so on.

    A full disk loses lines, never the program.
    """

    def __init__(self, path: str, max_bytes: int, max_files: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.max_files = max(1, max_files)
        self.partial_since: float | None = None
        self._pending: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Takes what the program wrote to `stream`; whole lines go to disk, the rest waits for its end."""
        pieces = (self._pending[stream] + data).split(b"\n")
        rest = pieces.pop()
        stamp = timestamp(time.time_ns())
        full, partial = f"{stamp} {stream} F ".encode(), f"{stamp} {stream} P ".encode()
        out: list[bytes] = []
        collected = 0
        for line in pieces:
            while len(line) > PIECE_BYTES:
                out += (partial, line[:PIECE_BYTES], b"\n")
                line = line[PIECE_BYTES:]
            out += (full, line, b"\n")
            collected += len(full) + len(line)
            if collected >= BLOCK_BYTES:
                # Short lines grow to many times their size: a file must not outgrow its limit by that.
                self._append(b"".join(out))
                out, collected = [], 0
        while len(rest) > PIECE_BYTES:
            out += (partial, rest[:PIECE_BYTES], b"\n")
            rest = rest[PIECE_BYTES:]
        self._pending[stream] = rest
        if not any(self._pending.values()):
            self.partial_since = None
        elif self.partial_since is None or pieces:
            self.partial_since = time.monotonic()
        if out:
            self._append(b"".join(out))

    def flush_partial(self) -> None:
        """Writes what waits for the end of its line, as a piece."""
        for stream, rest in self._pending.items():
            if rest:
                self._append(f"{timestamp(time.time_ns())} {stream} P ".encode() + rest + b"\n")
                self._pending[stream] = b""
        self.partial_since = None

    def close(self) -> None:
        self.flush_partial()
        os.close(self._fd)

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self.max_bytes:
            self._rotate()
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                written = os.write(self._fd, view)
                self._size += written
                view = view[written:]

    def _rotate(self) -> None:
        try:
            for number in range(self.max_files - 1, 0, -1):
                older = f"{self.path}.{number}"
                newer = f"{self.path}.{number - 1}" if number > 1 else self.path
                if os.path.lexists(newer):
                    os.replace(newer, older)
            if self.max_files == 1:
                os.unlink(self.path)
            os.close(self._fd)
            self._open()
        except OSError:
            self._fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC) if not _is_open(self._fd) else self._fd
            self._size = 0


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
