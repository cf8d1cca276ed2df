"""Lines that Kajitori adds to a program's log, each where something is missing. All begin with `kaji: `."""

from __future__ import annotations

_ROTATED = "were dropped by the node's log rotation"


def dropped_by_rotation(size_bytes: int) -> str:
    """So much of what the program printed is missing before this line."""
    return f"kaji: {size_words(size_bytes)} printed before this line {_ROTATED}"


def is_about_rotation(line: bytes) -> bool:
    """Whether a kubelet of ours says in this line what its rotation dropped."""
    return line.startswith(b"kaji: ") and line.rstrip().endswith(_ROTATED.encode())


def size_words(size_bytes: int) -> str:
    """A size for people: `812 bytes`, `66.9 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    amount = size_bytes / 1000
    for unit in ("kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
