"""A request for a run, as a client's request for a container becomes one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from kajitori.core.naming.names import RUN_NAME_MAX_LENGTH
from kajitori.core.spec.run import name_fault
from kajitori.docker.translation.container import ANNOTATION
from kajitori.errors import Fault


@dataclass
class Creation:
    """A request for a run, and notes about it for the client."""

    name: str
    """Name of the container; empty if the server is to make one."""
    spec: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    """Parts of the container's configuration that are stored with the run."""
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def complain(self, option: str, message: str, hint: str = "", value: object = "") -> None:
        self.faults.append(Fault(option, message, str(value), hint))

    def body(self, namespace: str) -> dict[str, Any]:
        """Return the body of `POST /v1/runs`. The run is created stopped: starting a container resumes its run."""
        document: dict[str, Any] = {"spec": self.spec | {"stopped": True}}
        if self.name:
            document["name"] = run_name(self.name)
        if namespace:
            document["namespace"] = namespace
        if self.labels:
            document["labels"] = self.labels
        document["annotations"] = {ANNOTATION: json.dumps(self.notes, separators=(",", ":"))}
        return document


def run_name(name: str) -> str:
    """Return the name of the run of a container: the same if a run may have it, else one that is like it."""
    if name_fault(name) is None:
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"c-{plain}"
    digest = sha256(name.encode()).hexdigest()[:6]
    return f"{plain[: RUN_NAME_MAX_LENGTH - 7].rstrip('-')}-{digest}"
