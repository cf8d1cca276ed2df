"""What policy says about who gives way to whom, and what a team is guaranteed."""

from __future__ import annotations

from pydantic import Field

from kajitori.core.fields import DnsLabel, Duration
from kajitori.core.validation import Document


class Preemption(Document):
    """Runs of low priority give way to others: they are asked to write a checkpoint, and go back to their place in the
    queue."""

    enabled: bool = True
    """Whether running gangs are asked to give way at all; without it a guarantee is met only as others end."""
    minimum_run_seconds: Duration = Field(default=600, alias="minimumRunTime")
    """A gang is asked only when it has run for this long since its members last started."""


class Guarantee(Document):
    """GPUs that a team gets back whenever it wants them. While it does not, others use them."""

    namespace: DnsLabel
    """The team."""
    gpu_type: str | None = Field(default=None, min_length=1, max_length=63)
    """Of this type, such as h100; left out: of any."""
    gpus: int = Field(ge=1, le=1_000_000)
    """How many."""


def doubled(guarantees: list[Guarantee]) -> Guarantee | None:
    """A guarantee that names the same team and type as one before it; None where there is none."""
    seen = set()
    for each in guarantees:
        what = each.namespace, each.gpu_type
        if what in seen:
            return each
        seen.add(what)
    return None
