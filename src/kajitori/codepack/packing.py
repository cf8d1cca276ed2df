"""Packs a folder as an archive.

The folder is read once for the digest. If the receiver does not have an archive with this digest, the folder is read
again, in parts. No copy is made. A file that is edited in between is an error, so the sent archive has the digest.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import posixpath
import stat
import tarfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kajitori.codepack.ignoring import GIT_FOLDER, Ignoring
from kajitori.codepack.layout import END, MAX_FILES, Entry, link_fault, padding, path_fault
from kajitori.codepack.parts import PART_BYTES
from kajitori.errors import Conflict, Fault, InvalidInput, TooLarge

CHUNK_BYTES = 1 << 20
MAX_FAULTS = 20
MAX_LARGEST_SHOWN = 5
"""Number of the largest files or fullest folders in the message about a folder that is too large."""

_EXCLUDE_HINT = "add it to .kajiignore"
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a folder. Files that .gitignore and .kajiignore exclude do not count."""

    size_bytes: int | None = None
    files: int = MAX_FILES


class _Found(NamedTuple):
    entry: Entry
    offset: int
    """Position of its header in the archive."""
    header_bytes: int
    stamp: tuple[int, int, int]
    """Size, time of the last change in nanoseconds, and inode: a file with another stamp was edited."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a folder's archive; no content was read yet."""

    root: str
    size_bytes: int
    """Size of the archive."""
    found: list[_Found] = field(repr=False)

    @property
    def files(self) -> int:
        """Number of files, links and empty folders."""
        return len(self.found)

    def largest(self, count: int = MAX_LARGEST_SHOWN) -> list[tuple[str, int]]:
        """Return path and size in bytes of the largest files."""
        entries = (item.entry for item in self.found)
        return [
            (entry.path, entry.size_bytes) for entry in heapq.nlargest(count, entries, key=attrgetter("size_bytes"))
        ]

    def read(self, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of the archive in pieces. Raises Conflict if a file was edited since it was listed."""
        end = min(start + length, self.size_bytes)
        index = max(bisect_right(self.found, start, key=lambda item: item.offset) - 1, 0)
        while start < end and index < len(self.found):
            item = self.found[index]
            content_at = item.offset + item.header_bytes
            content_end = content_at + item.entry.size_bytes
            if start < content_at:
                piece = item.entry.header()[start - item.offset : end - item.offset]
                yield piece
                start += len(piece)
            if content_at <= start < min(content_end, end):
                wanted = min(content_end, end) - start
                yield from self._content_of(item, start - content_at, wanted)
                start += wanted
            if content_end <= start < end:
                zeros = min(content_end + padding(item.entry.size_bytes), end) - start
                if zeros > 0:
                    yield bytes(zeros)
                    start += zeros
                index += 1
        if start < end:
            yield END[: end - start]

    def _content_of(self, item: _Found, start: int, length: int) -> Iterator[bytes]:
        path = item.entry.path
        try:
            handle = os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _edited_error(path) from error
        try:
            end = start + length
            # A short file is checked after it was read.
            if length > CHUNK_BYTES and _stamp_of(os.fstat(handle)) != item.stamp:
                raise _edited_error(path)
            while start < end:
                piece = os.pread(handle, min(CHUNK_BYTES, end - start), start)
                if not piece:
                    raise _edited_error(path)
                start += len(piece)
                yield piece
            if _stamp_of(os.fstat(handle)) != item.stamp:
                raise _edited_error(path)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder as an archive with its digest."""

    digest: str
    """`sha256:` and the SHA-256 of the archive."""
    listing: Listing

    @property
    def size_bytes(self) -> int:
        """Size of the archive."""
        return self.listing.size_bytes

    @property
    def parts(self) -> int:
        """Number of parts; all but the last have PART_BYTES."""
        return -(-self.size_bytes // PART_BYTES)

    def part(self, number: int) -> bytes:
        """Return a part's bytes, counted from 0. Raises Conflict if a file was edited since."""
        return b"".join(self.listing.read(number * PART_BYTES, PART_BYTES))

    def stream(self) -> Iterator[bytes]:
        """Yield the archive's bytes. Raises Conflict if a file was edited since."""
        return self.listing.read(0, self.size_bytes)


def pack(folder: Path, limits: Limits = Limits(), *, progress: Callable[[int], None] | None = None) -> Pack:
    """Return a folder's archive. `progress` is called with the number of bytes read since its last call.

    Raises InvalidInput with all faults for entries that an archive may not contain, and for a folder without
    entries; TooLarge for one over the limits, before a file is read; Conflict for a file that is edited meanwhile.
    """
    return digest_listing(list_folder(folder, limits), progress=progress)


def digest_listing(listing: Listing, *, progress: Callable[[int], None] | None = None) -> Pack:
    """Return the archive of a listing. Raises InvalidInput if it is empty, Conflict if a file was edited since."""
    if not listing.found:
        hint = "use a folder with a program in it; `!NAME` in .kajiignore includes what .gitignore excludes"
        raise InvalidInput.one(listing.root, "is empty, or everything in it is excluded", hint=hint)
    digest = hashlib.sha256()
    for start in range(0, listing.size_bytes, CHUNK_BYTES):
        chunk = b"".join(listing.read(start, CHUNK_BYTES))
        digest.update(chunk)
        if progress is not None:
            progress(len(chunk))
    return Pack(f"sha256:{digest.hexdigest()}", listing)


def list_folder(folder: Path, limits: Limits = Limits()) -> Listing:
    """Return the entries of a folder's archive. Raises as `pack` does, but not for a folder without entries."""
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        what = "is not a folder" if os.path.lexists(root) else "does not exist"
        raise InvalidInput.one(str(folder), what, hint="name a folder")
    walk = _Walk(root, limits.files)
    walk.folder(root, "", Ignoring.above(root).entered(root, ""))
    if walk.faults:
        raise InvalidInput(walk.faults[:MAX_FAULTS])
    walk.entries.sort(key=lambda item: os.fsencode(item[0].path))
    found = []
    offset = 0
    for entry, stamp in walk.entries:
        header_bytes = entry.header_bytes()
        found.append(_Found(entry, offset, header_bytes, stamp))
        offset += header_bytes + entry.size_bytes + padding(entry.size_bytes)
    size = offset + len(END)
    listing = Listing(root, size, found)
    if limits.size_bytes is not None and size > limits.size_bytes:
        raise too_large(listing, limits.size_bytes)
    return listing


class _Walk:
    """A walk through a folder that collects entries and faults."""

    def __init__(self, root: str, max_files: int) -> None:
        self.entries: list[tuple[Entry, tuple[int, int, int]]] = []
        self.faults: list[Fault] = []
        self._root = root
        self._max_files = max_files

    def folder(self, where: str, path: str, ignoring: Ignoring) -> None:
        """Visit everything below one folder; `path` is relative to the top and ends with a slash."""
        try:
            with os.scandir(where) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            self._add_fault(path or self._root, f"can't be read: {error.strerror}")
            return
        if not entries and path:
            self._take(Entry(path.removesuffix("/"), tarfile.DIRTYPE), (0, 0, 0))
        for entry in entries:
            if entry.name == GIT_FOLDER:
                continue
            below = path + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if ignoring.excludes(f"{below}/" if is_folder else below):
                continue
            if fault := path_fault(below):
                self._add_fault(below, fault)
            elif is_folder:
                self.folder(entry.path, f"{below}/", ignoring.entered(entry.path, f"{below}/"))
            else:
                self._add_entry(entry, below)

    def _add_entry(self, found: os.DirEntry[str], path: str) -> None:
        try:
            status = found.stat(follow_symlinks=False)
            target = os.readlink(found.path) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                self._add_fault(path, f"can't be read: {error.strerror}")
            return
        if target:
            target = self._plain_target(path, target)
            if fault := link_fault(path, target):
                self._add_fault(
                    path, f"{fault}: {_printable_path(target)}", hint=f"copy its target, or {_EXCLUDE_HINT}"
                )
                return
            self._take(Entry(path, tarfile.SYMTYPE, target=target), (0, 0, 0))
        elif stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & stat.S_IXUSR)
            self._take(Entry(path, tarfile.REGTYPE, status.st_size, executable), _stamp_of(status))
        else:
            self._add_fault(path, f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'not a file')}")

    def _plain_target(self, path: str, target: str) -> str:
        """Return the target without detours (`a/../b`), if it has any and they do not leave the folder."""
        if target.startswith("/"):
            return target
        names = [name for name in target.split("/") if name not in ("", ".")]
        plain = "/".join(names) or "."
        if not link_fault(path, plain):
            return plain
        here = os.path.dirname(os.path.join(self._root, path))
        real_root, real = os.path.realpath(self._root), os.path.realpath(os.path.join(here, plain))
        if os.path.commonpath((real_root, real)) != real_root:
            return plain
        return posixpath.relpath(real, os.path.realpath(here))

    def _take(self, entry: Entry, stamp: tuple[int, int, int]) -> None:
        self.entries.append((entry, stamp))
        if len(self.entries) > self._max_files:
            raise _too_many(self._root, [entry for entry, _ in self.entries], self._max_files)

    def _add_fault(self, path: str, message: str, *, hint: str = _EXCLUDE_HINT) -> None:
        self.faults.append(Fault(_printable_path(path), message, hint=hint))
        if len(self.faults) >= MAX_FAULTS:
            raise InvalidInput(self.faults)


