"""The members of a sweep in the syntax of batch systems: `0-999%64`, `1,3,10-20:2`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kajitori.errors import FieldError

MAX_INDEX = 99_999
"""Largest index, so that `{run}-{attempt}-{index}` is a valid host name."""
MAX_MEMBERS = 10_000
"""Maximum number of members. The Run stores the state of each in at most 12 bytes, and has to stay small (rule 8)."""
MAX_TEXT = 4096
"""Maximum length of the text."""

_HINT = "write numbers and ranges, for example 0-999, 1,3,5-9 or 0-100:5; append %64 to run at most 64 at once"
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_AT_ONCE = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Array:
    """The indices of a sweep's members, and the number of members that may run at once."""

    indices: tuple[int, ...]
    """Indices in ascending order, without repeats."""
    at_once: int


@lru_cache(maxsize=1024)
def parse_array(text: str) -> Array:
    """Parse a text. Raises FieldError with a hint if it is invalid."""
    if len(text) > MAX_TEXT:
        hint = "use ranges, for example 0-999"
        raise FieldError(f"has {len(text)} characters; at most {MAX_TEXT} are allowed", hint)
    ranges, percent, limit = text.partition("%")
    if percent and (not _AT_ONCE.fullmatch(limit) or int(limit) == 0):
        raise FieldError(f"{'%' + limit!r:.80} is not a number of members that may run at once", _HINT)
    indices: set[int] = set()
    for part in ranges.split(","):
        indices.update(_indices_of(part, text))
        if len(indices) > MAX_MEMBERS:
            message = f"a sweep can have at most {MAX_MEMBERS} members"
            raise FieldError(message, "split it into several runs", "TooLarge")
    return Array(tuple(sorted(indices)), min(int(limit), len(indices)) if percent else len(indices))


def _indices_of(part: str, text: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        what = f"{part!r:.80} in {text!r:.80}" if part and part != text else f"{text!r:.80}"
        raise FieldError(f"{what} is not a number or a range of numbers", _HINT)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise FieldError(f"{part!r:.80}: the end of the range is below its start", f"write {last}-{first}")
    if step == 0:
        raise FieldError(f"{part!r:.80}: the step cannot be 0", _HINT)
    if last > MAX_INDEX:
        raise FieldError(f"{last} exceeds {MAX_INDEX}, the largest index", "count from 0", "TooLarge")
    return range(first, last + 1, step)
