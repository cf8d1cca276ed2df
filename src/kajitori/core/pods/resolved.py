"""The amounts and limits of a run after policy filled in what its spec leaves out, and the findings that say so."""

from __future__ import annotations

from dataclasses import dataclass, field

from kajitori.core.pods.reach import Reach
from kajitori.core.policy.limits import PriorityWord
from kajitori.core.spec.status import Finding
from kajitori.core.words.taints import Toleration

DEAD_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that Kubernetes' node lifecycle controller puts on a node that stopped reporting."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Which run is decided about."""

    name: str
    namespace: str
    owner: str = ""
    """Who submitted it, where that is known."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The amounts of one member, and the limits of the run's life; millicores, bytes and seconds."""

    cpu_request_millis: int
    cpu_limit_millis: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    gpus: int
    gpu_type: str
    shm_bytes: int | None
    restarts: int
    grace_seconds: int
    time_limit_seconds: int | None
    priority: PriorityWord
    checkpoint_size_bytes: int
    user: str
    env: dict[str, str]
    node_selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    reach: Reach
    """Who may reach members, and where they may go; those on their node's own network are not restricted."""
    memory_unknown: bool = False
    """Neither the run nor policy names a memory limit, though policy wants one."""


@dataclass(slots=True)
class Findings:
    """Collects what policy changed or wants known."""

    found: list[Finding] = field(default_factory=list)

    def add(self, code: str, message: str, where: str = "") -> None:
        """One more finding; `where` is the field of the spec that it is about."""
        self.found.append(Finding(code, message, where))
