"""A folder as an archive.

It is read twice: once for the digest, by which the receiver is asked whether it has it already, and once more in
parts, where it has not. No copy is made. Whoever edits a file in between is told: what is sent is what was named.
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
NAMED_FILES = 5
"""So many of the largest are named where a folder is too large."""

_LEAVE_OUT = "name it in .kajiignore"
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a folder may have at most, .gitignore and .kajiignore considered."""

    size_bytes: int | None = None
    files: int = MAX_FILES


class _Found(NamedTuple):
    entry: Entry
    offset: int
    """Where its header begins."""
    header_bytes: int
    stamp: tuple[int, int, int]
    """Size, time of the last change in nanoseconds, inode: a file that has another one was edited."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What of a folder goes into its archive. Nothing was read yet."""

    root: str
    size_bytes: int
    """Of the whole archive."""
    found: list[_Found] = field(repr=False)

    @property
    def files(self) -> int:
        """How many files, links and empty folders there are."""
        return len(self.found)

    def largest(self, count: int = NAMED_FILES) -> list[tuple[str, int]]:
        """The largest files, path and size in bytes."""
        entries = (each.entry for each in self.found)
        return [(each.path, each.size_bytes) for each in heapq.nlargest(count, entries, key=attrgetter("size_bytes"))]

    def read(self, start: int, length: int) -> Iterator[bytes]:
        """A part of the archive, in pieces. Raises Conflict where a file is not any more what it was when listed."""
        end = min(start + length, self.size_bytes)
        index = max(bisect_right(self.found, start, key=lambda each: each.offset) - 1, 0)
        while start < end and index < len(self.found):
            each = self.found[index]
            content_at = each.offset + each.header_bytes
            content_end = content_at + each.entry.size_bytes
            if start < content_at:
                piece = each.entry.header()[start - each.offset : end - each.offset]
                yield piece
                start += len(piece)
            if content_at <= start < min(content_end, end):
                wanted = min(content_end, end) - start
                yield from self._content(each, start - content_at, wanted)
                start += wanted
            if content_end <= start < end:
                zeros = min(content_end + padding(each.entry.size_bytes), end) - start
                if zeros > 0:
                    yield bytes(zeros)
                    start += zeros
                index += 1
        if start < end:
            yield END[: end - start]

    def _content(self, each: _Found, start: int, length: int) -> Iterator[bytes]:
        path = each.entry.path
        try:
            handle = os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _changed(path) from error
        try:
            end = start + length
            if length > CHUNK_BYTES and _stamp(os.fstat(handle)) != each.stamp:  # else it is soon looked at anyway
                raise _changed(path)
            while start < end:
                piece = os.pread(handle, min(CHUNK_BYTES, end - start), start)
                if not piece:
                    raise _changed(path)
                start += len(piece)
                yield piece
            if _stamp(os.fstat(handle)) != each.stamp:
                raise _changed(path)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder as an archive with a name."""

    digest: str
    """`sha256:` and the SHA-256 of the archive."""
    listing: Listing

    @property
    def size_bytes(self) -> int:
        """Of the archive."""
        return self.listing.size_bytes

    @property
    def parts(self) -> int:
        """How many parts it has; all but the last have PART_BYTES."""
        return -(-self.size_bytes // PART_BYTES)

    def part(self, number: int) -> bytes:
        """A part's bytes; the first is 0. Raises Conflict where a file was edited since."""
        return b"".join(self.listing.read(number * PART_BYTES, PART_BYTES))

    def stream(self) -> Iterator[bytes]:
        """The archive's bytes. Raises Conflict where a file was edited since."""
        return self.listing.read(0, self.size_bytes)


def pack(folder: Path, limits: Limits = Limits(), *, progress: Callable[[int], None] | None = None) -> Pack:
    """A folder's archive. `progress` is told how many bytes were read since it was told last.

    Raises InvalidInput for what no archive may hold, with every fault at once, and for a folder of which nothing is
    left; TooLarge for one over the limits, before a file is read; Conflict for a file that is edited meanwhile.
    """
    return digested(list_folder(folder, limits), progress=progress)


def digested(listing: Listing, *, progress: Callable[[int], None] | None = None) -> Pack:
    """The archive of what was listed. Raises InvalidInput where that is nothing, Conflict for a file that was edited
    since."""
    if not listing.found:
        hint = "name a folder with a program in it; `!NAME` in .kajiignore takes back in what .gitignore leaves out"
        raise InvalidInput.one(listing.root, "holds nothing, or nothing that is not left out", hint=hint)
    digest = hashlib.sha256()
    for start in range(0, listing.size_bytes, CHUNK_BYTES):
        chunk = b"".join(listing.read(start, CHUNK_BYTES))
        digest.update(chunk)
        if progress is not None:
            progress(len(chunk))
    return Pack(f"sha256:{digest.hexdigest()}", listing)


