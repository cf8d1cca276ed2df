"""Copy files into a member and out of it, as a tar stream through a command in the member.

The archive of a member is not trusted: nothing is written outside of the target, and no write follows a link that the
archive brought. Links are made last, and those that lead outside are left out.
"""

from __future__ import annotations

import io
import os
import posixpath
import shlex
import shutil
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from kajitori.cli.connection.folders import open_folder
from kajitori.cli.connection.sparse import SparseArchive, copy_parts, data_of, parts_of
from kajitori.cli.terminal import write_as_is
from kajitori.core.formats.quantities import round_memory
from kajitori.errors import InvalidInput, KajitoriError

if TYPE_CHECKING:
    from kajitori.client.views import View
    from kajitori.client.web_api import Api

Execute = Callable[..., int]
"""`execution.execute` for one member: takes a command, `stdin`, `stdout` and `stderr`, and gives the exit code."""

_PROBE = """
if [ -d "$1" ]; then echo folder; elif [ -e "$1" ]; then echo file; elif [ -d "$(dirname -- "$1")" ]; then echo new; fi
"""
_TAKES_SPARSE = "tar --sparse -cf /dev/null /dev/null 2>/dev/null"
"""Command that succeeds if the member's tar (GNU's) knows files with holes. Others refuse the option."""
_PROBE_SPARSE = f"{_TAKES_SPARSE} && echo sparse; true"
_MISSING = "kaji: missing below "
_FIND = f"""
if ! [ -e "$1/$2" ] && ! [ -L "$1/$2" ]; then
  up=$1
  while ! [ -d "$up" ]; do up=$(dirname -- "$up"); done
  if [ -x "$up" ]; then echo "{_MISSING}$up" >&2; exit 2; fi
fi
"""
"""Ends with the deepest folder that is there if the path is not. What the user may not enter is left to tar."""
_PACK_PLAINLY = f'{_FIND}exec tar -cf - -C "$1" -- "$2"'
_PACK = f'{_FIND}{_TAKES_SPARSE} && sparse=--sparse; exec tar $sparse -cf - -C "$1" -- "$2"'
_MODES = 0o777
_PART = ".kaji-cp-{}"
"""Name of a file that is being written here: an interrupted copy leaves what was there before."""
_TOLD_AFTER_SECONDS, _TOLD_AGAIN_SECONDS = 1.0, 0.5
"""Time after which a copy shows how far it is, and the pause between two such reports."""
_NO_FOLLOW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class CopyFailed(KajitoriError):
    """A command in the member failed."""

    code = "CopyFailed"
    exit_code = 2


@dataclass(frozen=True, slots=True)
class Place:
    """A path, here or in a member."""

    path: str
    run: str = ""
    """Empty for a path on this machine."""


def read_place(text: str) -> Place:
    """Parse `RUN:PATH` or a local path. As with docker, a text that begins with a slash or a dot is local."""
    run, colon, path = text.partition(":")
    if not run or not colon or run.startswith((".", "/")):
        return Place(text)
    return Place(path, run)


