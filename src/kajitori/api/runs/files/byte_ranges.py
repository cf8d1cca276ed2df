"""The `Range` header of HTTP, as far as it is one range of bytes (RFC 9110, section 14)."""

from __future__ import annotations

import re
from typing import NamedTuple

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class ByteRange(NamedTuple):
    """A part of a file."""

    offset: int
    """First byte; a negative number counts from the end."""
    length: int | None
    """Number of bytes; None: all up to the end."""


def read_range(header: str) -> ByteRange | None:
    """Return the range that a header names; None if it names none, or several, or is invalid: HTTP demands that the
    whole file is sent then."""
    found = _ONE_RANGE.fullmatch(header.replace(" ", ""))
    if found is None:
        return None
    first, last = found[1], found[2]
    if first and last:
        return ByteRange(int(first), int(last) - int(first) + 1) if int(last) >= int(first) else None
    if first:
        return ByteRange(int(first), None)
    return ByteRange(-int(last), None) if last and int(last) else None
