"""The members of a sweep, as people write them: `0-999%64`, `1,3,10-20:2`; as batch systems do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kajitori.errors import FieldError

MAX_INDEX = 99_999
"""So that `{run}-{attempt}-{index}` stays a host name."""
MAX_MEMBERS = 10_000
"""The Run says of each of them how it ended: 12 bytes a member at worst, and the object stays small (rule 8)."""
MAX_TEXT = 4096

_HINT = "write numbers and ranges, such as 0-999, 1,3,5-9 or 0-100:5; and %64 behind them for at most 64 at once"
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_AT_ONCE = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Array:
    """The indices of a sweep's members, and how many of these may be there at once."""

    indices: tuple[int, ...]
    """Each once, upwards."""
    at_once: int


@lru_cache(maxsize=1024)
def parse_array(text: str) -> Array:
    """What such a text stands for. Raises FieldError with what is wrong with it and the way out."""
    if len(text) > MAX_TEXT:
        raise FieldError(f"has {len(text)} characters; at most {MAX_TEXT} are read", "use ranges, such as 0-999")
    ranges, percent, limit = text.partition("%")
    if percent and (not _AT_ONCE.fullmatch(limit) or int(limit) == 0):
        raise FieldError(f"{'%' + limit!r:.80} does not say how many members may be there at once", _HINT)
    indices: set[int] = set()
    for part in ranges.split(","):
        indices.update(_indices_of(part, text))
        if len(indices) > MAX_MEMBERS:
            message = f"more than {MAX_MEMBERS} members, which is the most that a sweep can have"
            raise FieldError(message, "make several runs of it", "TooLarge")
    return Array(tuple(sorted(indices)), min(int(limit), len(indices)) if percent else len(indices))


def _indices_of(part: str, text: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        what = f"{part!r:.80} in {text!r:.80}" if part and part != text else f"{text!r:.80}"
        raise FieldError(f"{what} is not a number or a range of numbers", _HINT)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise FieldError(f"{part!r:.80}: a range goes upwards", f"write {last}-{first}")
    if step == 0:
        raise FieldError(f"{part!r:.80}: a step of 0 leads nowhere", _HINT)
    if last > MAX_INDEX:
        raise FieldError(f"{last} is above {MAX_INDEX}, the largest index", "count from 0", "TooLarge")
    return range(first, last + 1, step)