class Meter:
    """Counts the bytes that a copy has moved, and shows them if it takes longer than a moment."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self.moved_bytes = 0
        self._shown_at = clock() + _TOLD_AFTER_SECONDS - _TOLD_AGAIN_SECONDS

    def counted(self, stream: BinaryIO) -> BinaryIO:
        """Return a stream that writes to `stream` and counts."""
        return cast(BinaryIO, _Counted(stream, self))

    def add(self, count: int) -> None:
        self.moved_bytes += count
        if self._clock() - self._shown_at >= _TOLD_AGAIN_SECONDS:
            self._shown_at = self._clock()
            self._show(f"{round_memory(self.moved_bytes)} copied")


@dataclass(frozen=True, slots=True)
class _Counted:
    stream: BinaryIO
    meter: Meter

    def write(self, data: bytes) -> int:
        self.meter.add(len(data))
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()


_UNSEEN = Meter(lambda text: None)
_SHELL = "kaji exec RUN"


def copy_out(execute: Execute, source: str, target: str, meter: Meter = _UNSEEN, *, shell: str = _SHELL) -> list[str]:
    """Copy a file or folder of a member to a path here; `-` writes the archive to stdout. Return what was left out.
    `shell` is the command that runs another one in the member, for hints.

    As docker does: into a folder that is there, else under the target's name; `SOURCE/.` is the content of a folder.
    Raises InvalidInput if the member has no such path.
    """
    _require_path(source)
    folder, name = posixpath.split(source.rstrip("/") or "/")
    if source.endswith("/.") or name in ("", ".", ".."):
        folder, name = source, "."
    script = _PACK_PLAINLY if target == "-" else _PACK  # what reads an archive may not know files with holes
    words = ("/bin/sh", "-c", script, "sh", folder or ".", name)
    entry = "" if name == "." else name

    def send(stdout: BinaryIO | None) -> None:
        try:
            _run(execute, words, stdout=stdout)
        except CopyFailed as error:
            complaint, found, folder = error.message.partition(_MISSING)
            if not found or complaint:
                raise
            message = f"the member has no file or folder {source}"
            hint = f"see what is there: {shell} ls -la {shlex.quote(folder)}"
            raise InvalidInput.one("SOURCE", message, value=source, hint=hint) from None

    return _receive(send, source, entry, target, entry, meter)


def copy_checkpoint(api: Api, run: View, source: str, target: str, meter: Meter = _UNSEEN) -> list[str]:
    """Copy a file or folder of a run's checkpoint to a path here, like `copy_out`. No member has to be running."""
    _require_path(source)
    only_content = source.endswith("/.")
    name = "" if only_content else posixpath.basename(posixpath.normpath(source))
    name = "" if name in (".", "..") else name
    prefix = name or run["name"]

    def send(stdout: BinaryIO | None) -> None:
        write = stdout.write if stdout is not None else write_as_is
        for chunk in open_folder(api, run, "/files/archive", {"path": source, "name": prefix}):
            write(chunk)

    return _receive(send, source, prefix, target, name, meter)


def _require_path(source: str) -> None:
    """Raise InvalidInput for an empty path. It would stand for the folder in which the program started, often /."""
    if not source:
        hint = "write RUN:PATH, such as bert:/ckpt"
        raise InvalidInput.one("SOURCE", "names no path in the run", hint=hint)


def _receive(send: Callable[..., None], source: str, prefix: str, target: str, name: str, meter: Meter) -> list[str]:
    """Unpack the archive that `send(stdout=…)` writes. All its names begin with `prefix`, unless that is empty. A
    target that is a folder gets an entry `name`; with an empty name, the content of the source."""
    if target == "-":
        send(stdout=None)
        return []
    into = Path(target)
    if name and into.is_dir():
        into = into / name
    elif not into.parent.is_dir():
        raise InvalidInput.one(
            "TARGET", f"there is no folder {into.parent}", value=target, hint=f"mkdir -p {into.parent}"
        )
    reader, writer = os.pipe()
    unpacking = _Unpacking(into, prefix)
    with open(reader, "rb") as archive:
        thread = threading.Thread(target=unpacking.run, args=(archive,), name="unpack", daemon=True)
        thread.start()
        try:
            with open(writer, "wb") as stream:
                send(stdout=meter.counted(stream))
        except BrokenPipeError:
            pass  # the other thread knows why
        finally:
            thread.join()
    if unpacking.error is not None:
        raise unpacking.error
    if not unpacking.count:
        raise CopyFailed(f"nothing came of {source}")
    return unpacking.left_out


