"""Any archive becomes exactly the folder that was packed, or nothing at all."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kajitori.codepack.layout import END, MAX_DEPTH, Entry, padding
from kajitori.codepack.packing import pack
from kajitori.codepack.parts import compress, decompress, decompressed
from kajitori.codepack.unpacking import BAD_ARCHIVE, DISK_FULL, WRONG_DIGEST, Unpacked, unpack
from kajitori.errors import AlreadyExists, InvalidInput, Unavailable


def _name(archive: bytes) -> str:
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"


def _unpack(archive: bytes, target: Path, *, chunk: int = 1000) -> Unpacked:
    chunks = [archive[begin : begin + chunk] for begin in range(0, len(archive), chunk)]
    return unpack(chunks, target, digest=_name(archive), size_bytes=len(archive))


def _file(path: str, content: bytes = b"x", *, executable: bool = False) -> bytes:
    entry = Entry(path, tarfile.REGTYPE, len(content), executable)
    return entry.header() + content + bytes(padding(len(content)))


def _link(path: str, target: str) -> bytes:
    return Entry(path, tarfile.SYMTYPE, target=target).header()


def _raw(path: str, kind: bytes, size: int = 0, linkname: str = "", fields: dict[str, str] | None = None) -> bytes:
    info = tarfile.TarInfo(path)
    info.type, info.size, info.linkname = kind, size, linkname
    info.pax_headers = fields or {}
    return info.tobuf(tarfile.PAX_FORMAT if fields else tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _tree(root: Path) -> dict[str, tuple[str, bytes | str]]:
    found: dict[str, tuple[str, bytes | str]] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", "")
        else:
            found[name] = ("program" if path.stat().st_mode & 0o100 else "file", path.read_bytes())
    return found


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..", ".git", ".gitignore", ".kajiignore") and len(name.encode()) <= 200
)
_CONTENT = st.one_of(
    st.binary(max_size=1500),
    st.tuples(st.just("program"), st.binary(max_size=20)),
    st.tuples(st.just("link"), _NAMES),
)
_TREES = st.recursive(_CONTENT, lambda below: st.dictionaries(_NAMES, below, max_size=4), max_leaves=12)


def _make(path: Path, tree: object) -> None:
    if isinstance(tree, dict):
        path.mkdir()
        for name, below in tree.items():
            _make(path / name, below)
    elif isinstance(tree, bytes):
        path.write_bytes(tree)
    elif isinstance(tree, tuple) and tree[0] == "link":
        path.symlink_to(tree[1])
    elif isinstance(tree, tuple):
        path.write_bytes(tree[1])
        path.chmod(0o755)


@example({"x" + "ä" * 90: b"", "ä" * 60: {"ä" * 61: ("link", "ä" * 80)}}, 1000)  # a long name is cut inside a character
@given(st.dictionaries(_NAMES, _TREES, min_size=1, max_size=5), st.integers(1, 3000))
@settings(max_examples=40)
def test_every_folder_is_unpacked_as_it_was_packed(tree: dict[str, object], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as base:
        source, target = Path(base) / "source", Path(base) / "target"
        _make(source, tree)
        packed = pack(source)
        frames = b"".join(compress(packed.part(number)) for number in range(packed.parts))
        chunks = [frames[begin : begin + chunk] for begin in range(0, len(frames), chunk)]
        done = unpack(decompressed(chunks), target, digest=packed.digest, size_bytes=packed.size_bytes)
        assert _tree(target) == _tree(source)
        assert done == Unpacked(packed.listing.files, packed.size_bytes)
        assert pack(target).digest == packed.digest
        assert sorted(path.name for path in Path(base).iterdir()) == ["source", "target"]


_BAD: dict[str, Callable[[], bytes]] = {
    "absolute path": lambda: _file("/etc/passwd"),
    "path upwards": lambda: _file("../x"),
    "path upwards inside": lambda: _file("a/../../x"),
    "path to itself": lambda: _file("a/./b"),
    "empty part of a path": lambda: _file("a//b"),
    "link to an absolute path": lambda: _link("l", "/etc/passwd"),
    "link upwards": lambda: _link("l", ".."),
    "link upwards later": lambda: _link("a/l", "x/../../.."),
    "link through a link": lambda: _link("a/up", "..") + _link("l", "a/up/.."),
    "file through a link": lambda: _link("a", ".") + _file("a/x"),
    "file through a link to a folder": lambda: _file("a/x") + _link("b", "a") + _file("b/y"),
    "file below a file": lambda: _file("a") + _file("a/x"),
    "folder over a file": lambda: _file("a") + _raw("a/b", tarfile.DIRTYPE),
    "file over a link": lambda: _link("a", "b") + _file("a"),
    "the same file twice": lambda: _file("a") + _file("a"),
    "the same folder twice": lambda: _raw("a", tarfile.DIRTYPE) + _raw("a", tarfile.DIRTYPE),
    "out of order": lambda: _file("b") + _file("a"),
    "hard link": lambda: _file("a") + _raw("b", tarfile.LNKTYPE, linkname="a"),
    "hard link out": lambda: _raw("b", tarfile.LNKTYPE, linkname="/etc/passwd"),
    "character device": lambda: _raw("d", tarfile.CHRTYPE),
    "block device": lambda: _raw("d", tarfile.BLKTYPE),
    "named pipe": lambda: _raw("p", tarfile.FIFOTYPE),
    "sparse file": lambda: _raw("s", tarfile.GNUTYPE_SPARSE),
    "extended header": lambda: _raw("a", tarfile.REGTYPE, fields={"path": "../x"}),
    "unknown kind": lambda: _raw("a", b"Z"),
    "link with content": lambda: _raw("l", tarfile.SYMTYPE, 512, "a") + bytes(512),
    "name that is not UTF-8": lambda: _raw("a\udcff", tarfile.REGTYPE),
    "long name that is not UTF-8": lambda: _raw("a\udcff" * 100, tarfile.REGTYPE),
    "name with a NUL": lambda: _raw("././@LongLink", tarfile.GNUTYPE_LONGNAME, 4) + b"a\0b\0" + bytes(508) + _file("x"),
    "long name of nothing": lambda: _raw("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2) + b"a\0" + bytes(510),
    "two long names": lambda: (
        (_raw("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2) + b"a\0" + bytes(510)) * 2 + _file("x")
    ),
    "name without end": lambda: _raw("././@LongLink", tarfile.GNUTYPE_LONGNAME, 1 << 33),
    "too deep": lambda: _file("d/" * MAX_DEPTH + "x"),
    "no header": lambda: b"x" * 512,
    "damaged header": lambda: _file("a")[:100] + b"7" + _file("a")[101:],
    "something after a file": lambda: _file("a")[:-1] + b"x",
    "something after the end": lambda: _file("a") + END + _file("b"),
    "zeros after the end": lambda: _file("a") + END,
    "one block at the end": lambda: _file("a") + bytes(512) + b"x" * 512,
    "too short": lambda: _file("a", b"x" * 2000)[:1024],
}


@pytest.mark.parametrize("kind", _BAD)
def test_forbidden_entries_are_refused_and_leave_nothing(tmp_path: Path, kind: str) -> None:
    """Even with the right digest."""
    home = tmp_path / "home"
    home.mkdir()
    archive = _file("a-first", b"first" * 1000) + _BAD[kind]() + END
    if kind == "too short":
        archive = archive[: -len(END)]
    with pytest.raises(InvalidInput) as refused:
        _unpack(archive, home / "code")
    assert refused.value.faults[0].code == BAD_ARCHIVE
    assert _tree(tmp_path) == {"home": ("folder", "")}


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=100)
def test_a_damaged_archive_is_refused(seed: int, flips: int) -> None:
    """Whatever bytes are changed, and even with a matching digest: nothing is left, nothing is written elsewhere."""
    chance = random.Random(seed)
    archive = bytearray(
        _file("a", b"x" * 600) + _file("b/" * 8 + "l" * 110) + _link("c", "a") + _file("d/e", b"") + END
    )
    for _ in range(flips):
        archive[chance.randrange(len(archive))] = chance.choice([0, 0x2E, 0x2F, 0x30, 0x37, 0x80, 0xFF, 0x32, 0x4C])
    with tempfile.TemporaryDirectory() as base:
        home = Path(base) / "home"
        home.mkdir()
        try:
            _unpack(bytes(archive), home / "code")
        except InvalidInput:
            assert list(home.iterdir()) == []
        assert [path.name for path in Path(base).iterdir()] == ["home"]
        assert [path.name for path in home.iterdir()] in ([], ["code"])


def test_an_archive_with_another_digest_is_refused(tmp_path: Path) -> None:
    archive = _file("a") + END
    with pytest.raises(InvalidInput) as refused:
        unpack([archive], tmp_path / "code", digest=_name(b""), size_bytes=len(archive))
    assert refused.value.faults[0].code == WRONG_DIGEST
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [-512, -1, 1, 512])
def test_an_archive_with_another_size_is_refused(tmp_path: Path, more: int) -> None:
    archive = _file("a") + END
    with pytest.raises(InvalidInput):
        unpack([archive], tmp_path / "code", digest=_name(archive), size_bytes=len(archive) + more)
    assert list(tmp_path.iterdir()) == []


def test_a_decompression_bomb_is_refused_early(tmp_path: Path) -> None:
    """Gigabytes of zeros in a few kilobytes; neither memory nor disk holds more than was announced."""
    bomb = compress(_raw("a", tarfile.REGTYPE, 1 << 34)) + compress(bytes(64 << 20)) * 16
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="longer than announced"):
            unpack(decompressed([bomb]), tmp_path / "code", digest=_name(b""), size_bytes=20 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 << 20
    assert list(tmp_path.iterdir()) == []


def test_more_entries_than_allowed_are_refused(tmp_path: Path) -> None:
    archive = b"".join(_file(f"{number:03}", b"") for number in range(21)) + END
    with pytest.raises(InvalidInput, match="more than 20 files"):
        unpack([archive], tmp_path / "code", digest=_name(archive), size_bytes=len(archive), max_files=20)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_source_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield _file("a")
        raise Unavailable("the connection is gone")

    with pytest.raises(Unavailable, match="the connection"):
        unpack(broken(), tmp_path / "code", digest=_name(b""), size_bytes=9999)
    assert list(tmp_path.iterdir()) == []


def test_the_target_may_be_an_empty_folder_only(tmp_path: Path) -> None:
    archive = _file("a") + END
    target = tmp_path / "deep" / "code"
    target.mkdir(parents=True)
    _unpack(archive, target)
    with pytest.raises(AlreadyExists):
        _unpack(archive, target)
    assert _tree(tmp_path) == {
        "deep": ("folder", ""),
        "deep/code": ("folder", ""),
        "deep/code/a": ("file", b"x"),
    }


def test_everyone_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        _unpack(_file("a/b") + _file("c", executable=True) + END, tmp_path / "code")
    finally:
        os.umask(mask)
    code = tmp_path / "code"
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in (code, *code.rglob("*"))}
    assert modes == {"code": 0o755, "code/a": 0o755, "code/a/b": 0o644, "code/c": 0o755}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users: run as root")
def test_everything_gets_the_owner(tmp_path: Path) -> None:
    """A user id that is not in /etc/passwd is accepted."""
    archive = _file("a/b") + _link("l", "a") + _raw("z", tarfile.DIRTYPE) + END
    unpack([archive], tmp_path / "code", digest=_name(archive), size_bytes=len(archive), owner=(54321, 54322))
    code = tmp_path / "code"
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (code, *code.rglob("*"))}
    assert owners == {(54321, 54322)}


_SLOW = """
import sys, time
from pathlib import Path
from kajitori.codepack.unpacking import unpack
def chunks():
    yield sys.stdin.buffer.read(1024)
    print("writing", flush=True)
    sys.stdin.buffer.read()
