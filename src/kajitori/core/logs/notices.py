"""Lines that Kajitori adds to a log to mark missing lines. All begin with `kaji: `."""

from __future__ import annotations

from datetime import datetime

from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.rotation_notice import is_about_rotation, size_words

UNKNOWN_TIME = "0001-01-01T00:00:00.000000000Z"
"""Timestamp of added lines with an unknown time. It is earlier than the time of any other line."""


LATE_SECONDS = 300
"""Time between the start of a program and the first line of its log after which lines before it may be missing."""


def missing_beginning(started_at: str, first_line: bytes, node: str) -> str:
    """Return the notice for a log that begins long after its program started; empty if it does not.

    Kubelets read only the newest file of a log. They neither say that there were others nor how long those were; only
    Kajitori's kubelet does, with a line of its own. `started_at` is in RFC 3339 and may be empty. `first_line` begins
    with its time.
    """
    time, _, text = first_line.partition(b" ")
    if not started_at or is_about_rotation(text):
        return ""
    try:
        late = datetime.fromisoformat(time[:19].decode()) - datetime.fromisoformat(started_at[:19])
    except ValueError:
        return ""
    seconds = int(late.total_seconds())
    if seconds < LATE_SECONDS:
        return ""
    after = format_duration(seconds - seconds % 60)
    return f"kaji: this log begins {after} after its program started: node {node} may have rotated earlier lines away"


def gap(after: str, until: str, node: str) -> str:
    """Return the notice for lines that were rotated away while a connection was interrupted."""
    return f"kaji: lines printed between {after} and {until} may be missing: node {node} rotated the log"


def lost_with_node(rank: int, attempt: int, node: str) -> str:
    """Return the notice for a log that lost its end because its node does not respond."""
    return f"kaji: the end of the log of rank {rank} in attempt {attempt} was lost with node {node}"


def lost_with_pod(rank: int, attempt: int) -> str:
    """Return the notice for a log that lost its end because its Pod was deleted while no reader was connected."""
    return f"kaji: the end of the log of rank {rank} in attempt {attempt} was lost with its Pod"


def missing_before_end(rank: int, attempt: int) -> str:
    """Return the notice for a log without its middle part: only the end was kept when its Pod was deleted."""
    return f"kaji: lines of rank {rank} in attempt {attempt} are missing here: only the end of its log was kept"


def only_end_kept(size_bytes: int) -> str:
    """Return the notice at the beginning of a log that was kept from its end only."""
    return f"kaji: only the last {size_words(size_bytes)} of this log were kept (policy: logs.perMember)"
