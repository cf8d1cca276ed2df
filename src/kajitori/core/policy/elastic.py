"""What the operators decide about elastic gangs: the policy file's section `elastic`, as types."""

from __future__ import annotations

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration


class Elastic(Document):
    """Gangs that may have fewer members than they ask for (`-n 8-32`). To grow, one is ended in an orderly way and
    started again from its checkpoint."""

    grow: bool = True
    """Whether they are started again to grow. Otherwise one has what it started with, or less, until it is interrupted
    for another reason."""
    grow_after_seconds: Duration = Field(default=600, alias="growAfter")
    """There has to have been room for more members for this long, which nobody who waits could use."""
    minimum_run_seconds: Duration = Field(default=1800, alias="minimumRunTime")
    """A gang is started again to grow only when it has run for this long since its members last started."""
