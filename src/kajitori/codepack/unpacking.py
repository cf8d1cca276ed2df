"""Unpacks an archive as a folder.

The archive is untrusted. It is unpacked beside its target, and every step uses the descriptor of a folder that was
opened without following a link. The folder gets its name only if the whole archive was valid and had the expected
digest. A refused archive leaves nothing behind. If a process is killed, the next one removes what it left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kajitori.codepack.layout import (
    BLOCK_BYTES,
    END,
    MAX_FILES,
    MAX_PATH_BYTES,
    Entry,
    check_digest,
    link_fault,
    padding,
    path_fault,
)
from kajitori.errors import AlreadyExists, InvalidInput, KajitoriError, Unavailable

BAD_ARCHIVE = "BadArchive"
WRONG_DIGEST = "WrongDigest"
DISK_FULL = "DiskFull"

_LONG_KINDS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_KINDS = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Figures of an unpacked archive."""

    files: int
    size_bytes: int
    """Size of the archive."""


def unpack(
    chunks: Iterable[bytes],
    target: Path,
    *,
    digest: str,
    size_bytes: int,
    max_files: int = MAX_FILES,
    owner: tuple[int, int] | None = None,
) -> Unpacked:
    """Create the folder `target` from an archive's bytes.

    The archive must have this `digest` and `size_bytes`. Everything gets the `owner` (uid, gid), if this process
    may change it. `target` must not exist, or be an empty folder.

    Raises InvalidInput for an archive that is not the expected one, or has a forbidden entry (codes BadArchive,
    WrongDigest); AlreadyExists if the target has entries; Unavailable if the disk is full, or cannot be written.
    """
    check_digest(digest)
    target = Path(os.path.abspath(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        staging = tempfile.mkdtemp(prefix=_temporary_prefix(target), dir=target.parent)
    except OSError as error:
        raise _not_written(target, error) from error
    root = os.open(staging, _FOLDER)
    try:
        with contextlib.suppress(OSError):  # without locks, `_remove_abandoned` removes nothing either
            fcntl.flock(root, fcntl.LOCK_EX)
        source = _Source(chunks, size_bytes)
        files = _Unpacking(source, root, max_files, owner).run()
        if f"sha256:{source.digest.hexdigest()}" != digest:
            hint = "it was damaged in transit, or is another archive: upload it again"
            raise InvalidInput.one("archive", f"is not {digest}", hint=hint, code=WRONG_DIGEST)
        os.fchmod(root, 0o755)
        if owner is not None:
            os.fchown(root, *owner)
        os.rename(staging, target)
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, OSError):
            raise _not_written(target, error) from error
        raise
    finally:
        os.close(root)
    return Unpacked(files, size_bytes)


class _Unpacking:
    """One archive that is unpacked into one folder."""

    def __init__(self, source: _Source, root: int, max_files: int, owner: tuple[int, int] | None) -> None:
        self._source = source
        self._owner = owner
        self._max_files = max_files
        self._root = root
        self._open: list[tuple[str, int]] = []
        """Names and descriptors of the folders above the last entry."""

    def run(self) -> int:
        """Unpack all entries; return their number."""
        files = 0
        last = b""
        try:
            while (entry := self._next_entry()) is not None:
                files += 1
                if files > self._max_files:
                    raise _bad_archive(f"has more than {self._max_files} files")
                if entry.path.encode() <= last:
                    raise _bad_archive(f"has {_printable_path(entry.path)} twice, or out of order")
                last = entry.path.encode()
                self._create(entry)
        finally:
            self._leave(0)
        return files

    def _next_entry(self) -> Entry | None:
        """Return the next entry, its content unread; None at the end of the archive. Raises InvalidInput."""
        names: dict[bytes, str] = {}
        while (info := self._next_header()) is not None:
            if info.type not in _LONG_KINDS:
                return _entry_of(info, names)
            if info.type in names or not 0 < info.size <= MAX_PATH_BYTES + 1:
                raise _bad_archive("has a name that is too long")
            try:
                names[info.type] = self._padded_bytes(info.size).rstrip(b"\0").decode()
            except UnicodeDecodeError:
                raise _bad_archive("has a name that is not UTF-8") from None
        if names or any(self._source.take(len(END) - BLOCK_BYTES)) or not self._source.is_at_end():
            raise _bad_archive("has data after its end")
        return None

    def _next_header(self) -> tarfile.TarInfo | None:
        """Return the next header; None for a block of zeros, with which the end of an archive begins."""
        block = self._source.take(BLOCK_BYTES)
        if not any(block):
            return None
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")  # long names are read as entries
        except (tarfile.TarError, ValueError):
            raise _bad_archive("has a block that is not a tar header") from None

    def _create(self, entry: Entry) -> None:
        *folders, name = entry.path.split("/")
        parent = self._enter_folders(folders)
        try:
            if entry.kind == tarfile.REGTYPE:
                self._write_file(parent, name, entry)
            elif entry.kind == tarfile.SYMTYPE:
                os.symlink(entry.target, name, dir_fd=parent)
                if self._owner is not None:
                    os.chown(name, *self._owner, dir_fd=parent, follow_symlinks=False)
            else:
                self._enter_folders([*folders, name])
        except FileExistsError:
            raise _bad_archive(f"has {_printable_path(entry.path)} twice") from None

    def _write_file(self, parent: int, name: str, entry: Entry) -> None:
        handle = os.open(name, _FILE, 0o600, dir_fd=parent)
        try:
            left = entry.size_bytes
            while left:
                piece = self._source.take_some(left)
                left -= len(piece)
                while piece:
                    piece = piece[os.write(handle, piece) :]
            if any(self._source.take(padding(entry.size_bytes))):
                raise _bad_archive(f"has data between {_printable_path(entry.path)} and the next file")
            if self._owner is not None:
                os.fchown(handle, *self._owner)
            os.fchmod(handle, 0o755 if entry.executable else 0o644)
        finally:
            os.close(handle)

    def _enter_folders(self, folders: list[str]) -> int:
        """Return the descriptor of a folder below the root, created if missing; never one behind a link."""
        same = 0
        while same < min(len(folders), len(self._open)) and self._open[same][0] == folders[same]:
            same += 1
        self._leave(same)
        for name in folders[same:]:
            above = self._open[-1][1] if self._open else self._root
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=above)
            try:
                handle = os.open(name, _FOLDER, dir_fd=above)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                raise _bad_archive(
                    f"has an entry below {_printable_path('/'.join(folders))}, which is not a folder"
                ) from None
            self._open.append((name, handle))
            os.fchmod(handle, 0o755)
            if self._owner is not None:
                os.fchown(handle, *self._owner)
        return self._open[-1][1] if self._open else self._root

    def _leave(self, depth: int) -> None:
        while len(self._open) > depth:
            os.close(self._open.pop()[1])

    def _padded_bytes(self, size: int) -> bytes:
        return self._source.take(size + padding(size))[:size]


