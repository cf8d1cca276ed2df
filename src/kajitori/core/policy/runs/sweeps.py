"""Policy for sweeps: the policy file's section `sweeps`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Memory
from kajitori.core.spec.array import MAX_MEMBERS


class Sweeps(Document):
    """Runs of many independent members (`--array`). ceilings.run applies to the members that may exist at the same
    time, not to all members of a sweep."""

    members: int = Field(default=MAX_MEMBERS, ge=1, le=MAX_MEMBERS)
    """The most members that a sweep may have in total."""
    keep_logs: Literal["all", "failed", "none"] = "all"
    """The members of sweeps that keep the end of their log. Their Pods are deleted as soon as they have ended. Results
    are kept for all members."""
    per_member_bytes: Memory = Field(default=64 * 1024, alias="perMember")
    """Size of the end of each log that is kept, in whole lines."""
