"""What the operators decide about sweeps: the policy file's section `sweeps`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Memory
from kajitori.core.spec.array import MAX_MEMBERS


class Sweeps(Document):
    """Runs of many independent members (`--array`). The ceilings of a run count those that may be there at once."""

    members: int = Field(default=MAX_MEMBERS, ge=1, le=MAX_MEMBERS)
    """The most members that one may have, over all its time."""
    keep_logs: Literal["all", "failed", "none"] = "all"
    """Of which members the end of the log is kept when their Pods are taken away, as soon as they have ended. What they
    say as their result is kept of all."""
    per_member_bytes: Memory = Field(default=64 * 1024, alias="perMember")
    """The end of each such log, in whole lines."""
