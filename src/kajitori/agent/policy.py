"""The section `traffic` of the policy file, and no other: an agent is small, and faults elsewhere don't stop it."""

from __future__ import annotations

import logging
from pathlib import Path

import yaml

from kajitori.core.address_classes import Classes
from kajitori.core.traffic_policy import TrafficPolicy
from kajitori.core.validation import read
from kajitori.errors import Fault, InvalidInput

log = logging.getLogger(__name__)


class TrafficSection:
    """Asked for it, it looks whether the file changed; a faulty file changes nothing."""

    def __init__(self, path: Path | None) -> None:
        """Raises InvalidInput where the section is faulty: nothing is counted in a way that nobody meant."""
        self._path = path
        self._stamp = self._look()
        self._traffic = self._read()
        self.classes: Classes = self._traffic.address_classes
        """What packets are counted by; changes with `current`."""

    def current(self) -> TrafficPolicy:
        """The section in force now."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                traffic = self._read()
            except InvalidInput as error:
                log.error("policy %s is faulty, the old one stays in force: %s", self._path, error.message)
            else:
                if traffic.engine != self._traffic.engine:
                    log.warning("traffic.engine is %s from the next start of the agent on", traffic.engine)
                self._traffic, self.classes = traffic, traffic.address_classes
        return self._traffic

    def _look(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> TrafficPolicy:
        """Raises InvalidInput."""
        if self._path is None:
            return TrafficPolicy()
        try:
            document = yaml.safe_load(self._path.read_bytes()) or {}
        except (OSError, yaml.YAMLError) as error:
            message = f"{self._path} can't be read: {error}"
            raise InvalidInput.one("policy", message, value=str(self._path), hint="check the file") from error
        if not isinstance(document, dict):
            raise InvalidInput([Fault("policy", "must be a mapping of sections such as defaults and traffic")])
        traffic, faults, _ = read(TrafficPolicy, document.get("traffic") or {}, "traffic")
        if faults or traffic is None:
            raise InvalidInput(faults)
        return traffic
