"""State of an agent across restarts: its ledger in one file that is replaced as a whole, and locks."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kajitori.configuration.private_files import exclusive_lock, write_private
from kajitori.core.traffic.totals import Ledger
from kajitori.errors import Conflict, Unavailable

log = logging.getLogger(__name__)

_SOCKET_NAME = "\0kajitori-agent"
"""Abstract socket that serves as a lock: it exists once per network namespace, as our rules do."""
_LEDGER, _UNREADABLE, _LOCK = "traffic.json", "traffic.unreadable", "agent.lock"


class LedgerFile:
    """The file with a node's ledger."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LEDGER
        self._written = b""

    def load(self) -> Ledger:
        """Return the stored ledger; a new one if there is none, or if it cannot be decoded."""
        try:
            content = self._path.read_bytes()
            ledger = msgspec.json.decode(content, type=Ledger)
        except FileNotFoundError:
            return Ledger()
        except ValueError as error:  # also raised for text that is not UTF-8
            aside = self._path.with_name(_UNREADABLE)
            log.error("%s can't be read and is kept as %s; totals begin at 0: %s", self._path, aside.name, error)
            self._path.replace(aside)
            return Ledger()
        self._written = content
        return ledger

    def save(self, ledger: Ledger) -> None:
        """Store the ledger durably. Raises OSError; the old one is then unchanged."""
        content = msgspec.json.encode(ledger)
        if content != self._written:
            write_private(self._path, content)
            self._written = content


@contextlib.contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Create the folder and lock it for this process.

    Raises Conflict if another agent uses it, and Unavailable if it cannot be written.
    """
    with contextlib.ExitStack() as lock:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_ours = lock.enter_context(exclusive_lock(folder / _LOCK))
        except OSError as error:
            message = f"{folder} cannot be written: {error.strerror}"
            raise Unavailable(message, hint="choose another folder with --data") from error
        if not is_ours:
            raise Conflict(f"another agent uses {folder}", hint="a node needs one agent: stop the other")
        yield


@contextlib.contextmanager
def exclusive_network() -> Iterator[None]:
    """Lock this network namespace for this process. Raises Conflict if another agent counts in it.

    Two agents with different folders would each undo the other's rules, and report every byte twice.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(_SOCKET_NAME)
        except OSError as error:
            other = _lock_holder()
            if other is not None:
                message = f"another agent counts on this node{f' (process {other})' if other else ''}"
                raise Conflict(message, hint="one is enough, whatever its --data: stop the other") from error
        else:
            lock.listen()
        yield


def _lock_holder() -> int | None:
    """Return the process that holds the lock, or 0 if it is in a container. Return None if the process is not root's,
    since only root can count traffic."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(_SOCKET_NAME)
            process, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return int(process) if user == 0 else None


def discard(folder: Path) -> None:
    """Delete an agent's files in a folder, and the folder if it is then empty."""
    for name in (_LEDGER, _UNREADABLE, _LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