def list_folder(folder: Path, limits: Limits = Limits()) -> Listing:
    """What of a folder goes into its archive. Raises as `pack` does, but not for a folder of which nothing is left."""
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        what = "is no folder" if os.path.lexists(root) else "does not exist"
        raise InvalidInput.one(str(folder), what, hint="name a folder")
    walk = _Walk(root, limits.files)
    walk.folder(root, "", Ignoring.above(root).entered(root, ""))
    if walk.faults:
        raise InvalidInput(walk.faults[:MAX_FAULTS])
    walk.entries.sort(key=lambda each: os.fsencode(each[0].path))
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
    """Looks through a folder."""

    def __init__(self, root: str, max_files: int) -> None:
        self.entries: list[tuple[Entry, tuple[int, int, int]]] = []
        self.faults: list[Fault] = []
        self._root = root
        self._max_files = max_files

    def folder(self, where: str, path: str, ignoring: Ignoring) -> None:
        """Everything below one folder; `path` is its own from the top, with a slash at its end."""
        try:
            with os.scandir(where) as scanned:
                entries = sorted(scanned, key=lambda each: each.name)
        except OSError as error:
            self._fault(path or self._root, f"can't be read: {error.strerror}")
            return
        if not entries and path:
            self._take(Entry(path.removesuffix("/"), tarfile.DIRTYPE), (0, 0, 0))
        for each in entries:
            if each.name == GIT_FOLDER:
                continue
            below = path + each.name
            is_folder = each.is_dir(follow_symlinks=False)
            if ignoring.leaves_out(f"{below}/" if is_folder else below):
                continue
            if fault := path_fault(below):
                self._fault(below, fault)
            elif is_folder:
                self.folder(each.path, f"{below}/", ignoring.entered(each.path, f"{below}/"))
            else:
                self._entry(each, below)

    def _entry(self, each: os.DirEntry[str], path: str) -> None:
        try:
            status = each.stat(follow_symlinks=False)
            target = os.readlink(each.path) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                self._fault(path, f"can't be read: {error.strerror}")
            return
        if target:
            target = self._plain_target(path, target)
            if fault := link_fault(path, target):
                self._fault(path, f"{fault}: {_shown(target)}", hint=f"copy what it leads to, or {_LEAVE_OUT}")
                return
            self._take(Entry(path, tarfile.SYMTYPE, target=target), (0, 0, 0))
        elif stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & stat.S_IXUSR)
            self._take(Entry(path, tarfile.REGTYPE, status.st_size, executable), _stamp(status))
        else:
            self._fault(path, f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}")

    def _plain_target(self, path: str, target: str) -> str:
        """The same target without detours (`a/../b`), where it has any and they stay inside."""
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

    def _fault(self, path: str, message: str, *, hint: str = _LEAVE_OUT) -> None:
        self.faults.append(Fault(_shown(path), message, hint=hint))
        if len(self.faults) >= MAX_FAULTS:
            raise InvalidInput(self.faults)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _changed(path: str) -> Conflict:
    return Conflict(f"{_shown(path)} was edited while it was packed", hint="do it again", code="Edited")


def too_large(listing: Listing, limit_bytes: int) -> TooLarge:
    """The error for a folder whose archive is over a limit: it names the largest files."""
    largest = ", ".join(f"{_shown(path)} ({shown_size(amount)})" for path, amount in listing.largest())
    return TooLarge(
        f"{listing.root} has {shown_size(listing.size_bytes)} in {listing.files:,} files; "
        f"{shown_size(limit_bytes)} are allowed. The largest: {largest}",
        hint="name in .kajiignore what the program does not need; data belong on a volume",
    )


def _too_many(root: str, entries: list[Entry], limit: int) -> TooLarge:
    folders = Counter(os.path.dirname(each.path) or "." for each in entries).most_common(NAMED_FILES)
    fullest = ", ".join(f"{_shown(path)} ({count:,})" for path, count in folders)
    return TooLarge(
        f"{root} has more than {limit:,} files. Most are in: {fullest}",
        hint="name in .kajiignore what the program does not need; data belong on a volume",
    )


def shown_size(size_bytes: int) -> str:
    """A size for people: `1.5 MiB`."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"


def _shown(path: str) -> str:
    """A path for people: what no terminal should be sent is spelt out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in path)
