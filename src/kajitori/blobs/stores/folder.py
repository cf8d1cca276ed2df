"""A store of blobs in a folder, which several processes may share.

A blob is written under a temporary name, synced to the disk, and renamed. The writer holds a lock on its temporary
file. A temporary file without a lock was left by a crash, and is removed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kajitori.blobs.stores.blobs import CHUNK_BYTES, Blob, Blobs, check_key, no_such_blob, store_full
from kajitori.configuration.private_files import fsync_folder
from kajitori.errors import KajitoriError, Unavailable

TEMPORARY = ".tmp"
"""Name of the folder of temporary files; keys never begin with a dot."""

_LISTED_AT_ONCE = 1000
_READ_AT_ONCE = 250
"""Number of small blobs that one thread reads: one thread per blob takes longer than reading them."""
_TRIES = 100
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of network file systems without locks."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


async def open_folder(root: Path) -> FolderBlobs:
    """Open the store in a folder, which is created if it is missing. Raises Unavailable if it can't be used."""
    store = FolderBlobs(root)
    await asyncio.to_thread(store.prepare)
    return store


class FolderBlobs(Blobs):
    """Blobs as files, readable by their owner only."""

    look_seconds = 0.25

    def __init__(self, root: Path) -> None:
        super().__init__(root.as_uri())
        self._root = root
        self._temporary = root / TEMPORARY

    def prepare(self) -> None:
        """Create the folder, and remove what crashed writers left in it."""
        try:
            _make_folder(self._temporary)
            for entry in os.scandir(self._temporary):
                _remove_if_abandoned(entry.path)
        except OSError as error:
            raise self._error_of(error) from error

    async def put(self, key: str, content: bytes | AsyncIterable[bytes]) -> int:
        path = self._path(key)
        try:
            if isinstance(content, bytes):
                await asyncio.to_thread(self._put_whole, path, content)
                return len(content)
            return await self._put_stream(path, content)
        except OSError as error:
            raise self._error_of(error) from error

    def _put_whole(self, path: Path, content: bytes) -> None:
        draft = _Draft(self._temporary)
        try:
            draft.write(content)
            draft.publish(path)
        finally:
            draft.discard()

    async def create(self, key: str, content: bytes) -> bool:
        path = self._path(key)
        try:
            return await asyncio.to_thread(self._create, path, content)
        except OSError as error:
            raise self._error_of(error) from error

    def _create(self, path: Path, content: bytes) -> bool:
        draft = _Draft(self._temporary)
        try:
            draft.write(content)
            return draft.publish_first(path)
        finally:
            draft.discard()

    async def _put_stream(self, path: Path, content: AsyncIterable[bytes]) -> int:
        draft = await asyncio.to_thread(_Draft, self._temporary)
        try:
            size = 0
            async for piece in content:
                await asyncio.to_thread(draft.write, piece)
                size += len(piece)
            await asyncio.to_thread(draft.publish, path)
            return size
        finally:
            await asyncio.shield(asyncio.to_thread(draft.discard))

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        path = self._path(key)
        try:
            file = await asyncio.to_thread(_open, path, start)
        except OSError as error:
            raise self._error_of(error, key) from error
        with file:
            left = length
            while left is None or left > 0:
                wanted = CHUNK_BYTES if left is None else min(left, CHUNK_BYTES)
                try:
                    piece = await asyncio.to_thread(file.read, wanted)
                except OSError as error:
                    raise self._error_of(error, key) from error
                if not piece:
                    return
                left = None if left is None else left - len(piece)
                yield piece

    async def read_many(self, keys: Sequence[str], *, limit_bytes: int) -> dict[str, bytes]:
        paths = [(key, self._path(key)) for key in keys]
        found: dict[str, bytes] = {}
        for start in range(0, len(paths), _READ_AT_ONCE):
            part = paths[start : start + _READ_AT_ONCE]
            try:
                found |= await asyncio.to_thread(_read_small, part, limit_bytes)
            except OSError as error:
                raise self._error_of(error) from error
        return found

    async def head(self, key: str) -> Blob:
        path = self._path(key)
        try:
            blob = await asyncio.to_thread(_blob_at, key, path)
        except OSError as error:
            raise self._error_of(error, key) from error
        if blob is None:
            raise no_such_blob(key, self.where)
        return blob

    async def under(self, prefix: str = "") -> AsyncGenerator[Blob, None]:
        folder = self._path(prefix) if prefix else self._root
        found = _walk(folder, f"{prefix}/" if prefix else "")
        while True:
            try:
                batch = await asyncio.to_thread(lambda: list(islice(found, _LISTED_AT_ONCE)))
            except OSError as error:
                raise self._error_of(error) from error
            for blob in batch:
                yield blob
            if len(batch) < _LISTED_AT_ONCE:
                return

    async def delete(self, *keys: str) -> None:
        paths = [self._path(key) for key in keys]
        try:
            await asyncio.to_thread(self._delete, paths)
        except OSError as error:
            raise self._error_of(error) from error

    def _delete(self, paths: list[Path]) -> None:
        folders = set()
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                path.unlink()
                folders.add(path.parent)
        for folder in folders:
            _fsync_folder(folder)
            while folder != self._root:
                try:
                    folder.rmdir()
                except OSError:
                    break  # it holds other blobs, or another process was faster
                folder = folder.parent

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _error_of(self, error: OSError, key: str = "") -> KajitoriError:
        if error.errno in _FULL:
            return store_full(self.where)
        if key and error.errno in _NOT_THERE:
            return no_such_blob(key, self.where)
        hint = "the folder must exist and be writable for this server's user"
        return Unavailable(f"the store {self.where} can't be used: {error.strerror or error}", hint=hint)


