"""Read one folder: list it, send a file or a part of one, send a folder as a tar archive.

The Web API sends this program on standard input to `python3 -` in the Pod that mounts a run's checkpoint read-only, so
it uses the standard library alone and works with any image that has Python 3.9. Its argument is a request as JSON. The
first line of its output is a header as JSON, which names the error if the request is refused; data follow it.

No path leads out of the folder: each part is opened below the previous part without following links, and this module
resolves links itself. So it is safe even if the folder is changed meanwhile.
"""

from __future__ import annotations

import base64
import heapq
import itertools
import json
import os
import stat
import sys
import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

MAX_LINKS = 40
"""Number of links that are followed for one path, as Linux has it."""
MAX_DEPTH = 200
"""Number of folders inside each other that an archive may have."""
_CHUNK_BYTES = 1 << 18
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the open of a FIFO would wait otherwise


class RefusedPath(Exception):
    """A path that is not served. `code` is a word for the Web API."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Folder:
    """The folder that is read."""

    def __init__(self, root: str) -> None:
        self._path = os.path.normpath(root)

    def open(self, path: str) -> int:
        """Return a descriptor of the file or folder at a path relative to the folder. Raises OSError, and RefusedPath
        for a path that leads out of the folder or to neither a file nor a folder."""
        held = [os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            self._walk(path, held)
            return os.dup(held[-1])
        finally:
            for descriptor in held:
                os.close(descriptor)

    def _walk(self, path: str, held: list[int]) -> None:
        """Open what the path leads to, one name at a time. `held` are the descriptors of the folders on the way, the
        root first, and at the end that of the file or folder."""
        ahead = path.split("/")[::-1]
        links = 0
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if len(held) == 1:
                    raise RefusedPath("Outside", f"{path} leads out of the folder")
                os.close(held.pop())
                continue
            mode = os.stat(name, dir_fd=held[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > MAX_LINKS:
                    raise RefusedPath("Outside", f"{path} passes through more than {MAX_LINKS} links")
                ahead += self._target_of(name, held, path).split("/")[::-1]
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                held.append(os.open(name, _FOLDER if stat.S_ISDIR(mode) else _FILE, dir_fd=held[-1]))
            else:
                raise RefusedPath("NotAFile", f"{path} is neither a file nor a folder")

    def _target_of(self, name: str, held: list[int], path: str) -> str:
        """Return the path to follow for a link in the last folder of `held`. An absolute one begins at the root."""
        target = os.readlink(name, dir_fd=held[-1])
        if not target.startswith("/"):
            return target
        target = self._target_inside(target, path)
        while len(held) > 1:
            os.close(held.pop())
        return target

    def _target_inside(self, target: str, path: str) -> str:
        """Return the target of an absolute link, relative to the folder."""
        plain = os.path.normpath(target)
        if plain != self._path and not plain.startswith(self._path + "/"):
            raise RefusedPath("Outside", f"{path} leads out of the folder, to {target}")
        return plain[len(self._path) :].lstrip("/")


# ------------------------------------------------------------------------------------------ lists


def list_folder(folder: Folder, path: str, after: str, limit: int, keep_bytes: int = 0) -> dict[str, Any]:
    """Return one page of a folder's entries: folders first, each kind by name. Raises OSError and RefusedPath.

    `rest` are the keys of all entries after the page, for `describe_entries`, with "/" between them: empty if they are
    longer than `keep_bytes`. An operating system lists a folder in no order, so each page without it reads the whole
    folder."""
    descriptor = folder.open(path)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return {"file": _entry_description(path.rpartition("/")[2], os.fstat(descriptor))}
        start, count = _read_cursor(after), 0
        with os.scandir(descriptor) as entries:

            def later() -> Iterator[tuple[bool, bytes]]:
                nonlocal count
                for entry in entries:
                    count += 1
                    key = not entry.is_dir(follow_symlinks=False), os.fsencode(entry.name)
                    if start is None or key > start:
                        yield key

            found, held, held_bytes = later(), [], 0
            for key in found:
                held.append(key)
                held_bytes += len(key[1]) + 1
                if held_bytes > keep_bytes:
                    break
            else:
                held.sort()
            is_whole = held_bytes <= keep_bytes
            page = held[: limit + 1] if is_whole else heapq.nsmallest(limit + 1, itertools.chain(held, found))
        items = [item for key in page[:limit] for item in _describe_entry(folder, path, descriptor, key[1])]
        return {
            "entries": items,
            "count": count,
            "next": _cursor_text(page[limit - 1]) if len(page) > limit else "",
            "rest": "/".join(f"{key[0]:d}{key[1].decode('latin-1')}" for key in held[limit:]) if is_whole else "",
        }
    finally:
        os.close(descriptor)


def describe_entries(folder: Folder, path: str, keys: list[str]) -> dict[str, Any]:
    """Return the entries of a folder that have these keys, without those that are gone by now. Raises OSError and
    RefusedPath."""
    descriptor = folder.open(path)
    try:
        names = (key[1:].encode("latin-1") for key in keys)
        return {"entries": [item for name in names for item in _describe_entry(folder, path, descriptor, name)]}
    finally:
        os.close(descriptor)


def _describe_entry(folder: Folder, path: str, descriptor: int, name: bytes) -> Iterator[dict[str, Any]]:
    """Yield an entry's description; nothing if it is gone by now."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            yield _entry_description(text or name.decode("utf-8", "replace"), status, readable=bool(text))
            return
        leads_to = os.readlink(name, dir_fd=descriptor)
    except OSError:
        return
    found = {
        "name": text or name.decode("utf-8", "replace"),
        "leadsTo": os.fsencode(leads_to).decode("utf-8", "replace"),
    }
    try:
        target = folder.open(f"{path}/{text}" if text else "\0")
    except (OSError, ValueError, RefusedPath):
        yield {**_entry_description("", status, readable=False), **found}
        return
    try:
        yield {**_entry_description("", os.fstat(target)), **found}
    finally:
        os.close(target)