def copy_in(execute: Execute, source: str, target: str, meter: Meter = _UNSEEN, *, shell: str = _SHELL) -> list[str]:
    """Copy a file or folder to a path in a member; `-` reads an archive from stdin and unpacks it in a folder there.
    Return what was left out. `shell` is the command that runs another one in the member, for hints.

    As docker does: into a folder that is there, else under the target's name; `SOURCE/.` is the content of a folder.
    """
    target = target or "."
    if source != "-" and not os.path.lexists(source):
        raise InvalidInput.one("SOURCE", f"there is no {source}", value=source, hint="check the path")
    output = io.BytesIO()
    _run(execute, ("/bin/sh", "-c", _PROBE + _PROBE_SPARSE, "sh", target), stdout=output)
    words_found = output.getvalue().decode("utf-8", "replace").split()
    kind = next((word for word in words_found if word != "sparse"), "")
    path = Path(source)
    content_only = source == "." or source.endswith("/.")
    folder, name = target, "." if content_only else path.resolve().name
    if kind == "file" and (source == "-" or path.is_dir()):
        raise InvalidInput.one("TARGET", f"{target} is a file in the member", value=target, hint="name a folder")
    if kind == "":
        missing = posixpath.dirname(target) or "."
        hint = f"make it there: {shell} mkdir -p {shlex.quote(missing)}"
        raise InvalidInput.one("TARGET", f"the member has no folder {missing}", value=target, hint=hint)
    if kind != "folder":
        if source == "-":
            raise InvalidInput.one("TARGET", f"the member has no folder {target}", value=target, hint="name a folder")
        folder, name = posixpath.split(target.rstrip("/"))
    words = ("tar", "-xf", "-", "-C", folder or ".")
    if source == "-":
        _run(execute, words, stdin=0, stdout=io.BytesIO())
        return []
    reader, writer = os.pipe()
    packing = _Packing(path, name, meter, SparseArchive if "sparse" in words_found else tarfile.TarFile)
    thread = threading.Thread(target=packing.run, args=(writer,), name="pack", daemon=True)
    thread.start()
    failure: CopyFailed | None = None
    try:
        _run(execute, words, stdin=reader, stdout=io.BytesIO())
    except CopyFailed as error:
        failure = error
    finally:
        os.close(reader)
        thread.join()
    if (cause := packing.error or failure) is not None:
        raise cause
    return packing.left_out


def _run(execute: Execute, words: tuple[str, ...], *, stdin: int = -1, stdout: BinaryIO | None) -> None:
    """Run a command in the member; `stdout` None is our own. Raises CopyFailed with the command's own message."""
    complaints = io.BytesIO()
    code = execute(words, stdin=stdin, stdout=stdout, stderr=complaints)
    if code:
        complaint = _why(complaints.getvalue().decode("utf-8", "replace"))[-500:]
        hint = "copying needs tar and /bin/sh in the image" if code in (126, 127) else ""
        raise CopyFailed(complaint or f"{words[0]} ended with exit code {code} in the member", hint=hint)


def _why(complaints: str) -> str:
    """Return what a command said, without the line with which tar says only that it ends."""
    lines = [line for line in complaints.strip().splitlines() if not line.endswith(_TAR_ENDS)]
    return "; ".join(lines)


_TAR_ENDS = ("Error is not recoverable: exiting now", "Exiting with failure status due to previous errors")


