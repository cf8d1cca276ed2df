"""Policy for preemption, and what a team is guaranteed."""

from __future__ import annotations

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Cpu, DnsLabel, Duration, Memory
from kajitori.errors import FieldError


class Preemption(Document):
    """Runs of low priority are preempted for others: they get time to write a checkpoint, and are queued again at their
    place."""

    enabled: bool = True
    """Whether running gangs are preempted at all; without it a guarantee is met only as other runs end."""
    minimum_run_seconds: Duration = Field(default=600, alias="minimumRunTime")
    """A gang is preempted only after it has run for this long since its members last started."""


class Guarantee(Document):
    """What a team gets back whenever it wants it. While it does not, others use it."""

    namespace: DnsLabel
    """The team."""
    gpu_type: str | None = Field(default=None, min_length=1, max_length=63)
    """The GPUs are of this type, such as h100; left out: of any."""
    gpus: int | None = Field(default=None, ge=1, le=1_000_000)
    """How many GPUs. Without them it is about runs that ask for none, and counts what these hold."""
    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores, for runs without GPUs; with gpus also at most so many for those that have some."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory, in the same way."""
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    """Whole nodes, for runs that share theirs with nobody else."""

    @model_validator(mode="after")
    def _of_something(self) -> Guarantee:
        if self.amounts == (None, None, None, None):
            raise FieldError(f"{self.namespace} is guaranteed nothing", "say how much: gpus, cpu, memory or nodes")
        if self.gpu_type is not None and (self.gpus is None or self.amounts != (None, None, self.gpus, None)):
            message = f"gpuType {self.gpu_type} is of GPUs alone"
            raise FieldError(message, f"say how many gpus, and guarantee {self.namespace} all else without a type")
        return self

    @property
    def amounts(self) -> tuple[int | None, ...]:
        """Millicores, bytes, GPUs, whole nodes; None: it says nothing of that."""
        return self.cpu_millis, self.memory_bytes, self.gpus, self.nodes

    def is_about(self, *, gpus: int, alone: bool) -> bool:
        """Whether it names what is scarce for members that ask for so many GPUs, or share their nodes with nobody."""
        if gpus:
            return self.gpus is not None
        if alone:
            return self.nodes is not None
        return self.cpu_millis is not None or self.memory_bytes is not None


def doubled(guarantees: list[Guarantee]) -> Guarantee | None:
    """A guarantee that names the same team and type as one before it; None where there is none."""
    seen = set()
    for each in guarantees:
        what = each.namespace, each.gpu_type
        if what in seen:
            return each
        seen.add(what)
    return None