def _stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _edited_error(path: str) -> Conflict:
    return Conflict(f"{_printable_path(path)} was edited while it was packed", hint="try again", code="Edited")


def too_large(listing: Listing, limit_bytes: int) -> TooLarge:
    """Return the error for a folder with an archive over a limit; it names the largest files."""
    largest = ", ".join(f"{_printable_path(path)} ({shown_size(amount)})" for path, amount in listing.largest())
    return TooLarge(
        f"{listing.root} has {shown_size(listing.size_bytes)} in {listing.files:,} files; "
        f"{shown_size(limit_bytes)} are allowed. The largest: {largest}",
        hint="add what the program does not need to .kajiignore; data belong on a volume",
    )


def _too_many(root: str, entries: list[Entry], limit: int) -> TooLarge:
    folders = Counter(os.path.dirname(entry.path) or "." for entry in entries).most_common(MAX_LARGEST_SHOWN)
    fullest = ", ".join(f"{_printable_path(path)} ({count:,})" for path, count in folders)
    return TooLarge(
        f"{root} has more than {limit:,} files. Most are in: {fullest}",
        hint="add what the program does not need to .kajiignore; data belong on a volume",
    )


def shown_size(size_bytes: int) -> str:
    """Return a size for people: `1.5 MiB`."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"


def _printable_path(path: str) -> str:
    """Return a path for people; unprintable characters are escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in path)
