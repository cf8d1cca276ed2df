"""The amounts and limits of a run after policy filled in what its spec leaves out, and the findings that say so."""

from __future__ import annotations

from dataclasses import dataclass, field

from kajitori.core.gpus.offers import GpuWay
from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.pods.reach import Reach
from kajitori.core.policy.runs.limits import PriorityWord
from kajitori.core.spec.status import Finding

DEAD_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that Kubernetes' node lifecycle controller puts on a node that stopped reporting."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Name, namespace and owner of the run that is being admitted."""

    name: str
    namespace: str
    owner: str = ""
    """User who submitted the run; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Resources of one member, and limits of the run; in millicores, bytes and seconds."""

    cpu_request_millis: int
    cpu_limit_millis: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    gpus: int
    gpu_type: str
    gpu_way: GpuWay
    """How the members' Pods ask for their GPUs."""
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
    """Network access of the members; unrestricted if they use the network of their node."""
    memory_unknown: bool = False
    """Whether the policy requires a memory limit and neither run nor policy sets one."""


@dataclass(slots=True)
class Findings:
    """Collector of findings: changes by the policy, and warnings."""

    found: list[Finding] = field(default_factory=list)

    def add(self, code: str, message: str, where: str = "") -> None:
        """Add a finding. `where` is the field of the spec that it concerns."""
        self.found.append(Finding(code, message, where))
