"""A file that operators edit, with changes that take effect at once. A faulty or half-saved file changes nothing.

The file may be on a network file system that hangs, or be replaced by something that is not a file. Therefore a
separate thread checks it, callers wait for at most LOOK_SECONDS, and only regular files are read.
"""

from __future__ import annotations

import logging
import os
import queue
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kajitori.errors import Fault, InvalidInput

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.1
"""Age of the last check after which the next call checks the file again."""
SETTLE_SECONDS = 0.3
"""How long a changed file must stay the same before it is read. Editors save in several steps: they empty the file and
write it in pieces, or move it away and write a new one."""
LOOK_SECONDS = 0.2
"""How long a call waits for a check. While that check is still running, further calls do not wait."""
OUTAGE_SECONDS = 5.0
"""A check that takes longer is a fault of the file. On a busy machine one may take longer than LOOK_SECONDS."""
START_SECONDS = 10.0
"""Time limit of the first check, before which nothing is in force."""
MAX_BYTES = 16 << 20

T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int, int]
"""Identifies a state of a file: modification time in nanoseconds, size, inode."""


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """The value that is in force now. `version` increases with each new value."""

    value: T
    version: int
    path: Path | None = None
    """File that the value was read from, or that has the faults; None if there is none."""
    faults: tuple[Fault, ...] = ()
    """Faults of a newer file, which is therefore not in force."""


F = TypeVar("F", bound="InForce")  # type: ignore[type-arg]


class Seen(NamedTuple):
    """Result of checking a file. The content is empty if the file is still in the state that the caller knows."""

    stamp: Stamp | None
    """None if there is no file."""
    content: bytes = b""
    trouble: str = ""
    """Why the content cannot be read."""
    age_seconds: float = 0.0
    """Time since the last change; 0 if the file changed during the check."""


