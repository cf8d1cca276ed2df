"""A folder has exactly one archive, on any machine, at any time, for any user."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.codepack.layout import MAX_DEPTH, Entry
from kajitori.codepack.packing import Limits, Listing, digest_listing, list_folder, pack, shown_size
from kajitori.codepack.parts import PART_BYTES
from kajitori.errors import Conflict, InvalidInput, TooLarge


def _write(root: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def _archive(listing: Listing) -> bytes:
    return b"".join(listing.read(0, listing.size_bytes))


def _refusals(root: Path) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        list_folder(root)
    assert all(fault.hint for fault in refused.value.faults)
    return {fault.field: fault.message for fault in refused.value.faults}


def test_the_same_content_has_the_same_bytes(tmp_path: Path) -> None:
    """Order of creation, times, modes except "executable", and machine names do not matter."""
    files = {"b/z.py": b"z", "a.py": b"a" * 5000, "b/a-": b"", "b-a": b"1", "ä/ö": "ü".encode()}
    first = _write(tmp_path / "first", files)
    second = _write(tmp_path / "second", dict(reversed(files.items())))
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o640)
    assert pack(first).digest == pack(second).digest
    (second / "a.py").chmod(0o755)
    assert pack(first).digest != pack(second).digest


def test_the_archive_is_pinned_to_the_byte(tmp_path: Path) -> None:
    """Digests are in Runs and in the store, so they must never change."""
    _write(tmp_path, {"train.py": b"print('hello')\n", "sub/run.sh": b"#!/bin/sh\n", "n" * 120 + "/x": b"x"})
    (tmp_path / "sub" / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("sub/run.sh")
    (tmp_path / "empty").mkdir()
    packed = pack(tmp_path)
    assert packed.size_bytes == 6144
    assert packed.digest == "sha256:c6bf2dee2b9970618327b37115d36bbc6c50647260f149ad29639aaa3c7cf9a7"


def test_any_tar_reads_it(tmp_path: Path) -> None:
    _write(tmp_path, {"a/b.txt": b"hello", "long" * 40 + ".py": b"", "run": b"#!"})
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "to").symlink_to("a")
    (tmp_path / "none").mkdir()
    with tarfile.open(fileobj=io.BytesIO(_archive(list_folder(tmp_path)))) as archive:
        members = {member.name: member for member in archive}
        assert sorted(members) == ["a/b.txt", "long" * 40 + ".py", "none", "run", "to"]
        content = archive.extractfile("a/b.txt")
        assert content is not None
        assert content.read() == b"hello"
    assert (members["run"].mode, members["a/b.txt"].mode, members["to"].linkname) == (0o755, 0o644, "a")
    assert {(member.uid, member.gid, member.mtime, member.uname) for member in members.values()} == {(0, 0, 0, "")}


@given(
    path=st.text("abÄ_./", min_size=1, max_size=130),
    size_bytes=st.integers(0, 8**11 + 9),
    executable=st.booleans(),
    target=st.sampled_from(["", "a", "ü", "x" * 120]),
)
def test_headers_are_those_of_tarfile(path: str, size_bytes: int, executable: bool, target: str) -> None:
    """Byte for byte, whether or not a template made them."""
    kind = tarfile.SYMTYPE if target else tarfile.REGTYPE
    made = Entry(path, kind, size_bytes, executable, target)
    info = tarfile.TarInfo(path)
    info.type, info.size, info.mode, info.linkname = kind, size_bytes, 0o755 if executable else 0o644, target
    assert made.header() == info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
    assert len(made.header()) == made.header_bytes()


def test_digest_and_parts_are_those_of_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * (PART_BYTES // 256)
    _write(tmp_path, {"a": content, "b": content[1:] + b"x", "c" * 150: b"c" * 700})
    packed = pack(tmp_path)
    whole = b"".join(packed.stream())
    assert len(whole) == packed.size_bytes
    assert packed.digest == f"sha256:{hashlib.sha256(whole).hexdigest()}"
    assert packed.parts == 3
    assert b"".join(packed.part(number) for number in range(3)) == whole


@pytest.mark.parametrize("step", [1, 511, 512, 513, 1000])
def test_any_piece_can_be_read(tmp_path: Path, step: int) -> None:
    _write(tmp_path, {"a": b"a" * 700, "b" * 130: b"", "c": b"c" * 512, "d/e": b"e"})
    listing = list_folder(tmp_path)
    whole = _archive(listing)
    starts = range(0, len(whole) + step, step)
    assert b"".join(b"".join(listing.read(start, step)) for start in starts) == whole


def test_empty_folders_are_kept_unless_their_content_is_excluded(tmp_path: Path) -> None:
    """Otherwise a program's `__pycache__` would change the digest of its code."""
    _write(tmp_path, {".gitignore": b"*.pyc\n", "a.py": b"", "__pycache__/a.pyc": b""})
    (tmp_path / "logs").mkdir()
    assert [file.entry.path for file in list_folder(tmp_path).found] == [".gitignore", "a.py", "logs"]


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        ("a/l", "x", "x"),
        ("a/l", "./x//y/", "x/y"),
        ("a/l", ".", "."),
        ("a/l", "../b", "../b"),
        ("a/l", "../a/b/../x", "x"),
        ("a/l", "nowhere", "nowhere"),
        ("a/l", "b/../../a/x", "x"),
    ],
)
def test_links_inside_are_kept(tmp_path: Path, link: str, target: str, expected: str) -> None:
    _write(tmp_path, {"a/x": b"", "a/b/y": b""})
    (tmp_path / link).symlink_to(target)
    found = {file.entry.path: file.entry.target for file in list_folder(tmp_path).found}
    assert found[link] == expected


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../..", "../x/../..", "up/../..", "../../root/a"])
def test_links_out_of_the_folder_are_refused(tmp_path: Path, target: str) -> None:
    """Also ones that leave it through another link: `up` leads to the top, and one step above is outside."""
    root = _write(tmp_path / "root", {"a/x": b""})
    (root / "up").symlink_to(".")
    (root / "link").symlink_to(target)
    [(field, message)] = _refusals(root).items()
    assert field == "link"
    assert message.startswith("is a link ")
    assert message.endswith(target)


