"""The file format of a backup: a tar that is compressed with zstd, so that common tools can read it too.

The first entry describes the backup, and the last one lists all other entries with size and SHA-256. If the list is
missing, the file was cut off. If an entry has another digest, the file is damaged.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from kajitori.errors import InvalidInput, Unsupported

FORMAT = 1
"""Version of the file format. A program reads all versions up to its own."""
ABOUT, CONTENTS = "backup.json", "contents.json"
SUFFIX = ".tar.zst"
_SPOOL_BYTES = 8 << 20
_PIECE = 1 << 20


class About(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The description at the beginning of a backup."""

    format: int = FORMAT
    version: str
    """Version of Kajitori."""
    taken_at: str
    cluster: str
    """UID of the namespace `kube-system`, which identifies the cluster."""
    history: dict[str, str] | None = None
    """Facts about the history in the backup; None if it has no history."""
    blobs: bool = False
    results: bool = False
    secrets: bool = False
    """`blobs`: whether the backup has code and logs. `results`: members' results. `secrets`: Secrets."""


class Entry(msgspec.Struct, frozen=True):
    """One file in the backup."""

    bytes: int
    sha256: str


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The list at the end of a backup."""

    entries: dict[str, Entry]
    counts: dict[str, int]
    """Numbers of runs, rows and blobs, to show to people."""


class BackupWriter:
    """Writes entries one after the other."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._entries: dict[str, Entry] = {}
        self.counts: dict[str, int] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a small entry."""
        with self.entry(name) as file:
            file.write(content)

    @contextmanager
    def entry(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a file to which an entry's content is written. The entry is added when the context ends."""
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as file:
            yield file
            digest, size = hashlib.sha256(), file.tell()
            file.seek(0)
            while piece := file.read(_PIECE):
                digest.update(piece)
            file.seek(0)
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, 0o600
            self._tar.addfile(info, file)
        if name != CONTENTS:
            self._entries[name] = Entry(size, digest.hexdigest())

    def finish(self) -> Contents:
        """Write the list of entries."""
        contents = Contents(entries=self._entries, counts=self.counts)
        self.add(CONTENTS, msgspec.json.encode(contents))
        return contents


@contextmanager
def writing(path: Path, about: About) -> Iterator[BackupWriter]:
    """Yield a writer. The file gets its name once it is complete; only its owner may read it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            packer = zstandard.ZstdCompressor(level=6, write_checksum=True)
            with packer.stream_writer(file, closefd=False) as packed, tarfile.open(mode="w|", fileobj=packed) as tar:
                writer = BackupWriter(tar)
                writer.add(ABOUT, msgspec.json.encode(about))
                yield writer
                writer.finish()
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Yield the entries with their files, in their order. Raises InvalidInput if the file is cut off or is no
    backup."""
    try:
        with (
            path.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as unpacked,
            tarfile.open(mode="r|", fileobj=unpacked) as tar,
        ):
            yield _tar_entries(tar)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise _damaged_error(path, f"it can't be read to its end ({error})") from error
    except OSError as error:
        raise InvalidInput.one("FILE", f"{path} can't be read: {error.strerror or error}", value=str(path)) from error


def _tar_entries(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for info in tar:
        content = tar.extractfile(info)
        if content is not None:
            yield info.name, content


def verify(path: Path) -> tuple[About, Contents]:
    """Read a backup as a whole; return its description and its list of entries.

    Raises InvalidInput if it is cut off or damaged, Unsupported if a newer program wrote it.
    """
    about, contents, found = None, None, dict[str, Entry]()
    with reading(path) as entries:
        for name, content in entries:
            if name == ABOUT:
                about = _decoded_about(path, content.read())
            elif name == CONTENTS:
                contents = _decoded_document(path, content.read(), Contents)
            else:
                found[name] = _entry_of(content)
    if about is None:
        raise _damaged_error(path, "it does not begin with a description")
    if contents is None:
        raise _damaged_error(path, "it was cut off: its list of contents is missing")
    contents.entries.pop(ABOUT, None)
    wrong = [name for name, entry in contents.entries.items() if found.get(name) != entry]
    if wrong:
        raise _damaged_error(path, f"{len(wrong)} of its entries are missing or changed, such as {wrong[0]}")
    return about, contents


def about(path: Path) -> About:
    """Return only the description of a backup."""
    with reading(path) as entries:
        for name, content in entries:
            if name == ABOUT:
                return _decoded_about(path, content.read())
            break
    raise _damaged_error(path, "it does not begin with a description")


def lines_of(content: IO[bytes]) -> Iterator[Any]:
    """Yield the documents of an entry with one JSON document a line."""
    decoder = msgspec.json.Decoder()
    for line in content:
        yield decoder.decode(line)


def _decoded_about(path: Path, content: bytes) -> About:
    document = _decoded_document(path, content, dict[str, Any])
    form = document.get("format")
    if isinstance(form, int) and form > FORMAT:
        message = f"{path} has version {form} of the backup format; this kaji reads versions up to {FORMAT}"
        raise Unsupported(message, hint="restore it with the version of kaji that made it, or a later one")
    found: About = _decoded_document(path, content, About)
    return found


def _decoded_document(path: Path, content: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _damaged_error(path, str(error)) from error


def _entry_of(content: IO[bytes]) -> Entry:
    digest, size = hashlib.sha256(), 0
    while piece := content.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    return Entry(size, digest.hexdigest())


def _damaged_error(path: Path, why: str) -> InvalidInput:
    message = f"{path} is not a complete backup: {why}"
    return InvalidInput.one("FILE", message, value=str(path), hint="use another backup")