class _Source:
    """The archive's bytes, with their digest and number."""

    def __init__(self, chunks: Iterable[bytes], size_bytes: int) -> None:
        self.digest = hashlib.sha256()
        self._chunks = iter(chunks)
        self._left = memoryview(b"")
        self._missing = size_bytes

    def take_some(self, size: int) -> memoryview:
        """Return one to `size` bytes. Raises InvalidInput if the archive ends, or is too long."""
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise _bad_archive("ends too early")
            if len(chunk) > self._missing:
                raise _bad_archive("is longer than announced")
            self._missing -= len(chunk)
            self.digest.update(chunk)
            self._left = memoryview(chunk)
        piece, self._left = self._left[:size], self._left[size:]
        return piece

    def take(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises InvalidInput if there are fewer."""
        taken = b""
        while len(taken) < size:
            taken += self.take_some(size - len(taken))
        return taken

    def is_at_end(self) -> bool:
        """Return whether all bytes were read. Raises InvalidInput if more were announced."""
        if self._left or any(self._chunks):
            return False
        if self._missing:
            raise _bad_archive("is shorter than announced")
        return True


def _entry_of(info: tarfile.TarInfo, names: Mapping[bytes, str]) -> Entry:
    """Return the entry of a header. `names` are the long names that stood before it, by their type."""
    path = names.get(tarfile.GNUTYPE_LONGNAME, info.name)
    if info.type == tarfile.DIRTYPE:
        path = path.removesuffix("/")
    if info.type not in _KINDS:
        raise _bad_archive(f"has {_printable_path(path)}, which is neither file, symbolic link nor folder")
    if info.size < 0 or (info.size and info.type != tarfile.REGTYPE):
        raise _bad_archive(f"has {_printable_path(path)} with an impossible size of {info.size} bytes")
    if fault := path_fault(path):
        raise _bad_archive(f"has an entry that {fault}: {_printable_path(path)}")
    target = names.get(tarfile.GNUTYPE_LONGLINK, info.linkname) if info.type == tarfile.SYMTYPE else ""
    if info.type == tarfile.SYMTYPE and (fault := link_fault(path, target)):
        raise _bad_archive(f"has {_printable_path(path)}, which {fault}: {_printable_path(target)}")
    return Entry(path, info.type, info.size, bool(info.mode & 0o100), target)


def _temporary_prefix(target: Path) -> str:
    return f".{target.name[:100]}.unpacking-"


def _remove_abandoned(target: Path) -> None:
    """Remove folders that killed processes left beside this target. A running process holds a lock on its folder."""
    for abandoned in target.parent.glob(f"{_escaped_for_glob(_temporary_prefix(target))}*"):
        try:
            handle = os.open(abandoned, _FOLDER)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(abandoned, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(handle)


def _escaped_for_glob(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


def _not_written(target: Path, error: OSError) -> KajitoriError:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
        return AlreadyExists(f"{target} already exists", hint="name a folder that does not exist, or is empty")
    if error.errno in _FULL:
        return Unavailable(f"the disk of {target} is full", hint="make room there", code=DISK_FULL)
    return Unavailable(f"{target} can't be written: {error.strerror or error}")


def _bad_archive(what: str) -> InvalidInput:
    return InvalidInput.one("archive", what, hint="pack it with kaji, which makes no such archive", code=BAD_ARCHIVE)


def _printable_path(path: str) -> str:
    return repr(path[:200])
