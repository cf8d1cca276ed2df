"""Files that are copied into a container before its start."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from kajitori.docker.placed_files import PlacedFiles
from kajitori.docker.routes.files import first_entry
from kajitori.errors import InvalidInput, TooLarge


def archive(*entries: tuple[str, bytes, str], mode: int = 0o644) -> io.BytesIO:
    """Return a tar archive of (name, kind, content or target)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as opened:  # Docker's daemon takes compressed archives too
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, mode
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = content
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            opened.addfile(info, io.BytesIO(content.encode()))
    made.seek(0)
    return made


LIMIT = 1 << 20
FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def contents(placed: PlacedFiles, folder: Path) -> dict[str, str | None]:
    """Return the content of each file by its path; None for an empty folder."""
    placed.arrange(folder)
    names = [item["path"] for item in placed.items]
    return {
        name: None if file.is_dir() else file.read_text()
        for name, file in zip(names, sorted(folder.iterdir()), strict=True)
    }


def test_the_files_of_an_archive_are_placed(tmp_path: Path) -> None:
    """A folder counts only if it is empty, and not if every image has it. Links are replaced by their targets."""
    placed = PlacedFiles(tmp_path)
    entries = [("./", FOLDER, ""), ("tmp/", FOLDER, ""), ("opt/app/", FOLDER, ""), ("opt/app/a", FILE, "A")]
    entries += [("opt/empty/", FOLDER, ""), ("opt/b", HARD, "opt/app/a"), ("opt/c", LINK, "app/a")]
    placed.add(archive(*entries), "/", LIMIT)
    placed.add(archive(("x", FILE, "X"), mode=0o600), "/etc", LIMIT)
    placed.add(archive(("../../x", FILE, "Y"), mode=0o755), "/etc", LIMIT)
    found = contents(placed, tmp_path / "1")
    assert found == {"/etc/x": "X", "/opt/app/a": "A", "/opt/b": "A", "/opt/c": "A", "/opt/empty": None, "/x": "Y"}
    assert [item["mode"] for item in placed.items] == ["600", "644", "644", "644", "644", "755"]


def test_later_files_replace_earlier_ones(tmp_path: Path) -> None:
    """Those that the run has are unpacked from its archive."""
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked" / "000").write_text("old")
    (tmp_path / "unpacked" / "001").mkdir()
    items = [{"path": "/etc/x", "mode": "644"}, {"path": "/opt/y", "mode": "755"}]
    placed = PlacedFiles.of(tmp_path, items, tmp_path / "unpacked")
    placed.add(archive(("etc/x", FILE, "new"), ("opt/y/z", FILE, "Z")), "/", LIMIT)
    assert contents(placed, tmp_path / "1") == {"/etc/x": "new", "/opt/y/z": "Z"}


def test_what_was_copied_in_can_be_copied_out(tmp_path: Path) -> None:
    placed = PlacedFiles(tmp_path)
    placed.add(archive(("app/a", FILE, "A"), ("app/e/", FOLDER, "")), "/opt", LIMIT)
    assert placed.stat("/opt/app/a") == (0o100644, 1)
    assert placed.stat("/opt/app") == (0o040755, 4096) and placed.stat("/opt/appendix") is None
    with tarfile.open(fileobj=io.BytesIO(placed.tar("/opt/app", 5))) as made:
        assert [(one.name, one.isdir(), one.mtime) for one in made] == [("app/a", False, 5), ("app/e", True, 5)]
        content = made.extractfile("app/a")
        assert content is not None and content.read() == b"A"


def test_what_cannot_be_copied_before_the_start_is_named(tmp_path: Path) -> None:
    """All entries at once. A link out of the archive has a target in the image, which is not known yet."""
    with pytest.raises(InvalidInput) as refused:
        PlacedFiles(tmp_path).add(archive(("a", LINK, "/etc/passwd"), ("b", tarfile.FIFOTYPE, "")), "/tmp", LIMIT)
    assert [fault.field for fault in refused.value.faults] == ["/tmp/a", "/tmp/b"]
    with pytest.raises(InvalidInput, match="256"):
        PlacedFiles(tmp_path).add(archive(*((f"{number}", FILE, "") for number in range(257))), "/tmp", LIMIT)
    with pytest.raises(InvalidInput, match="can't be read"):
        PlacedFiles(tmp_path).add(io.BytesIO(b"no archive"), "/tmp", LIMIT)


def test_an_archive_that_is_larger_than_it_looks_is_refused(tmp_path: Path) -> None:
    """A megabyte of gzip filled the disk with a gigabyte of zeros, and 512 bytes of a sparse file with any number."""
    zeros = archive(("a", FILE, "\0" * (LIMIT + 1)))
    assert len(zeros.getbuffer()) < LIMIT / 100
    sparse = tarfile.TarInfo("a")
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (1 << 32)
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 256 + sum(header[156:]))
    for bomb in (zeros, io.BytesIO(bytes(header) + bytes(1024))):
        with pytest.raises(TooLarge, match=r"1\.0 MiB"):
            PlacedFiles(tmp_path).add(bomb, "/tmp", LIMIT)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A compressed archive that was cut off, and links that lead to themselves, were bugs of the bridge."""
    whole = archive(("a", FILE, "".join(map(str, range(5_000))))).getvalue()
    with pytest.raises(InvalidInput, match="can't be read"):
        PlacedFiles(tmp_path).add(io.BytesIO(whole[: len(whole) // 2]), "/tmp", LIMIT)
    with pytest.raises(InvalidInput, match="no file of the same archive"):
        PlacedFiles(tmp_path).add(archive(("a", LINK, "b"), ("b", LINK, "a")), "/tmp", LIMIT)


def test_a_file_of_an_ended_containers_checkpoint_is_described_by_its_archive() -> None:
    """`docker cp` asks for a file's kind, size and time first. A long name has headers of its own before it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as opened:
        entry = tarfile.TarInfo("x" * 300)
        entry.size, entry.mode, entry.mtime = 3, 0o640, 7
        opened.addfile(entry, io.BytesIO(b"abc"))
    assert first_entry(stream.getvalue()) == (0o100640, 3, 7, "")