def _entry_description(name: str, status: os.stat_result, *, readable: bool = True) -> dict[str, Any]:
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"))
    kind = next((kind for test, kind in kinds if test(status.st_mode)), "other")
    return {
        "name": name,
        "kind": kind,
        "size": status.st_size if kind == "file" else 0,
        "modified": status.st_mtime,
        "readable": readable and kind in ("file", "folder"),
    }


def _cursor_text(key: tuple[bool, bytes]) -> str:
    return base64.urlsafe_b64encode(b"%d" % key[0] + key[1]).decode()


def _read_cursor(text: str) -> tuple[bool, bytes] | None:
    if not text:
        return None
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if raw[:1] not in (b"0", b"1"):
        raise RefusedPath("Cursor", "this is no position of an earlier answer")
    return raw[:1] == b"1", raw[1:]


# ------------------------------------------------------------------------------------------ bytes


def send_file(folder: Folder, path: str, offset: int, length: int | None, out: BinaryIO) -> None:
    """Write a header with the file's size, then the file, or a part of it: `length` bytes from `offset` on, a negative
    `offset` counted from the end. A file that becomes shorter meanwhile raises EOFError."""
    descriptor = folder.open(path)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise RefusedPath("IsFolder", f"{path or 'this'} is a folder")
    with open(descriptor, "rb", buffering=0) as file:
        size = status.st_size
        start = max(0, size + offset) if offset < 0 else offset
        end = size if length is None else min(size, start + length)
        header = {"size": size, "start": start, "end": max(start, end), "modified": status.st_mtime_ns}
        out.write(json.dumps(header).encode() + b"\n")
        file.seek(start)
        while start < end:
            chunk = file.read(min(_CHUNK_BYTES, end - start))
            if not chunk:
                raise EOFError(f"{path} became shorter while it was read")
            out.write(chunk)
            start += len(chunk)


