"""What an agent remembers over its own death: one file, swapped in whole."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kajitori.configuration.private_files import locked_alone, write_private
from kajitori.core.traffic.totals import Ledger
from kajitori.errors import Conflict, Unavailable

log = logging.getLogger(__name__)

_NAME = "\0kajitori-agent"
"""Of a socket without a file: a network has it once, and has rules of its own, too."""
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


@contextlib.contextmanager
def alone_here() -> Iterator[None]:
    """Counts in this network for this process alone: two agents with folders of their own would each take the other's
    rules for damage, and tell every byte twice. Raises Conflict where there is another."""
    with socket.socket(socket.AF_UNIX) as mine:
        try:
            mine.bind(_NAME)
        except OSError as error:
            other = _holder()
            if other is not None:
                message = f"another agent counts on this node{f' (process {other})' if other else ''}"
                raise Conflict(message, hint="one is enough, whatever its --data: stop the other") from error
        else:
            mine.listen()
        yield


def _holder() -> int | None:
    """The process that has the name, 0 where it is in a container; None where it is not root's, who alone can count."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(_NAME)
            process, user, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return int(process) if user == 0 else None


def discard(folder: Path) -> None:
    """Takes away what agents keep in a folder, and the folder unless there is something else in it."""
    for name in (_LEDGER, _UNREADABLE, _LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
