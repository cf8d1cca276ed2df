"""The format of an archive, byte for byte.

It is a tar file as GNU tar writes it, readable by every tar. It lacks everything that differs between machines: owners,
times, and modes except "executable". Its entries are files, symbolic links and empty folders, sorted by the bytes of
their paths. A folder therefore has exactly one archive, and the archive's SHA-256 identifies the folder's content.
"""

from __future__ import annotations

import re
import tarfile
from typing import NamedTuple

from kajitori.errors import InvalidInput

BLOCK_BYTES = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK_BYTES)
MAX_PATH_BYTES = 4000  # Linux allows 4096, including the folder that it is unpacked to
MAX_NAME_BYTES = 255
MAX_DEPTH = 128
MAX_FILES = 100_000
"""Largest number of entries of an archive, because packing and unpacking keep a list of them in memory."""

_SHORT = 100  # shorter names are in the header itself, with the slash of a folder

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class Entry(NamedTuple):
    """One entry of an archive. `kind` is tar's: a file, a symbolic link (to `target`) or an empty folder."""

    path: str
    kind: bytes
    size_bytes: int = 0
    executable: bool = False
    target: str = ""

    def header(self) -> bytes:
        """Return the blocks before the content."""
        if self.kind == tarfile.REGTYPE and self._is_short() and self.size_bytes < _LARGE_BYTES:
            return _filled_template(_TEMPLATES[self.executable], self.path, self.size_bytes)
        info = tarfile.TarInfo(self.path)
        info.type = self.kind
        info.size = self.size_bytes
        info.mode = 0o755 if self.executable or self.kind == tarfile.DIRTYPE else 0o644
        info.linkname = self.target
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")

    def header_bytes(self) -> int:
        """Return the length of the header."""
        return BLOCK_BYTES if self._is_short() else len(self.header())

    def _is_short(self) -> bool:
        return len(self.path) < _SHORT and len(self.target) < _SHORT and self.path.isascii() and self.target.isascii()


def _header_template(mode: int) -> tuple[bytes, int]:
    """Return the header of an empty file without a name, and the sum of its bytes for a header's checksum."""
    info = tarfile.TarInfo("")
    info.mode = mode
    block = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
    return block, sum(block) - sum(block[_SUM]) + (_SUM.stop - _SUM.start) * ord(" ")


_SIZE, _SUM = slice(124, 135), slice(148, 155)
"""Positions of a header's content size and checksum, as octal digits; a NUL follows each."""
_LARGE_BYTES = 8 ** (_SIZE.stop - _SIZE.start)
"""Content size from which tar writes the size in another way."""
_TEMPLATES = {executable: _header_template(0o755 if executable else 0o644) for executable in (False, True)}
"""Most headers differ only in name and size; filling in a template takes a tenth of tarfile's time."""


def _filled_template(template: tuple[bytes, int], path: str, size_bytes: int) -> bytes:
    block, total = template
    name, size = path.encode(), b"%011o" % size_bytes
    total += sum(name) + sum(size) - sum(block[_SIZE])
    return b"".join(
        (
            name,
            block[len(name) : _SIZE.start],
            size,
            block[_SIZE.stop : _SUM.start],
            b"%06o\0" % total,
            block[_SUM.stop :],
        )
    )


def padding(size_bytes: int) -> int:
    """Return the number of zeros that follow content of this size."""
    return -size_bytes % BLOCK_BYTES


def path_fault(path: str) -> str:
    """Return the reason for which this cannot be the path of an entry; empty if it can."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    names = path.split("/")
    if len(encoded) > MAX_PATH_BYTES or any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        return "has a name that is too long"
    if len(names) > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} folders deep"
    if "\0" in path:
        return "has a name with a NUL character"
    if any(name in ("", ".", "..") for name in names):
        return "leaves the folder"
    return ""


def link_fault(path: str, target: str) -> str:
    """Return the reason for which a symbolic link at `path` must not lead to `target`; empty if it may.

    Steps upwards (`..`) must come first, and there may be at most as many as the link has folders above it. These
    folders are never links. The other steps lead down, through folders and allowed links. So every allowed link stays
    inside the archive's folder.
    """
    if target.startswith("/"):
        return "is a link to an absolute path"
    if not target or "\0" in target or len(target.encode(errors="replace")) > MAX_PATH_BYTES:
        return "is a link to nowhere"
    try:
        target.encode()
    except UnicodeEncodeError:
        return "is a link to a name that is not UTF-8"
    names = target.split("/")
    upwards = next((index for index, name in enumerate(names) if name != ".."), len(names))
    if upwards > path.count("/") or ".." in names[upwards:]:
        return "is a link out of the folder"
    return ""


def check_digest(digest: str, field: str = "digest") -> str:
    """Return the digest. Raises InvalidInput if it is not one."""
    if not _DIGEST.fullmatch(digest):
        hint = "write sha256: and 64 digits of 0-9 and a-f"
        raise InvalidInput.one(field, "is not the digest of an archive", value=digest[:80], hint=hint)
    return digest
