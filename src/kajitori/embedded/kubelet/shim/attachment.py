"""Attached remotes. Each receives a copy of the further output of a container's program."""

from __future__ import annotations

import contextlib
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PENDING_BYTES = 256 * 1024
"""Backlog at which a remote pauses the program, as a slow terminal does."""
STALLED_SECONDS = 20.0
"""If a remote reads nothing for this time, it is disconnected: no program may wait for a hung connection."""


class Attachment:
    """One remote's pipes, by stream. This object closes them."""

    def __init__(self, outputs: Mapping[str, int]) -> None:
        self._outputs = dict(outputs)
        self._pending: dict[str, bytearray] = {stream: bytearray() for stream in outputs}
        self._moved_at = time.monotonic()
        for fd in self._outputs.values():
            os.set_blocking(fd, False)

    @property
    def pending_bytes(self) -> int:
        """Bytes that the remote has not read yet."""
        return sum(map(len, self._pending.values()))

    @property
    def waiting_for(self) -> list[int]:
        """The pipes that must be written to as soon as they have room."""
        return [self._outputs[stream] for stream, pending in self._pending.items() if pending]

    def write(self, stream: str, data: bytes) -> bool:
        """Pass on output of the program. Return False if the remote has disconnected."""
        if stream not in self._outputs:
            return True
        if not self._pending[stream]:
            self._moved_at = time.monotonic()
        self._pending[stream] += data
        return self.flush()

    def flush(self) -> bool:
        """Write as much as fits into the pipes. Return False if the remote has disconnected or stalled."""
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
        """Wait a moment for the remote to read the rest after the program's end, then close."""
        deadline = time.monotonic() + seconds
        while self.flush() and self.waiting_for and (left := deadline - time.monotonic()) > 0:
            select.select([], self.waiting_for, [], left)
        self.close()

    def close(self) -> None:
        """Close the pipes, so that the remote sees their end."""
        for fd in self._outputs.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self._outputs.clear()
        self._pending.clear()
