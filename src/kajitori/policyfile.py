"""The policy in force: read from its file, read again when the file changes; a faulty file changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kajitori.core.policy import Policy, default_policy, parse_policy
from kajitori.errors import Fault, InvalidInput

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """What counts now. `faults` says why a newer file was not taken; `version` grows with every policy taken."""

    policy: Policy
    version: int
    path: Path | None = None
    """The file that it was read from, or that has the faults; None where there is none."""
    faults: tuple[Fault, ...] = ()


class PolicyFile:
    """Asked for the policy, it looks whether the file changed; that costs one `stat`."""

    def __init__(self, path: Path | None, *, without_file: Policy | None = None, required: bool = False) -> None:
        """`without_file` is the policy while there is no file; one that is `required` has to be there.

        Raises InvalidInput where the file is faulty, or is required and missing: nothing is started under a policy that
        nobody meant.
        """
        self._path = path
        self._without_file = without_file or default_policy()
        self._required = required and path is not None
        self._complete: Callable[[Policy], Policy] = lambda policy: policy
        self._stamp = self._look()
        self._current = self._newest(1)

    def current(self) -> PolicyInForce:
        """The policy in force now."""
        stamp = self._look()
        if stamp == self._stamp:
            return self._current
        self._stamp = stamp
        before = self._current
        try:
            self._current = self._newest(before.version + 1)
        except InvalidInput as error:
            log.error("policy %s is faulty, the old one stays in force: %s", self._path, error.message)
            self._current = replace(before, path=self._path, faults=error.faults)
        else:
            if self._current.path != before.path:  # one took the other's place, which somebody may not have meant
                log.warning("the policy is %s from now on", self._current.path or "the one without a file")
            else:
                log.info("policy taken from %s", self._current.path)
        return self._current

    def complete(self, fill: Callable[[Policy], Policy]) -> None:
        """From now on `fill` adds to whatever policy is in force what it leaves out."""
        self._complete = fill
        self._current = replace(self._current, policy=fill(self._current.policy), version=self._current.version + 1)

    def _newest(self, version: int) -> PolicyInForce:
        """The policy as the file says it now. Raises InvalidInput."""
        if self._stamp is None and not self._required:
            return PolicyInForce(self._complete(self._without_file), version)
        return PolicyInForce(self._complete(self._read()), version, self._path)

    def _look(self) -> tuple[int, int, int] | None:
        """What tells one state of the file from another, or None where there is no file."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> Policy:
        assert self._path is not None
        try:
            text = self._path.read_bytes()
        except OSError as error:
            message = f"{self._path} can't be read: {error.strerror}"
            raise InvalidInput.one("policy", message, value=str(self._path), hint="check the path") from error
        return parse_policy(text)