class _Draft:
    """A blob that is being written. It may be discarded from another thread during a write."""

    def __init__(self, folder: Path) -> None:
        for _ in range(_TRIES):
            self._path: Path | None = folder / secrets.token_hex(16)
            try:
                handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                _make_folder(folder)
                continue
            self._file: BinaryIO = os.fdopen(
                handle, "wb"
            )  # a file object, because it locks: no other thread can close the handle during a write
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:  # without locks, abandoned files are not removed
                    raise
            if os.fstat(handle).st_nlink:
                return
            self._file.close()  # it was removed as abandoned before it was locked
        raise OSError(errno.EAGAIN, "temporary files vanish")

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def publish(self, path: Path) -> None:
        """Give the blob its final name, durably."""
        self._give_name(path, Path.replace)
        self._path = None

    def publish_first(self, path: Path) -> bool:
        """Give the blob its final name, durably, unless another one has it; return whether it got it."""
        try:
            self._give_name(path, lambda draft, target: target.hardlink_to(draft))
        except FileExistsError:
            return False
        return True

    def _give_name(self, path: Path, name: Callable[[Path, Path], object]) -> None:
        assert self._path is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        for _ in range(_TRIES):
            _make_folder(path.parent)
            try:
                name(self._path, path)
            except FileNotFoundError:  # another process removed the folder while it was empty
                if not self._path.exists():
                    raise
                continue
            with contextlib.suppress(FileNotFoundError):  # the blob was already removed again
                _fsync_folder(path.parent)
            return
        raise OSError(errno.EAGAIN, "folders vanish")

    def discard(self) -> None:
        """Close the file; remove it unless it was published."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        with contextlib.suppress(
            OSError
        ):  # closing writes buffered data, which may fail on a full disk and is no longer needed
            self._file.close()


def _remove_if_abandoned(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)  # noqa: PTH108 - the lock excludes writers
    except OSError:
        pass
    finally:
        os.close(handle)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, durably."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(folder.parent)
        # If the folder is missing now, the caller notices when it uses it, and tries again.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(mode=0o700)
    _fsync_folder(folder.parent)


def _fsync_folder(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        fsync_folder(folder)


def _open(path: Path, start: int) -> BinaryIO:
    file = path.open("rb")
    file.seek(start)
    return file


def _read_small(paths: Sequence[tuple[str, Path]], limit_bytes: int) -> dict[str, bytes]:
    found = {}
    for key, path in paths:
        try:
            with open(path, "rb", buffering=0) as file:
                content = file.read(limit_bytes + 1)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            continue
        if len(content) <= limit_bytes:
            found[key] = content
    return found


def _blob_at(key: str, path: Path) -> Blob | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not path.is_file():
        return None
    return Blob(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _walk(folder: Path, prefix: str) -> Iterator[Blob]:
    """Yield blobs in the order of their keys. Files that disappear while the folder is read are left out."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.startswith("."):
            continue
        if name.endswith("/"):
            yield from _walk(folder / name, prefix + name)
        elif (blob := _blob_at(prefix + name, folder / name)) is not None:
            yield blob