def test_all_forbidden_entries_are_named_at_once(tmp_path: Path) -> None:
    root = _write(tmp_path, {"a": b"", "out/.kajiignore": b"*\n"})
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "out" / "pipe")
    os.mkfifo(root / "\033[31mred")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    (root / "away").symlink_to("/")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"")
    assert _refusals(root) == {
        "pipe": "is a named pipe",
        "\\x1b[31mred": "is a named pipe",
        "socket": "is a socket",
        "away": "is a link to an absolute path: /",
        "\\udcff": "has a name that is not UTF-8",
    }


def test_a_folder_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"d" * MAX_DEPTH)
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"")
    [message] = _refusals(tmp_path).values()
    assert message == f"is more than {MAX_DEPTH} folders deep"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_only_a_folder_can_be_packed(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"does not exist|is not a folder"):
        pack(tmp_path / name)


@pytest.mark.parametrize("files", [{}, {"a.py": b"", "sub/b.py": b"", ".gitignore": b"*\n"}])
def test_a_folder_without_entries_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    """A run without its program would only fail later."""
    with pytest.raises(InvalidInput, match="everything in it is excluded"):
        pack(_write(tmp_path, files))


def test_over_the_limit_the_largest_files_are_named_unread(tmp_path: Path) -> None:
    _write(tmp_path, {f"f{number}": b"x" * number * 1000 for number in range(9)})
    with open(tmp_path / "data.bin", "wb") as sparse:
        sparse.truncate(3 << 40)
    with pytest.raises(TooLarge) as refused:
        pack(tmp_path, Limits(size_bytes=1 << 20))
    assert refused.value.message.endswith(
        "has 3.0 TiB in 10 files; 1.0 MiB are allowed. The largest: data.bin (3.0 TiB), f8 (7.8 KiB), f7 (6.8 KiB), "
        "f6 (5.9 KiB), f5 (4.9 KiB)"
    )
    assert ".kajiignore" in refused.value.hint
    (tmp_path / ".kajiignore").write_text("*.bin\n")
    assert pack(tmp_path, Limits(size_bytes=1 << 20)).listing.files == 10


def test_too_many_files_name_the_fullest_folders(tmp_path: Path) -> None:
    _write(tmp_path, {f"data/{number}": b"" for number in range(30)} | {"a": b"", "b": b""})
    with pytest.raises(TooLarge, match=r"more than 20 files. Most are in: data \(1"):
        pack(tmp_path, Limits(files=20))


@pytest.mark.parametrize("edit", ["grow", "shrink", "rewrite", "replace", "remove", "to-link"])
def test_a_file_that_is_edited_meanwhile_is_noticed(tmp_path: Path, edit: str) -> None:
    _write(tmp_path, {"a": b"a" * 3_000_000, "b": b"b" * 3_000_000})
    listing = list_folder(tmp_path)
    reading = listing.read(0, listing.size_bytes)
    next(reading)
    path = tmp_path / "b"
    if edit == "grow":
        path.write_bytes(b"b" * 3_000_001)
    elif edit == "shrink":
        path.write_bytes(b"b" * 2_999_999)
    elif edit == "rewrite":
        path.write_bytes(b"c" * 3_000_000)
        os.utime(path, ns=(1, 1))  # the clock may be too coarse to tell two writes apart
    elif edit == "replace":
        (tmp_path / "new").write_bytes(b"c" * 3_000_000)
        os.utime(tmp_path / "new", ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        (tmp_path / "new").rename(path)
    elif edit == "remove":
        path.unlink()
    else:
        path.rename(tmp_path / "c")
        path.symlink_to("c")
    with pytest.raises(Conflict, match="b was edited"):
        for _ in reading:
            pass


def test_a_file_that_is_edited_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    _write(tmp_path, {"a": b"a" * 3_000_000})
    packed = pack(tmp_path)
    reading = packed.stream()
    next(reading)
    next(reading)
    (tmp_path / "a").write_bytes(b"b" * 3_000_000)
    os.utime(tmp_path / "a", ns=(1, 1))
    with pytest.raises(Conflict, match="a was edited"):
        list(reading)
    with pytest.raises(Conflict, match="a was edited"):
        packed.part(0)


def test_memory_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    with open(tmp_path / "data.bin", "wb") as sparse:
        sparse.truncate(100 << 20)
    listing = list_folder(tmp_path)
    seen: list[int] = []
    tracemalloc.start()
    try:
        digest_listing(listing, progress=seen.append)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(seen) == listing.size_bytes
    assert peak < 5 << 20


def test_packing_and_unpacking_import_only_the_errors() -> None:
    """Every member begins with it."""
    code = (
        "import sys, kajitori.codepack.unpacking, kajitori.codepack.packing, kajitori.codepack.parts\n"
        "print(*sorted(name for name in sys.modules if name.startswith('kajitori.')))\n"
        "print(*{'asyncio', 'socket', 'pydantic', 'msgspec', 'numpy', 'ssl', 'email'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    ours, heavy = done.stdout.split("\n")[:2]
    assert {name.split(".")[1] for name in ours.split()} == {"codepack", "errors"}
    assert heavy == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (250 << 20, "250 MiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert shown_size(size) == text
