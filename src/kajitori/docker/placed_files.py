"""Files that clients copy into a container before its start: from their tar archives to an archive of the run's files,
and back."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from kajitori.codepack.packing import shown_size
from kajitori.core.naming.first_step import file_name
from kajitori.core.spec.parts import MAX_FILES
from kajitori.errors import Fault, InvalidInput, TooLarge

SYSTEM_FOLDERS = frozenset(
    {"/", "/bin", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/root", "/run"}
)
SYSTEM_FOLDERS |= {"/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin"}
SYSTEM_FOLDERS |= {"/usr/share", "/var", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp"}
"""Folders that each image has, so that a client may name them without a slash at their end."""

_INSTEAD = "copy it while the container runs"
_PIECE_BYTES = 1 << 18
_COMPRESSIONS: Mapping[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""How to read a compressed archive, by its first bytes."""
_MAGIC_BYTES = max(map(len, _COMPRESSIONS))


class PlacedFiles:
    """The files of one container in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sources: dict[str, Path] = {}
        self._modes: dict[str, str] = {}
        self._made = 0

    @classmethod
    def of(cls, folder: Path, items: Sequence[Mapping[str, Any]], unpacked: Path) -> PlacedFiles:
        """Return the files of a run, as its spec lists them, from its unpacked archive."""
        placed = cls(folder)
        for index, item in enumerate(items):
            placed._sources[item["path"]] = unpacked / file_name(index)
            placed._modes[item["path"]] = str(item.get("mode") or "644")
        return placed

    @property
    def items(self) -> list[dict[str, str]]:
        """The files as `spec.files` lists them."""
        return [{"path": path, "mode": self._modes[path]} for path in sorted(self._sources)]

    def add(self, archive: IO[bytes], folder: str, limit_bytes: int) -> None:
        """Add what a client's tar archive has, to be unpacked in a folder of the container.

        A folder of the archive is added only if nothing is in it. Raises InvalidInput with all entries that can't be
        copied before the start, and TooLarge if the unpacked files have more than `limit_bytes`.
        """
        folders: dict[str, str] = {}
        faults: list[Fault] = []
        with TemporaryFile(dir=self._folder) as plain:
            try:
                _decompress(archive, plain, limit_bytes)
                with tarfile.open(fileobj=plain, mode="r:") as opened:
                    for entry in opened:
                        path = posixpath.normpath(posixpath.join(folder, entry.name.lstrip("/")))
                        mode = f"{entry.mode & 0o777:03o}"
                        if entry.size < 0:
                            raise tarfile.ReadError(f"{path} has a negative size")
                        if entry.isdir():
                            folders[path] = mode
                        elif (content := _content(opened, entry)) is None:
                            faults.append(Fault(path, f"is {_kind(entry)}", hint=_INSTEAD))
                        else:
                            with content, self._new(path, mode).open("wb") as file:
                                limit_bytes -= _copy(content, file, limit_bytes)
                            self._check_number()
            except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                raise InvalidInput.one("", f"the archive can't be read: {error}") from None
        for path, mode in folders.items():
            if path not in SYSTEM_FOLDERS and not self.below(path):
                self._new(path, mode).mkdir()
        for path in [one for one, source in self._sources.items() if source.is_dir() and len(self.below(one)) > 1]:
            del self._sources[path]
        if faults:
            raise InvalidInput(faults)
        self._check_number()

    def below(self, path: str) -> list[str]:
        """Return the paths of the files at this path and below."""
        prefix = f"{path.rstrip('/')}/"
        return [one for one in sorted(self._sources) if one == path or one.startswith(prefix)]

    def arrange(self, target: Path) -> None:
        """Copy the files to a new folder, under the names that they have in a run's archive."""
        target.mkdir()
        for index, path in enumerate(sorted(self._sources)):
            source, place = self._sources[path], target / file_name(index)
            if source.is_dir():
                place.mkdir()
            else:
                place.hardlink_to(source)

    def stat(self, path: str) -> tuple[int, int] | None:
        """Return mode and size of a file, or of a folder that holds files; None if there is neither."""
        source = self._sources.get(path)
        if source is None or source.is_dir():
            is_folder = source is not None or bool(self.below(path))
            return (0o040755, 4096) if is_folder else None
        return 0o100000 | int(self._modes[path], 8), source.stat().st_size

    def tar(self, path: str, modified: int) -> bytes:
        """Return the files at a path and below as a tar archive, whose names begin with the path's last part."""
        above = posixpath.dirname(path.rstrip("/")) or "/"
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for one in self.below(path):
                info = tarfile.TarInfo(posixpath.relpath(one, above))
                info.mode, info.mtime = int(self._modes[one], 8), modified
                if self._sources[one].is_dir():
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                    continue
                info.size = self._sources[one].stat().st_size
                with self._sources[one].open("rb") as content:
                    archive.addfile(info, content)
        return made.getvalue()

    def _check_number(self) -> None:
        if len(self._sources) > MAX_FILES:
            message = f"more than {MAX_FILES} files: no more can be copied before the start"
            hint = "put them on a volume (-v NAME:PATH) or into the image, or copy them while the container runs"
            raise InvalidInput.one("", message, hint=hint)

    def _new(self, path: str, mode: str) -> Path:
        self._made += 1
        self._modes[path] = mode
        self._sources[path] = self._folder / f"new-{self._made}"
        return self._sources[path]


def _content(opened: tarfile.TarFile, entry: tarfile.TarInfo) -> Any:
    """Return the content of a file, or of the file in the same archive that a link leads to; None if there is none."""
    try:
        return opened.extractfile(entry)
    except (KeyError, RecursionError):  # the link leads out of the archive, or to itself
        return None


def _decompress(archive: IO[bytes], plain: IO[bytes], limit_bytes: int) -> None:
    """Write a tar archive without its compression, if it has one that Docker's daemon knows too. Raises TooLarge, and
    the library's error if it can't be read."""
    beginning = archive.read(_MAGIC_BYTES)
    archive.seek(0)
    opened = next((open_ for magic, open_ in _COMPRESSIONS.items() if beginning.startswith(magic)), None)
    if opened is None:
        shutil.copyfileobj(archive, plain)
    else:
        with opened(archive) as content:
            _copy(content, plain, limit_bytes)
    plain.seek(0)


def _copy(content: IO[bytes], file: IO[bytes], limit_bytes: int) -> int:
    """Copy a file, and return its size. Raises TooLarge for more than `limit_bytes`: a small archive may hold any
    number of zeros."""
    size = 0
    while data := content.read(_PIECE_BYTES):
        size += len(data)
        if size > limit_bytes:
            raise too_large(limit_bytes)
        file.write(data)
    return size


def too_large(limit_bytes: int) -> TooLarge:
    """Return the error for files with more bytes than what is kept for a start."""
    return TooLarge(
        f"the files have more than {shown_size(limit_bytes)}, which is the limit of what is kept for a start",
        hint="copy them while the container runs, or put them on a volume",
    )


def _kind(entry: tarfile.TarInfo) -> str:
    if entry.issym() or entry.islnk():
        return f"a link to {entry.linkname}, which is no file of the same archive"
    return "neither file nor folder"
