"""Lines that Kajitori adds to a log to mark missing lines. All begin with `kaji: `."""

from __future__ import annotations

from kajitori.core.words.rotation_notice import size_words

UNKNOWN_TIME = "0001-01-01T00:00:00.000000000Z"
"""Timestamp of added lines whose time is unknown. It is earlier than the time of any other line."""


def gap(after: str, until: str, node: str) -> str:
    """Return the notice for lines that were rotated away while a connection was interrupted."""
    return f"kaji: lines printed between {after} and {until} may be missing: node {node} rotated the log"


def lost_with_node(rank: int, attempt: int, node: str) -> str:
    """Return the notice for the end of a log on a node that does not respond, of which nothing was kept."""
    return f"kaji: the end of the log of rank {rank} in attempt {attempt} was lost with node {node}"


def lost_with_pod(rank: int, attempt: int) -> str:
    """Return the notice for the end of a log whose Pod was deleted while no reader was connected, and of which nothing
    was kept."""
    return f"kaji: the end of the log of rank {rank} in attempt {attempt} was lost with its Pod"


def missing_before_end(rank: int, attempt: int) -> str:
    """Return the notice for the missing middle of a log of which only the end was kept when its Pod was deleted."""
    return f"kaji: lines of rank {rank} in attempt {attempt} are missing here: only the end of its log was kept"


def only_end_kept(size_bytes: int) -> str:
    """Return the notice at the beginning of a log of which only the end was kept."""
    return f"kaji: only the last {size_words(size_bytes)} of this log were kept (policy: logs.perMember)"
