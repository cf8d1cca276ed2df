"""A file that operators write, followed as it changes; a faulty one changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from kajitori.errors import Fault, InvalidInput

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """What counts now. `faults` says why a newer file was not taken; `version` grows with each that was."""

    value: T
    version: int
    path: Path | None = None
    """The file that it was read from, or that has the faults; None where there is none."""
    faults: tuple[Fault, ...] = ()


F = TypeVar("F", bound="InForce")  # type: ignore[type-arg]


class FollowedFile(Generic[T, F]):
    """Asked for what it says, it looks whether the file changed; that costs one `stat`."""

    def __init__(
        self,
        path: Path | None,
        what: str,
        parse: Callable[[bytes], T],
        in_force: type[F],
        *,
        without_file: T,
        required: bool = False,
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
        self._stamp = self._look()
        self._current = self._newest(1)

    def current(self) -> F:
        """What is in force now."""
        stamp = self._look()
        if stamp == self._stamp:
            return self._current
        self._stamp = stamp
        before = self._current
        try:
            self._current = self._newest(before.version + 1)
        except InvalidInput as error:
            log.error("%s %s is faulty, the old one stays in force: %s", self._what, self._path, error.message)
            self._current = replace(before, path=self._path, faults=error.faults)
        else:
            if self._current.path != before.path:  # one took the other's place, which somebody may not have meant
                where = self._current.path or "the one without a file"
                log.warning("the %s is %s from now on", self._what, where)
            else:
                log.info("%s taken from %s", self._what, self._current.path)
        return self._current

    def complete(self, fill: Callable[[T], T]) -> None:
        """From now on `fill` adds to whatever is in force what it leaves out."""
        self._complete = fill
        self._current = replace(self._current, value=fill(self._current.value), version=self._current.version + 1)

    def _newest(self, version: int) -> F:
        """What the file says now. Raises InvalidInput."""
        if self._stamp is None and not self._required:
            return self._in_force(self._complete(self._without_file), version)
        return self._in_force(self._complete(self._read()), version, self._path)

    def _look(self) -> tuple[int, int, int] | None:
        """What tells one state of the file from another, or None where there is no file."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> T:
        assert self._path is not None
        try:
            text = self._path.read_bytes()
        except OSError as error:
            message = f"{self._path} can't be read: {error.strerror}"
            raise InvalidInput.one(self._what, message, value=str(self._path), hint="check the path") from error
        return self._parse(text)
