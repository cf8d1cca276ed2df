"""The policy in force: read from its file, read again when the file changes; a faulty file changes nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
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
    faults: tuple[Fault, ...] = ()


class PolicyFile:
    """Asked for the policy, it looks whether the file changed; that costs one `stat`."""

    def __init__(self, path: Path | None, *, without_file: Policy | None = None) -> None:
        """`without_file` is the policy while there is no file.

        Raises InvalidInput where the file is there and faulty: nothing is started under a policy that nobody meant.
        """
        self._path = path
        self._without_file = without_file or default_policy()
        self._stamp: tuple[int, int, int] | None = None
        self._current = PolicyInForce(self._without_file, 1, path)
        stamp = self._look()
        if stamp is not None:
            self._current = PolicyInForce(self._read(), 1, path)
            self._stamp = stamp

    def current(self) -> PolicyInForce:
        """The policy in force now."""
        stamp = self._look()
        if stamp == self._stamp:
            return self._current
        self._stamp = stamp
        version = self._current.version + 1
        try:
            policy = self._read() if stamp is not None else self._without_file
        except InvalidInput as error:
            log.error("policy %s is faulty, the old one stays in force: %s", self._path, error.message)
            self._current = PolicyInForce(self._current.policy, self._current.version, self._path, error.faults)
        else:
            log.info("policy taken from %s", self._path if stamp is not None else "its defaults")
            self._current = PolicyInForce(policy, version, self._path)
        return self._current

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
            raise InvalidInput.one("policy", f"{self._path} can't be read: {error.strerror}") from error
        return parse_policy(text)