class FollowedFile(Generic[T, F]):
    """A file with content that is in force. `current` checks it for changes, at most every FRESH_SECONDS."""

    def __init__(
        self,
        path: Path | None,
        what: str,
        parse: Callable[[bytes], T],
        in_force: type[F],
        *,
        without_file: T,
        required: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` is a name for messages, `parse` reads the content, `in_force` is the type of results. `without_file`
        is the value while there is no file, unless the file is `required`.

        Raises InvalidInput if the file is faulty, or required and missing, so that no process starts with settings that
        its operator did not intend.
        """
        self._in_force = in_force
        self._path = path
        self._what = what
        self._parse = parse
        self._without_file = without_file
        self._required = required and path is not None
        self._complete: Callable[[T], T] = lambda value: value
        self._clock = clock
        self._lock = threading.Lock()
        self._looking: queue.SimpleQueue[Seen] | None = None
        """Receives the result of a check that took too long."""
        self._looking_since = 0.0
        """When that check began."""
        self._before_outage: F | None = None
        """The value in force when the file system stopped responding."""
        self._unsettled: tuple[Stamp | None, float] | None = None
        """A changed state that is not read yet, and when it was first seen."""
        seen = Seen(None) if path is None else self._read_if_changed(path, None, START_SECONDS)
        if seen is None:
            raise self._unreadable_error(f"its file system did not respond within {START_SECONDS:g} s")
        self._stamp = seen.stamp
        self._looked_at = clock()
        self._current = self._newest_value(seen, 1)

    def current(self) -> F:
        """Return the value that is in force now. Waits at most LOOK_SECONDS for the file system."""
        with self._lock:
            now = self._clock()
            if self._path is not None and now - self._looked_at >= FRESH_SECONDS:
                self._looked_at = now
                self._follow(self._path, now)
            return self._current

    def complete(self, fill: Callable[[T], T]) -> None:
        """Apply `fill` to the present value and to all later ones. It adds what they leave out."""
        with self._lock:
            self._complete = fill
            self._current = replace(self._current, value=fill(self._current.value), version=self._current.version + 1)

    def completed(self, value: T) -> T:
        """Return a value with its missing parts filled in, as if they were in the file."""
        return self._complete(value)

    def _follow(self, path: Path, now: float) -> None:
        """Check the file, and use its content if that is new."""
        seen = self._read_if_changed(path, self._stamp, LOOK_SECONDS)
        if seen is None:
            if self._before_outage is None and now - self._looking_since >= OUTAGE_SECONDS:
                self._before_outage = self._current
                self._refuse(self._unreadable_error("its file system does not respond"))
            return
        if (before := self._before_outage) is not None:
            self._before_outage = None
            self._current = replace(self._current, path=before.path, faults=before.faults)
        if seen.stamp == self._stamp:
            self._unsettled = None
        elif self._has_settled(seen, now):
            self._stamp, self._unsettled = seen.stamp, None
            self._take(seen)

    def _has_settled(self, seen: Seen, now: float) -> bool:
        """Whether the file is probably not being written at the moment."""
        if seen.stamp is not None and seen.age_seconds >= SETTLE_SECONDS:
            return True
        if self._unsettled is None or self._unsettled[0] != seen.stamp:
            self._unsettled = (seen.stamp, now)
        return now - self._unsettled[1] >= SETTLE_SECONDS

    def _take(self, seen: Seen) -> None:
        before = self._current
        try:
            if seen.stamp is not None and not seen.trouble and not seen.content.strip():
                raise self._empty_error()
            self._current = self._newest_value(seen, before.version + 1)
        except InvalidInput as error:
            self._refuse(error)
            return
        if self._current.path != before.path:  # the file appeared or vanished, perhaps by mistake
            log.warning("the %s now in force is %s", self._what, self._current.path or "the default without a file")
        else:
            log.info("read the %s from %s", self._what, self._current.path)

    def _refuse(self, error: InvalidInput) -> None:
        log.error("the %s %s is faulty, the last valid one stays in force: %s", self._what, self._path, error.message)
        self._current = replace(self._current, path=self._path, faults=error.faults)

    def _newest_value(self, seen: Seen, version: int) -> F:
        """Return the value of the file's present content. Raises InvalidInput."""
        if seen.stamp is None and not self._required:
            return self._in_force(self._complete(self._without_file), version)
        if seen.stamp is None or seen.trouble:
            raise self._unreadable_error(seen.trouble or os.strerror(2))
        return self._in_force(self._complete(self._parse(seen.content)), version, self._path)

    def _read_if_changed(self, path: Path, known: Stamp | None, patience_seconds: float) -> Seen | None:
        """Check the file; return None if its file system does not respond in time."""
        if self._looking is not None:
            if self._looking.empty():
                return None
            self._looking = None  # the file system responds again; the late result may be old
        answer: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self._looking_since = self._clock()
        threading.Thread(target=lambda: answer.put(look_at(path, known)), name=f"look at {path}", daemon=True).start()
        try:
            return answer.get(timeout=patience_seconds)
        except queue.Empty:
            self._looking = answer
            return None

    def _unreadable_error(self, why: str) -> InvalidInput:
        message = f"{self._path} cannot be read: {why}"
        return InvalidInput.one(self._what, message, value=str(self._path), hint="check the path")

    def _empty_error(self) -> InvalidInput:
        hint = f"write {{}} into the file to use defaults only{'' if self._required else ', or remove it'}"
        return InvalidInput.one(self._what, f"{self._path} is empty", value=str(self._path), hint=hint)


def look_at(path: Path, known: Stamp | None) -> Seen:
    """Check a file, and read it unless it is in the `known` state. Blocks for as long as its file system does."""
    try:
        found = path.stat()
        stamp = _stamp_of(found)
        if stamp == known:
            return Seen(stamp)
        if not stat.S_ISREG(found.st_mode):
            return Seen(stamp, trouble="it is not a regular file", age_seconds=_age_seconds(found))
        # A pipe may replace the file at this moment. O_NONBLOCK prevents waiting for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            content = file.read(MAX_BYTES + 1)
            after = os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return Seen(None)
    except OSError as error:
        return Seen((0, 0, -(error.errno or 1)), trouble=error.strerror or str(error))
    if not stat.S_ISREG(after.st_mode):
        return Seen(_stamp_of(after), trouble="it is not a regular file")
    if len(content) > MAX_BYTES:
        return Seen(stamp, trouble=f"it is larger than {MAX_BYTES >> 20} MiB", age_seconds=_age_seconds(after))
    return Seen(stamp, content, age_seconds=_age_seconds(after) if _stamp_of(after) == stamp else 0.0)


def _stamp_of(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _age_seconds(found: os.stat_result) -> float:
    """Return the seconds since the file or its name changed; 0 if the file's clock is ahead of ours."""
    return max(0.0, time.time() - max(found.st_mtime, found.st_ctime))
