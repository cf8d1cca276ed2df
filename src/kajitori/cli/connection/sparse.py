"""Archives of files with holes: only their data travels, in the format of GNU tar (PAX, sparse 1.0)."""

from __future__ import annotations

import copy
import os
import posixpath
import tarfile
from typing import IO, Any, cast

_BLOCK_BYTES = 512
_PIECE_BYTES = 1 << 20


class SparseArchive(tarfile.TarFile):
    """An archive to write, in which a file with holes takes the room of its data. GNU tar and bsdtar unpack it."""

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: IO[bytes] | None = None) -> None:  # type: ignore[override]
        parts = data_of(fileobj, tarinfo.size) if fileobj is not None and tarinfo.isreg() else None
        if parts is None or fileobj is None:
            super().addfile(tarinfo, fileobj)
            return
        numbers = [len(parts), *(number for part in parts for number in part)]
        table = "".join(f"{number}\n" for number in numbers).encode()
        table += bytes(-len(table) % _BLOCK_BYTES)
        entry = copy.copy(tarinfo)
        folder, name = posixpath.split(tarinfo.name)
        entry.name = posixpath.join(folder, "GNUSparseFile.0", name)
        entry.size = len(table) + sum(size for _, size in parts)
        entry.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": tarinfo.name,
            "GNU.sparse.realsize": str(tarinfo.size),
        }
        super().addfile(entry, _Data(table, fileobj, parts))  # type: ignore[arg-type]


class _Data:
    """Reads the table of a file's parts, and then the parts."""

    def __init__(self, table: bytes, file: IO[bytes], parts: list[tuple[int, int]]) -> None:
        self._table = table
        self._file = file
        self._parts = [part for part in parts if part[1]]
        self._read = 0
        """Number of bytes of the first of the parts that were read."""

    def read(self, size: int) -> bytes:
        found, self._table = self._table[:size], self._table[size:]
        while len(found) < size and self._parts:
            offset, length = self._parts[0]
            self._file.seek(offset + self._read)
            piece = self._file.read(min(size - len(found), length - self._read))
            if not piece:
                break  # the file was cut short meanwhile, which tarfile reports
            found += piece
            self._read += len(piece)
            if self._read == length:
                del self._parts[0]
                self._read = 0
        return found


def data_of(file: Any, size: int) -> list[tuple[int, int]] | None:
    """Return offset and length of each part of a file that is no hole, and its end; None if it has no holes, or if the
    file system or the operating system can't tell."""
    seek_data, seek_hole = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)
    number = file.fileno()
    if seek_data is None or seek_hole is None or os.fstat(number).st_blocks * _BLOCK_BYTES >= size:
        return None
    parts, end = [], 0
    try:
        while end < size:
            try:
                begin = os.lseek(number, end, seek_data)
            except OSError:  # only a hole is left
                break
            end = min(os.lseek(number, begin, seek_hole), size)
            if begin < size:
                parts.append((begin, end - begin))
    except OSError:
        return None
    finally:
        os.lseek(number, 0, os.SEEK_SET)
    return [*parts, (size, 0)] if parts != [(0, size)] else None


def parts_of(member: tarfile.TarInfo) -> list[tuple[int, int]] | None:
    """Return offset and length of each part of an archived file that is no hole; None for a file without holes."""
    return cast("list[tuple[int, int]] | None", member.sparse)


def copy_parts(source: Any, target: IO[bytes], parts: list[tuple[int, int]], size: int) -> None:
    """Copy the parts of a file to a new one of this size, which has holes elsewhere."""
    source = getattr(source, "raw", source)  # a member of an archive that is a stream can be sought without its buffer
    for offset, length in parts:
        source.seek(offset)
        target.seek(offset)
        while length and (piece := source.read(min(length, _PIECE_BYTES))):
            target.write(piece)
            length -= len(piece)
    target.truncate(size)
