"""The section `traffic` of the policy file. The agent reads no other section, so faults elsewhere do not stop it."""

from __future__ import annotations

import logging
from pathlib import Path

import yaml

from kajitori.configuration.followed_file import FollowedFile, InForce
from kajitori.core.documents.faults import read
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.traffic.address_classes import Classes
from kajitori.errors import Fault, InvalidInput

log = logging.getLogger(__name__)


_File = FollowedFile[TrafficPolicy, InForce[TrafficPolicy]]


class TrafficSection:
    """The traffic policy of a file, which is checked for changes on each use; a faulty change is ignored."""

    def __init__(self, path: Path | None) -> None:
        """Raise InvalidInput if the section is faulty at the start, so that nothing is counted by wrong rules."""
        self._file = _File(path, "policy", _parsed_policy, InForce, without_file=TrafficPolicy(), required=True)
        self._traffic = self._file.current().value
        self.classes: Classes = self._traffic.address_classes
        """Address classes in force; they change with `current`."""

    def current(self) -> TrafficPolicy:
        """Return the section in force now."""
        traffic = self._file.current().value
        if traffic is not self._traffic:
            if traffic.engine != self._traffic.engine:
                log.warning("traffic.engine is %s from the next start of the agent on", traffic.engine)
            self._traffic, self.classes = traffic, traffic.address_classes
        return traffic


def _parsed_policy(text: bytes) -> TrafficPolicy:
    """Return the traffic section of a policy file. Raises InvalidInput."""
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise InvalidInput.one("policy", f"is not YAML: {error}", hint="check the file") from error
    if not isinstance(document, dict):
        raise InvalidInput([Fault("policy", "must be a mapping of sections, for example defaults and traffic")])
    traffic, faults, _ = read(TrafficPolicy, document.get("traffic") or {}, "traffic")
    if faults or traffic is None:
        raise InvalidInput(faults)
    return traffic