@dataclass
class _Packing:
    """Writes an archive in its own thread. Its files belong to root, as after `docker cp`."""

    source: Path
    name: str
    meter: Meter
    format: type[tarfile.TarFile] = tarfile.TarFile
    left_out: list[str] = field(default_factory=list)
    error: Exception | None = None

    def run(self, writer: int) -> None:
        try:
            with (
                open(writer, "wb") as stream,
                self.format.open(fileobj=self.meter.counted(stream), mode="w|") as archive,
            ):
                archive.add(self.source, self.name, filter=self._as_root)
        except BrokenPipeError:
            return  # the member's tar ended first, and says why
        except OSError as error:  # tarfile's own has no name: a file became shorter
            name, why = error.filename or self.source, error.strerror or error
            self.error = InvalidInput.one("SOURCE", f"{name} can't be read: {why}")
        except Exception as error:  # an archive without its end may be taken for a whole one
            self.error = CopyFailed(f"{self.source} can't be packed: {error}")

    def _as_root(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        if member.isreg() or member.isdir() or member.issym() or member.islnk():
            return member
        self.left_out.append(f"{member.name}: neither a file nor a folder")
        return None


@dataclass
class _Unpacking:
    """Reads an archive in its own thread and unpacks it at the target."""

    target: Path
    prefix: str
    """First part of every name in the archive; the target takes its place."""
    count: int = 0
    left_out: list[str] = field(default_factory=list)
    error: KajitoriError | None = None
    _links: list[tuple[str, Path, str]] = field(default_factory=list)
    """Symbolic links still to make: the entry's name, the path, and the path that it leads to."""

    def __post_init__(self) -> None:
        self._root = os.path.realpath(self.target)

    def run(self, stream: IO[bytes]) -> None:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    self._take(archive, member)
            self._make_links()
        except tarfile.ReadError as error:
            if self.count:  # if nothing came, the member's tar says why
                self.error = CopyFailed(f"the archive that the member sent can't be read: {error}")
        except (tarfile.TarError, ValueError) as error:  # ValueError: a table of holes that is none
            self.error = CopyFailed(f"the archive that the member sent can't be read: {error}")
        except OSError as error:
            self.error = InvalidInput.one(
                "TARGET", f"{error.filename or self.target} can't be written: {error.strerror}"
            )
        except KajitoriError as error:
            self.error = error
        except Exception as error:  # else half a copy would count as a whole one
            self.error = CopyFailed(f"the archive that the member sent can't be unpacked: {error}")
        finally:
            stream.close()

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._path_of(member.name)
        self.count += 1
        if path is None:
            self.left_out.append(f"{member.name}: it is not what was asked for")
        elif member.isdir():
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise InvalidInput.one("TARGET", f"{path} is in the way: it is no folder", value=str(path))
            path.mkdir(exist_ok=True, parents=True)
        elif member.isreg():
            self._write(archive.extractfile(member), path, member, parts=parts_of(member))
        elif member.islnk():
            first = self._path_of(member.linkname)
            if first is None or not first.is_file() or first.is_symlink():
                self.left_out.append(f"{member.name}: what it is a second name of was not copied")
            else:
                with first.open("rb") as content:
                    member.size = first.stat().st_size
                    self._write(content, path, member, parts=data_of(content, member.size))
        elif member.issym():
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(self._inner(member.name)), member.linkname))
            if _leads_out(inside):
                self.left_out.append(f"{member.name}: a link to {member.linkname}")
            else:
                self._links.append((member.name, path, member.linkname))
        else:
            self.left_out.append(f"{member.name}: neither a file nor a folder")

    def _inner(self, name: str) -> str:
        """Path of an entry below the target; empty for the target itself."""
        plain = posixpath.normpath(name)
        return "" if plain in (".", self.prefix) else plain.removeprefix(f"{self.prefix}/") if self.prefix else plain

    def _path_of(self, name: str) -> Path | None:
        """Path that an entry of the archive is written to; None if it would be outside of the target."""
        plain = posixpath.normpath(name)
        if _leads_out(plain) or "\0" in plain:
            return None
        if self.prefix and plain != self.prefix and not plain.startswith(f"{self.prefix}/"):
            return None
        inner = self._inner(name)
        path = self.target / inner
        if inner and not self._is_inside(path.parent):
            return None  # a link that was here before leads outside
        return path

    def _make_links(self) -> None:
        """Make the links. By its words none leads outside, but one link may pass through another."""
        made = []
        for name, path, leads_to in self._links:
            if path != self.target and not self._is_inside(path.parent):
                self.left_out.append(f"{name}: a link to {leads_to}")
                continue
            place = Path(os.path.realpath(path.parent), path.name)
            place.unlink(missing_ok=True)
            place.symlink_to(leads_to)
            if path != self.target:
                made.append((name, place, leads_to))
        for name, place, leads_to in made:
            if not self._is_inside(place):
                place.unlink(missing_ok=True)
                self.left_out.append(f"{name}: a link to {leads_to}")

    def _is_inside(self, path: Path) -> bool:
        """Whether the path is below the target once all links in it are followed."""
        return Path(os.path.realpath(path)).is_relative_to(self._root)

    def _write(
        self,
        content: IO[bytes] | None,
        path: Path,
        member: tarfile.TarInfo,
        *,
        parts: list[tuple[int, int]] | None,
    ) -> None:
        """Write a file; `parts` are those of a file with holes that are none."""
        assert content is not None
        path.parent.mkdir(exist_ok=True, parents=True)
        part = path.with_name(_PART.format(os.getpid()))
        part.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(part, _NO_FOLLOW, 0o600), "wb") as file:
                if parts is None:
                    shutil.copyfileobj(content, file, 1 << 20)
                else:
                    copy_parts(content, file, parts, member.size)
            part.chmod(member.mode & _MODES)
            with suppress(OverflowError):  # a time that this machine does not have
                os.utime(part, (member.mtime, member.mtime))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _leads_out(path: str) -> bool:
    """Whether a normalized path is absolute or begins above the folder that it is relative to."""
    return path == ".." or path.startswith(("/", "../"))
