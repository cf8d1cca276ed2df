"""Recovery of rows from the pages of a damaged SQLite file, even if the pages that lead to them are lost.

The format is described in https://www.sqlite.org/fileformat2.html. No number in the file is trusted: data that do not
fit the format are skipped. Callers decide which rows are intact.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kajitori.embedded.store.files import FILE, LOG
from kajitori.embedded.store.wal import WriteAheadLog

INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 0x02, 0x05, 0x0A, 0x0D
_KINDS = frozenset({INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF})
_MOST_VALUES = 32
_MOST_BYTES = 1 << 30
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

Value = int | float | str | bytes | None


class Row(NamedTuple):
    """The contents of a cell: of a table with its rowid; of an index the rowid is the last value."""

    rowid: int
    values: tuple[Value, ...]


class Rows(NamedTuple):
    """The rows found in all pages."""

    of_tables: list[Row]
    of_indexes: list[Row]
    likely_of_tables: list[Row]
    """Rows from damaged pages: some may be of deleted or changed objects."""
    likely_of_indexes: list[Row]
    damaged_pages: int
    are_present: bool
    """Whether all pages are current, because the list of unused pages and the log were intact."""


class _Unreadable(Exception):
    """A cell or page has no valid SQLite format."""


def read_rows(folder: Path) -> Rows:
    """Return all rows of the store in a folder, including those in its log.

    Raises:
        OSError: it cannot be read.
    """
    return _Pages((folder / FILE).read_bytes() if (folder / FILE).exists() else b"", _log(folder)).rows()


def _log(folder: Path) -> WriteAheadLog:
    path = folder / LOG
    return WriteAheadLog(path.read_bytes() if path.exists() else b"")


class _Pages:
    def __init__(self, content: bytes, log: WriteAheadLog) -> None:
        self._size = self._page_size(content, log)
        self._pages = {
            start // self._size + 1: content[start : start + self._size]
            for start in range(0, len(content) - self._size + 1, self._size)
        }
        self._damaged: set[int] = set()
        """Numbers of damaged pages, in their newest state."""
        self._log_is_whole = not log.head_is_bad
        if log.page_size == self._size:
            for frame, (number, is_intact) in enumerate(zip(log.pages, log.intact_frames(), strict=True), 1):
                if frame > (log.commits or [0])[-1]:
                    break
                self._pages[number] = log.page(frame)
                (self._damaged.discard if is_intact else self._damaged.add)(number)
                self._log_is_whole = self._log_is_whole and is_intact
        reserved = self._pages[1][20] if 1 in self._pages else 0
        self._usable = self._size - (reserved if reserved < 32 else 0)
        self._overflow: set[int] = set()
        """Numbers of pages that were read as the overflow of some row."""

    @staticmethod
    def _page_size(content: bytes, log: WriteAheadLog) -> int:
        detail = int.from_bytes(content[16:18], "big")
        detail = 65536 if detail == 1 else detail
        if 512 <= detail <= 65536 and not detail & (detail - 1) and not len(content) % detail:
            return detail
        return log.page_size or 4096

    def rows(self) -> Rows:
        """Return the rows of all pages that are in use."""
        free, is_whole = self._unused_pages()
        tables: list[Row] = []
        indexes: list[Row] = []
        damaged = list(self._damaged)
        for number, page in self._pages.items():
            if number in free or number in self._damaged:
                continue
            kind = page[_header_offset(number)]
            try:
                if kind not in _KINDS:
                    raise _Unreadable
                found = [self._read_cell(page, kind, start) for start in self._cell_offsets(page, number, kind)]
            except _Unreadable:
                damaged.append(number)
                continue
            if kind == TABLE_LEAF:
                tables += found
            elif kind != TABLE_INTERIOR:
                indexes += found
        damaged = [number for number in damaged if number not in self._overflow]
        pages = [self._pages[number] for number in damaged]
        likely_of_tables = [row for page in pages for row in self._any_cells(page, TABLE_LEAF)]
        likely_of_indexes = [row for page in pages for row in self._any_cells(page, INDEX_LEAF)]
        return Rows(tables, indexes, likely_of_tables, likely_of_indexes, len(damaged), is_whole and self._log_is_whole)

    def _unused_pages(self) -> tuple[set[int], bool]:
        """Return the numbers of unused pages, and whether the list of them is complete."""
        found: set[int] = set()
        if 1 not in self._pages:
            return found, False
        trunk, total = struct.unpack_from(">2I", self._pages[1], 32)
        while trunk in self._pages and trunk not in found:
            found.add(trunk)
            page = self._pages[trunk]
            after, count = struct.unpack_from(">2I", page)
            if count > self._usable // 4 - 2:
                break
            found.update(struct.unpack_from(f">{count}I", page, 8))
            trunk = after
        return found, not trunk and len(found) == total

    def _cell_offsets(self, page: bytes, number: int, kind: int) -> list[int]:
        """Return the offsets of the cells of a page."""
        head = _header_offset(number)
        (count,) = struct.unpack_from(">H", page, head + 3)
        first = head + (12 if kind in (INDEX_INTERIOR, TABLE_INTERIOR) else 8)
        if first + 2 * count > self._size:
            raise _Unreadable
        starts = list(struct.unpack_from(f">{count}H", page, first))
        if any(start < first + 2 * count for start in starts) or len(set(starts)) < count:
            raise _Unreadable
        return starts

    def _any_cells(self, page: bytes, kind: int) -> Iterator[Row]:
        """Yield everything that reads as a cell on a page that is damaged."""
        for start in range(8, self._size - 8):
            if not page[start] or not _begins_row(page, start, skip=2 if kind == TABLE_LEAF else 1):
                continue
            with contextlib.suppress(_Unreadable):
                yield self._read_cell(page, kind, start)

    def _read_cell(self, page: bytes, kind: int, at: int) -> Row:
        try:
            if kind == TABLE_INTERIOR:
                return Row(_read_varint(page, at + 4)[0], ())
            if kind == INDEX_INTERIOR:
                at += 4
            length, at = _read_varint(page, at)
            rowid = 0
            if kind == TABLE_LEAF:
                rowid, at = _read_varint(page, at)
            payload = self._row_payload(page, at, length, of_table=kind == TABLE_LEAF)
            values = tuple(_row_values(payload))
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise _Unreadable from error
        if kind != TABLE_LEAF:
            last = values[-1] if values else None
            if not isinstance(last, int):
                raise _Unreadable
            rowid = last
        return Row(rowid - (1 << 64) if rowid >= 1 << 63 else rowid, values)

    def _row_payload(self, page: bytes, at: int, length: int, *, of_table: bool) -> bytes:
        """Return the bytes of a row; those that do not fit on its page are on a chain of overflow pages."""
        if not 0 < length < min(_MOST_BYTES, self._size * len(self._pages)):
            raise _Unreadable
        usable = self._usable
        most = usable - 35 if of_table else (usable - 12) * 64 // 255 - 23
        local = length
        if length > most:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            local = local if local <= most else least
        pieces = [page[at : at + local]]
        if len(pieces[0]) < local:
            raise _Unreadable
        left, chain = length - local, []
        following = int.from_bytes(page[at + local : at + local + 4], "big") if left else 0
        while left:
            rest = self._pages.get(following)
            if rest is None or following in chain:
                raise _Unreadable
            chain.append(following)
            pieces.append(rest[4 : 4 + min(left, usable - 4)])
            left -= len(pieces[-1])
            following = int.from_bytes(rest[:4], "big")
        self._overflow.update(chain)
        return b"".join(pieces)


def _header_offset(number: int) -> int:
    """Return the offset of a page's own header: on the first page, the header of the file comes before it."""
    return 100 if number == 1 else 0


