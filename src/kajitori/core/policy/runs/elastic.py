"""Policy for elastic gangs: the policy file's section `elastic`, as types."""

from __future__ import annotations

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Duration


class Elastic(Document):
    """Gangs that can run with fewer members than they ask for (`-n 8-32`). To grow, a gang is shut down gracefully and
    restarted from its checkpoint with more members."""

    grow: bool = True
    """Whether gangs are restarted to grow. If not, a gang keeps its size, or shrinks, until it is interrupted for
    another reason."""
    grow_after_seconds: Duration = Field(default=600, alias="growAfter")
    """A gang grows only if there has been room for more members for this long that no waiting run could use."""
    minimum_run_seconds: Duration = Field(default=1800, alias="minimumRunTime")
    """A gang is restarted to grow only after it has run for this long since its members last started."""
