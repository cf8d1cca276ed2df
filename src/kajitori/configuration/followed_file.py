"""A file that operators write, followed as it changes; a faulty or half-saved one changes nothing.

The file may lie on a network that hangs, or something that is no file may take its place. So a thread of its own looks
at it, for at most LOOK_SECONDS of the caller's time, and only regular files are read.
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
"""How old the last look may be before the next question looks again."""
SETTLE_SECONDS = 0.3
"""How long a changed file has to stay as it is before it counts. Editors save in several steps: they empty the file and
write it in pieces, or move it away and write another one."""
LOOK_SECONDS = 0.2
"""How long a question waits for a look. While that look goes on, further questions do not wait."""
START_SECONDS = 10.0
"""How long the first look may take, without which nothing is in force."""
MAX_BYTES = 16 << 20

T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int, int]
"""Tells one state of a file from another: time of change, size, inode."""


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """What counts now. `faults` says why a newer file was not taken; `version` grows with each that was."""

    value: T
    version: int
    path: Path | None = None
    """The file that it was read from, or that has the faults; None where there is none."""
    faults: tuple[Fault, ...] = ()


F = TypeVar("F", bound="InForce")  # type: ignore[type-arg]


class Seen(NamedTuple):
    """What a look at a file found. Nothing was read if the file is still in the state that the caller knows."""

    stamp: Stamp | None
    """None if there is no file."""
    content: bytes = b""
    trouble: str = ""
    """Why the content can't be read."""
    age_seconds: float = 0.0
    """How long ago it was changed last; 0 if it changed during the look."""


class FollowedFile(Generic[T, F]):
    """Asked for what it says, it looks whether the file changed, unless it looked a moment ago."""

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
        """`what` names it in one word, `parse` reads it, `in_force` is the type of answers; `without_file` counts while
        there is no file; one that is `required` has to be there.

        Raises InvalidInput where the file is faulty, or is required and missing: nothing is started under what nobody
        meant.
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
        """Where the answer of a look will be that took too long."""
        self._before_silence: F | None = None
        """What was in force when the file system ceased to answer."""
        self._unsettled: tuple[Stamp | None, float] | None = None
        """A changed state that does not count yet, and when it was seen first."""
        seen = Seen(None) if path is None else self._look(path, None, START_SECONDS)
        if seen is None:
            raise self._unreadable(f"no answer within {START_SECONDS:g} s")
        self._stamp = seen.stamp
        self._looked_at = clock()
        self._current = self._newest(seen, 1)

    def current(self) -> F:
        """What is in force now. Waits at most LOOK_SECONDS for the file, however long that takes to answer."""
        with self._lock:
            now = self._clock()
            if self._path is not None and now - self._looked_at >= FRESH_SECONDS:
                self._looked_at = now
                self._follow(self._path, now)
            return self._current

    def complete(self, fill: Callable[[T], T]) -> None:
        """From now on `fill` adds to whatever is in force what it leaves out."""
        with self._lock:
            self._complete = fill
            self._current = replace(self._current, value=fill(self._current.value), version=self._current.version + 1)

    def _follow(self, path: Path, now: float) -> None:
        """Look at the file, and take what it says if that is new."""
        seen = self._look(path, self._stamp, LOOK_SECONDS)
        if seen is None:
            if self._before_silence is None:
                self._before_silence = self._current
                self._refuse(self._unreadable("its file system does not answer"))
            return
        if (before := self._before_silence) is not None:
            self._before_silence = None
            self._current = replace(self._current, path=before.path, faults=before.faults)
        if seen.stamp == self._stamp:
            self._unsettled = None
        elif self._has_settled(seen, now):
            self._stamp, self._unsettled = seen.stamp, None
            self._take(seen)

    def _has_settled(self, seen: Seen, now: float) -> bool:
        """Whether nobody is likely to be writing the file at the moment."""
        if seen.stamp is not None and seen.age_seconds >= SETTLE_SECONDS:
            return True
        if self._unsettled is None or self._unsettled[0] != seen.stamp:
            self._unsettled = (seen.stamp, now)
        return now - self._unsettled[1] >= SETTLE_SECONDS

    def _take(self, seen: Seen) -> None:
        before = self._current
        try:
            if seen.stamp is not None and not seen.trouble and not seen.content.strip():
                raise self._empty()
            self._current = self._newest(seen, before.version + 1)
        except InvalidInput as error:
            self._refuse(error)
            return
        if self._current.path != before.path:  # one took the other's place, which somebody may not have meant
            log.warning("the %s is %s from now on", self._what, self._current.path or "the one without a file")
        else:
            log.info("%s taken from %s", self._what, self._current.path)

    def _refuse(self, error: InvalidInput) -> None:
        log.error("%s %s is faulty, the old one stays in force: %s", self._what, self._path, error.message)
        self._current = replace(self._current, path=self._path, faults=error.faults)

    def _newest(self, seen: Seen, version: int) -> F:
        """What the file says now. Raises InvalidInput."""
        if seen.stamp is None and not self._required:
            return self._in_force(self._complete(self._without_file), version)
        if seen.stamp is None or seen.trouble:
            raise self._unreadable(seen.trouble or os.strerror(2))
        return self._in_force(self._complete(self._parse(seen.content)), version, self._path)

    def _look(self, path: Path, known: Stamp | None, patience_seconds: float) -> Seen | None:
        """What the file is now; None if its file system does not say so in time."""
        if self._looking is not None:
            if self._looking.empty():
                return None
            self._looking = None  # it answers again: what it said late may be old
        answer: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        threading.Thread(target=lambda: answer.put(look_at(path, known)), name=f"look at {path}", daemon=True).start()
        try:
            return answer.get(timeout=patience_seconds)
        except queue.Empty:
            self._looking = answer
            return None

    def _unreadable(self, why: str) -> InvalidInput:
        message = f"{self._path} can't be read: {why}"
        return InvalidInput.one(self._what, message, value=str(self._path), hint="check the path")

    def _empty(self) -> InvalidInput:
        hint = f"write {{}} into it if it is to say nothing{'' if self._required else ', or remove the file'}"
        return InvalidInput.one(self._what, f"{self._path} is empty", value=str(self._path), hint=hint)


def look_at(path: Path, known: Stamp | None) -> Seen:
    """Look at a file; read it unless it is in the `known` state. Blocks for as long as its file system does."""
    try:
        found = path.stat()
        stamp = _stamp(found)
        if stamp == known:
            return Seen(stamp)
        if not stat.S_ISREG(found.st_mode):
            return Seen(stamp, trouble="it is no regular file", age_seconds=_age(found))
        # A pipe may take the file's place at this moment, and must not be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            content = file.read(MAX_BYTES + 1)
            after = os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return Seen(None)
    except OSError as error:
        return Seen((0, 0, -(error.errno or 1)), trouble=error.strerror or str(error))
    if not stat.S_ISREG(after.st_mode):
        return Seen(_stamp(after), trouble="it is no regular file")
    if len(content) > MAX_BYTES:
        return Seen(stamp, trouble=f"it is larger than {MAX_BYTES >> 20} MiB", age_seconds=_age(after))
    return Seen(stamp, content, age_seconds=_age(after) if _stamp(after) == stamp else 0.0)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _age(found: os.stat_result) -> float:
    """Seconds since the file or its name was changed; 0 if the file's clock is ahead of ours."""
    return max(0.0, time.time() - max(found.st_mtime, found.st_ctime))
