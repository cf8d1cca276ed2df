"""Runs that a run waits for, in its status: the progress of the spec's `after`."""

from __future__ import annotations

import msgspec


class AfterState(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The progress of one entry of the spec's `after`."""

    run: str
    condition: str = "succeeded"
    uid: str = ""
    """UID of the run that is waited for; empty until there was a run of this name. A later run of the same name does
    not count."""
    since: str = ""
    """Time at which this run began to wait for it."""
    met_at: str = ""
    """Time at which the condition was seen to hold. From then on it is not looked at again."""
