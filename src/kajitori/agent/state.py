"""What an agent remembers over its own death: one file, swapped in whole."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kajitori.core.traffic import Ledger
from kajitori.errors import Conflict, Unavailable
from kajitori.privatefile import locked_alone, write_private

log = logging.getLogger(__name__)

_LEDGER, _UNREADABLE, _LOCK = "traffic.json", "traffic.unreadable", "agent.lock"


class LedgerFile:
    """The ledger of a node."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LEDGER
        self._written = b""

    def load(self) -> Ledger:
        """The ledger as it was kept last; a new one where there is none, or none that can be read."""
        try:
            content = self._path.read_bytes()
            ledger = msgspec.json.decode(content, type=Ledger)
        except FileNotFoundError:
            return Ledger()
        except ValueError as error:  # also where it is no UTF-8
            aside = self._path.with_name(_UNREADABLE)
            log.error("%s can't be read and is put aside as %s; totals begin anew: %s", self._path, aside.name, error)
            self._path.replace(aside)
            return Ledger()
        self._written = content
        return ledger

    def save(self, ledger: Ledger) -> None:
        """Keeps the ledger; it is on the disk when this returns. Raises OSError; then the old one is still there."""
        content = msgspec.json.encode(ledger)
        if content != self._written:
            write_private(self._path, content)
            self._written = content


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Makes the folder, and has it for this process alone.

    Raises Conflict where another agent has it, and Unavailable where nothing can be kept there.
    """
    with contextlib.ExitStack() as lock:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_ours = lock.enter_context(locked_alone(folder / _LOCK))
        except OSError as error:
            message = f"nothing can be kept in {folder}: {error.strerror}"
            raise Unavailable(message, hint="name another folder with --data") from error
        if not is_ours:
            raise Conflict(f"another agent counts with {folder}", hint="one agent counts for a node: stop the other")
        yield


def discard(folder: Path) -> None:
    """Takes away what agents keep in a folder, and the folder unless there is something else in it."""
    for name in (_LEDGER, _UNREADABLE, _LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