unpack(chunks(), Path(sys.argv[1]), digest="sha256:" + "0" * 64, size_bytes=1 << 20)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Not before its lock is free: another process may still be unpacking."""
    target = tmp_path / "co[d]e*"
    words = [sys.executable, "-c", _SLOW, str(target)]
    archive = _file("a") + END
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(_file("a", b"x" * 512))
            process.stdin.flush()
            assert process.stdout.readline() == b"writing\n"
            _unpack(archive, target)
            assert len(list(tmp_path.iterdir())) == 2
        finally:
            process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 2
    (target / "a").unlink()
    _unpack(archive, target)
    assert _tree(tmp_path) == {target.name: ("folder", ""), f"{target.name}/a": ("file", b"x")}


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    archive = _file("a", b"x" * 5000) + END

    def full() -> Iterator[bytes]:
        yield archive[:512]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        yield archive[512:]

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(Unavailable) as failed:
            unpack(full(), tmp_path / "code", digest=_name(archive), size_bytes=len(archive))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.code == DISK_FULL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "part", [b"x", bytes(100_000), random.Random(1).randbytes(100_000)], ids=["one", "zeros", "noise"]
)
def test_a_part_is_one_frame(part: bytes) -> None:
    frame = compress(part)
    assert decompress(frame) == part
    assert b"".join(decompressed([frame[:7], frame[7:], frame])) == part + part
    with pytest.raises(InvalidInput):
        decompress(frame + b"x")
    with pytest.raises(InvalidInput):
        decompress(frame[:-1])


def test_invalid_parts_are_refused() -> None:
    import zstandard

    for wrong in (b"", b"nonsense", compress(b""), compress(bytes(1 << 20)) * 2):
        with pytest.raises(InvalidInput):
            decompress(wrong)
    with pytest.raises(InvalidInput, match="more than 1000 bytes"):
        decompress(compress(bytes(1 << 26)), limit_bytes=1000)
    with pytest.raises(InvalidInput, match="without its content"):
        decompress(zstandard.ZstdCompressor(write_content_size=False).compress(b"x"))
    with pytest.raises(InvalidInput):
        b"".join(decompressed([b"nonsense"]))
