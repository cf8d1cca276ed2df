"""The names of large checkpoint folders, kept between the pages of their lists.

An operating system lists a folder in no order, so a sorted page has to read all of its entries. For the second page the
reader also returns the names of all later entries. With these names, a later page describes only its own entries. The
names may be missing, because another server keeps them, they were too many, or names of other folders replaced them.
Then the page reads the folder again.
"""

from __future__ import annotations

import base64
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

MAX_LISTING_BYTES = 8 << 20
"""Most bytes of the names of one folder: of 100,000 entries if their names have 80 letters."""
MAX_BYTES = 32 << 20
"""Most bytes of all names that are kept; the folder that was not asked for longest is dropped."""
KEPT_SECONDS = 600.0
"""Time for which the names of a folder are kept after the last page."""
MAX_PAGE_BYTES = 96 << 10
"""Most bytes of the names of one page: they are an argument of the reader's program, which may have 128 KiB."""
MAX_PAGE = 1000
"""Most entries of a page for which names are kept. A client that takes thousands at a time reads the folder a few times
in all."""


@dataclass(slots=True)
class Listing:
    """The entries of one folder that come after its second page."""

    folder: tuple[str, str]
    """UID of the run, and the path in its checkpoint folder."""
    keys: Sequence[str]
    """In the order of the list; each is a digit for its kind and the name, as `member/files.py` writes it."""
    count: int
    """Number of entries of the whole folder when it was read."""
    size_bytes: int
    kept_until: float


@dataclass(frozen=True, slots=True)
class Page:
    """The entries of one later page."""

    keys: Sequence[str]
    count: int
    position: str
    """Position of the page after it; empty after the last page."""


class FileListings:
    """Folders that are listed in several pages."""

    def __init__(self, now: Callable[[], float]) -> None:
        """now: seconds of a clock that never goes back."""
        self._now = now
        self._kept: OrderedDict[str, Listing] = OrderedDict()

    def keep(self, folder: tuple[str, str], keys: Sequence[str], count: int) -> str:
        """Keep the keys of a folder, and return the name under which `page` finds them; empty if there are none."""
        size_bytes = sum(map(len, keys))
        if not keys or size_bytes > MAX_LISTING_BYTES:
            return ""
        name = secrets.token_urlsafe(12)
        self._kept[name] = Listing(folder, keys, count, size_bytes, self._now() + KEPT_SECONDS)
        self._drop()
        return name

    def page(self, position: str, folder: tuple[str, str], limit: int) -> Page | None:
        """Return the page at a position that an earlier page named; None if the keys are not here."""
        name, _, offset = position.partition("@")
        self._drop()
        listing = self._kept.get(name)
        if listing is None or listing.folder != folder or not offset.isascii() or not offset.isdecimal():
            return None
        self._kept.move_to_end(name)
        listing.kept_until = self._now() + KEPT_SECONDS
        start, size_bytes = int(offset), 0
        keys: list[str] = []
        for key in listing.keys[start : start + limit]:
            size_bytes += len(msgspec.json.encode(key)) + 1
            if keys and size_bytes > MAX_PAGE_BYTES:
                break
            keys.append(key)
        if not keys:
            return None
        end = start + len(keys)
        return Page(keys, listing.count, f"{name}@{end}" if end < len(listing.keys) else "")

    @staticmethod
    def cursor(key: str) -> str:
        """Return the position after an entry that the reader's program understands (`member/files.py`)."""
        return base64.urlsafe_b64encode(key.encode("latin-1")).decode()

    def _drop(self) -> None:
        """Drop what is too old or too much."""
        now = self._now()
        for name in [name for name, listing in self._kept.items() if listing.kept_until < now]:
            del self._kept[name]
        while sum(listing.size_bytes for listing in self._kept.values()) > MAX_BYTES:
            self._kept.popitem(last=False)
