"""The line that Kajitori's kubelet inserts into a container's log in place of output that log rotation dropped."""

from __future__ import annotations

_ENDING = "were dropped by the node's log rotation"


def dropped_by_rotation(size_bytes: int) -> str:
    """Return the line that stands for `size_bytes` of dropped output."""
    return f"kaji: {size_words(size_bytes)} printed before this line {_ENDING}"


def is_about_rotation(line: bytes) -> bool:
    """Return whether a line of a log is one that `dropped_by_rotation` wrote."""
    return line.startswith(b"kaji: ") and line.rstrip().endswith(_ENDING.encode())


def size_words(size_bytes: int) -> str:
    """Return a size for people: `812 bytes`, `66.9 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    amount = size_bytes / 1000
    for unit in ("kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