def send_archive(folder: Folder, path: str, name: str, out: BinaryIO) -> None:
    """Write an empty header, then a tar archive of the file or folder. Names in the archive begin with `name`.

    Files that vanish meanwhile, links that lead out of the folder, and special files such as pipes are left out. A file
    that becomes shorter raises OSError."""
    descriptor = folder.open(path)
    out.write(b"{}\n")
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK_BYTES) as archive:
        _add(archive, descriptor, name, len([part for part in path.split("/") if part]), 0)


def _add(archive: tarfile.TarFile, descriptor: int, name: str, above: int, depth: int) -> None:
    """Add the file or folder of a descriptor, and close the descriptor. `above` is the number of folders between the
    folder that is read and the archive's first entry."""
    with open(descriptor, "rb", closefd=True) if _is_file(descriptor) else _Closing(descriptor) as file:
        info, status = tarfile.TarInfo(name), os.fstat(descriptor)
        info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
        if stat.S_ISREG(status.st_mode):
            info.size = status.st_size
            archive.addfile(info, file)
            return
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
        if depth >= MAX_DEPTH:
            raise OSError(f"{name} has more than {MAX_DEPTH} folders inside each other")
        for entry in sorted(os.listdir(descriptor)):
            _add_entry(archive, descriptor, entry, f"{name}/{entry}", above, depth)


def _add_entry(archive: tarfile.TarFile, parent: int, entry: str, name: str, above: int, depth: int) -> None:
    try:
        mode = os.stat(entry, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            target = os.readlink(entry, dir_fd=parent)
            # The link's own folder is `above + depth` folders below the one that is read.
            beyond = os.path.normpath("/".join(["x"] * (above + depth) + [target]))
            if not target.startswith("/") and not beyond.startswith(".."):
                info = tarfile.TarInfo(name)
                info.type, info.linkname = tarfile.SYMTYPE, target
                archive.addfile(info)
            return
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            return
        descriptor = os.open(entry, _FOLDER if stat.S_ISDIR(mode) else _FILE, dir_fd=parent)
    except FileNotFoundError:
        return  # it was deleted meanwhile
    _add(archive, descriptor, name, above, depth + 1)


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


class _Closing:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


# ------------------------------------------------------------------------------------------ requests


def main(request: dict[str, Any], out: BinaryIO) -> int:
    """Carry out one request. Return the exit code, which is 0 if the output is complete, even if it is an error."""
    folder, path = Folder(request["root"]), request.get("path", "")
    written = _Counting(out)
    try:
        if request["op"] == "list":
            keep_bytes = request.get("keep_bytes", 0)
            page = list_folder(folder, path, request.get("after", ""), request["limit"], keep_bytes)
            written.write(json.dumps(page).encode() + b"\n")
        elif request["op"] == "entries":
            written.write(json.dumps(describe_entries(folder, path, request["keys"])).encode() + b"\n")
        elif request["op"] == "content":
            send_file(folder, path, request.get("offset", 0), request.get("length"), written)  # type: ignore[arg-type]
        else:
            send_archive(folder, path, request["name"], written)  # type: ignore[arg-type]
    except (RefusedPath, OSError, EOFError, ValueError) as error:
        if written.count:  # the reader sees an incomplete answer
            sys.stderr.write(f"{error}\n")
            return 1
        out.write(json.dumps({"error": _code_of(error), "message": str(error)}).encode() + b"\n")
    out.flush()
    return 0


def _code_of(error: Exception) -> str:
    if isinstance(error, RefusedPath):
        return error.code
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "NotFound"
    if isinstance(error, PermissionError):
        return "Unreadable"
    return "Failed"


class _Counting:
    """An output that knows whether anything was written."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.count = 0

    def write(self, data: bytes) -> int:
        self.count += len(data)
        self._out.write(data)
        return len(data)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.stdout.buffer))