def _begins_row(page: bytes, at: int, *, skip: int) -> bool:
    """Return whether a row that begins with texts may start here. Rejects most offsets quickly."""
    for _ in range(skip):
        for _ in range(9):
            at += 1
            if page[at - 1] < 0x80:
                break
        if at >= len(page) - 4:
            return False
    return 4 < page[at] < 2 * _MOST_VALUES and page[at + 1] > 12 and page[at + 1] % 2 == 1


def _row_values(payload: bytes) -> Iterator[Value]:
    """Return the values of a row."""
    end, at = _read_varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _read_varint(payload, at)
        kinds.append(kind)
    if at != end or not kinds or len(kinds) > _MOST_VALUES:
        raise _Unreadable
    for kind in kinds:
        size = _INTEGERS.get(kind, 0) if kind < 12 else (kind - 12) // 2
        piece = payload[at : at + (8 if kind == 7 else size)]
        if len(piece) < (8 if kind == 7 else size):
            raise _Unreadable
        at += len(piece)
        if kind == 0:
            yield None
        elif kind in _INTEGERS:
            yield int.from_bytes(piece, "big", signed=True)
        elif kind == 7:
            yield float(struct.unpack(">d", piece)[0])
        elif kind in (8, 9):
            yield kind - 8
        elif kind >= 12:
            yield piece.decode() if kind % 2 else piece
        else:
            raise _Unreadable
    if at != len(payload):
        raise _Unreadable


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and the offset behind it."""
    value = 0
    for position in range(8):
        byte = data[at + position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + position + 1
    return value << 8 | data[at + 8], at + 9
