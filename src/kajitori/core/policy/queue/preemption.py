"""Policy for preemption and for the guarantees of teams: the sections `preemption` and `guarantees`, as types."""

from __future__ import annotations

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Cpu, DnsLabel, Duration, Memory
from kajitori.errors import FieldError


class Preemption(Document):
    """Preemption of running gangs. A preempted gang gets SIGTERM and its grace period to write a checkpoint, and goes
    back to its place in the queue."""

    enabled: bool = True
    """Whether running gangs may be preempted. If not, guaranteed resources become free only when other runs end."""
    minimum_run_seconds: Duration = Field(default=600, alias="minimumRunTime")
    """A gang is preempted only after it has run for this long since its members last started."""


class Guarantee(Document):
    """Resources that a team gets back whenever it needs them. Other teams may use them in the meantime."""

    namespace: DnsLabel
    """Namespace of the team."""
    gpu_type: str | None = Field(default=None, min_length=1, max_length=63)
    """Type of the guaranteed GPUs, for example h100. Left out: any type."""
    gpus: int | None = Field(default=None, ge=1, le=1_000_000)
    """Number of GPUs. Left out: the guarantee covers only runs without GPUs, and counts only their resources."""
    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores for runs without GPUs. Together with gpus: also the most cores that runs with GPUs may use."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory, with the same rules as cpu."""
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    """Number of whole nodes, for runs that do not share their nodes with other runs."""

    @model_validator(mode="after")
    def _check_amounts(self) -> Guarantee:
        if self.amounts == (None, None, None, None):
            message = f"the guarantee of {self.namespace} has no amounts"
            raise FieldError(message, "set at least one of gpus, cpu, memory and nodes")
        if self.gpu_type is not None and (self.gpus is None or self.amounts != (None, None, self.gpus, None)):
            message = f"a guarantee with gpuType {self.gpu_type} must have gpus and no other amounts"
            raise FieldError(message, f"write a second guarantee of {self.namespace}, without gpuType, for the rest")
        return self

    @property
    def amounts(self) -> tuple[int | None, ...]:
        """Guaranteed millicores, bytes of memory, GPUs and whole nodes, in this order; None if not guaranteed."""
        return self.cpu_millis, self.memory_bytes, self.gpus, self.nodes

    def covers(self, *, gpus: int, alone: bool) -> bool:
        """Whether the guarantee covers members with this number of GPUs, or with whole nodes (`alone`)."""
        if gpus:
            return self.gpus is not None
        if alone:
            return self.nodes is not None
        return self.cpu_millis is not None or self.memory_bytes is not None


def first_duplicate(guarantees: list[Guarantee]) -> Guarantee | None:
    """Return the first guarantee with the same namespace and GPU type as an earlier one; None if there is none."""
    seen = set()
    for guarantee in guarantees:
        key = guarantee.namespace, guarantee.gpu_type
        if key in seen:
            return guarantee
        seen.add(key)
    return None
