"""Remotes that watch a container's program: each gets a copy of what the program prints from now on."""

from __future__ import annotations

import contextlib
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PENDING_BYTES = 256 * 1024
"""A remote that is so far behind holds the program up, as a slow terminal does."""
STALLED_SECONDS = 20.0
"""A remote that takes nothing for so long is let go: nobody's program waits for a hung connection."""


class Attachment:
    """One remote's pipes, by the stream that they carry. They are this object's to close."""

    def __init__(self, outputs: Mapping[str, int]) -> None:
        self._outputs = dict(outputs)
        self._pending: dict[str, bytearray] = {stream: bytearray() for stream in outputs}
        self._moved_at = time.monotonic()
        for fd in self._outputs.values():
            os.set_blocking(fd, False)

    @property
    def pending_bytes(self) -> int:
        """What the remote has not taken yet."""
        return sum(map(len, self._pending.values()))

    @property
    def waiting_for(self) -> list[int]:
        """The pipes that have to be written to as soon as there is room."""
        return [self._outputs[stream] for stream, pending in self._pending.items() if pending]

    def write(self, stream: str, data: bytes) -> bool:
        """Pass on what the program printed. False: the remote is gone."""
        if stream not in self._outputs:
            return True
        if not self._pending[stream]:
            self._moved_at = time.monotonic()
        self._pending[stream] += data
        return self.flush()

    def flush(self) -> bool:
        """Write what fits into the pipes. False: the remote is gone, or has stalled."""
        for stream, pending in self._pending.items():
            try:
                while pending:
                    written = os.write(self._outputs[stream], pending)
                    del pending[:written]
                    self._moved_at = time.monotonic()
            except BlockingIOError:
                continue
            except OSError:
                return False
        return not self.pending_bytes or time.monotonic() - self._moved_at < STALLED_SECONDS

    def finish(self, seconds: float) -> None:
        """The program has ended: wait a moment for the remote to take the rest, then close."""
        deadline = time.monotonic() + seconds
        while self.flush() and self.waiting_for and (left := deadline - time.monotonic()) > 0:
            select.select([], self.waiting_for, [], left)
        self.close()

    def close(self) -> None:
        """Let the remote see the end."""
        for fd in self._outputs.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self._outputs.clear()
        self._pending.clear()
