"""Lines that Kajitori adds to a program's log, each where something is missing. All begin with `kaji: `."""

from __future__ import annotations

from kajitori.core.words.rotation_notice import size_words

UNKNOWN_TIME = "0001-01-01T00:00:00.000000000Z"
"""In the place of a line's time, before all times that lines have."""


def gap(after: str, until: str, node: str) -> str:
    """Lines of that time were gone when a broken connection was taken up again."""
    return f"kaji: lines printed between {after} and {until} may be missing: node {node} had rotated them away"


def lost_with_node(rank: int, attempt: int, node: str) -> str:
    """A node does not answer any more, and nothing was kept."""
    return f"kaji: what rank {rank} said last in attempt {attempt} is lost, with node {node}"


def lost_with_pod(rank: int, attempt: int) -> str:
    """A Pod went while nobody was connected, and nothing was kept."""
    return f"kaji: what rank {rank} said last in attempt {attempt} is lost, with its Pod"


def missing_before_end(rank: int, attempt: int) -> str:
    """A Pod went, and its log was longer than what is kept of one."""
    return f"kaji: some of what rank {rank} said in attempt {attempt} is missing here: only the end of its log was kept"


def only_end_kept(size_bytes: int) -> str:
    """A log was longer than what is kept of one."""
    return f"kaji: the last {size_words(size_bytes)} of this log were kept when its Pod went (policy: logs.perMember)"
