"""Copying through tar in the member: names follow Docker, and nothing is written outside the target."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kajitori.cli.connection.copying import CopyFailed, Meter, Place, copy_in, copy_out, read_place
from kajitori.errors import InvalidInput


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """A folder that stands for the member's disk."""
    folder = tmp_path / "member"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def execute(
    command: tuple[str, ...], *, stdin: int = -1, stdout: BinaryIO | None = None, stderr: BinaryIO | None = None
) -> int:
    """Run the command on this machine, as `execution.execute` runs it in a member."""
    source = stdin if stdin >= 0 else subprocess.DEVNULL
    done = subprocess.run(command, stdin=source, capture_output=True, check=False)
    assert stderr is not None
    (stdout or sys.stdout.buffer).write(done.stdout)
    stderr.write(done.stderr)
    return done.returncode


def sender(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> Any:
    """Return a member that answers every command with this archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for member in members:
            info, content = member if isinstance(member, tuple) else (member, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

    def answer(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        stdout.write(archive.getvalue())
        return 0

    return answer


def entry(name: str, kind: bytes = tarfile.REGTYPE, link_target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link_target, 0o4755
    return info


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("bert:/ckpt", Place("/ckpt", "bert")),
        ("vision/bert:a:b", Place("a:b", "vision/bert")),
        ("bert:", Place("", "bert")),
        ("./a:b", Place("./a:b")),
        ("/a:b", Place("/a:b")),
        ("plain", Place("plain")),
        ("-", Place("-")),
    ],
)
def test_a_place_in_a_run_is_told_from_a_local_path(text: str, place: Place) -> None:
    assert read_place(text) == place


def fill(folder: Path) -> None:
    (folder / "a").write_text("hi")
    (folder / "a").chmod(0o640)
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub" / "b").write_text("there")
    os.link(folder / "a", folder / "sub" / "second")
    (folder / "link").symlink_to("sub/b")


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


WHOLE = {"a": "hi", "link": "-> sub/b", "sub/b": "there", "sub/second": "hi"}


@pytest.mark.parametrize(
    ("suffix", "target", "landing"),
    [
        ("", "new", "new"),
        ("", ".", "member"),
        ("/", "there", "there/member"),
        ("/.", "there", "there"),
        ("/.", "n", "n"),
    ],
)
def test_folders_are_copied_out_with_the_names_that_docker_gives(
    member: Path, folder: Path, suffix: str, target: str, landing: str
) -> None:
    """Into an existing folder, or under the target's name; `/.` means the content."""
    fill(member)
    (folder / "there").mkdir()
    assert copy_out(execute, f"{member}{suffix}", target) == []
    assert tree(folder / landing) == WHOLE
    assert (folder / landing / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("source", "target", "landing"),
    [
        ("src", "new", "new"),
        ("src", "sub", "sub/src"),
        ("src/", "sub", "sub/src"),
        ("src/.", "sub", "sub"),
        ("src/.", "n", "n"),
    ],
)
def test_folders_are_copied_in_with_the_names_that_docker_gives(
    member: Path, folder: Path, source: str, target: str, landing: str
) -> None:
    (folder / "src").mkdir()
    fill(folder / "src")
    copy_in(execute, source, f"{member}/{target}")
    assert tree(member / landing) == WHOLE


def test_single_files_are_copied_both_ways(member: Path, folder: Path) -> None:
    """Under another name, into a folder, and over an existing file."""
    (folder / "f").write_text("1")
    copy_in(execute, "f", f"{member}/g")
    copy_in(execute, "f", f"{member}/sub")
    assert tree(member) == {"g": "1", "sub/f": "1"}
    (folder / "h").write_text("old")
    assert copy_out(execute, f"{member}/g", "h") == copy_out(execute, f"{member}/g", ".") == []
    assert tree(folder) == {"f": "1", "g": "1", "h": "1"}


def test_an_impossible_copy_is_refused(member: Path, folder: Path) -> None:
    """Before anything is sent if that is known, otherwise with the message of the member's tar."""
    (folder / "src").mkdir()
    (member / "file").write_text("")
    for source, target in (("nope", "x"), ("src", "none/x"), ("src", "file")):
        with pytest.raises(InvalidInput):
            copy_in(execute, source, f"{member}/{target}")
    with pytest.raises(InvalidInput, match="there is no folder"):
        copy_out(execute, f"{member}/file", "none/x")


@pytest.mark.parametrize("target", ["x", "-"])
@pytest.mark.parametrize(("source", "listed"), [("nope", ""), ("sub/a b/c", "/sub"), ("none/x/y", "")])
def test_a_path_that_a_member_lacks_is_named_with_the_way_to_look(
    member: Path, folder: Path, target: str, source: str, listed: str
) -> None:
    """It was the sentence of the member's tar, which has the last name of the path only."""
    with pytest.raises(InvalidInput) as failed:
        copy_out(execute, f"{member}/{source}", target, shell="kaji exec --rank 3 bert")
    (fault,) = failed.value.faults
    assert (fault.field, fault.message) == ("SOURCE", f"the member has no file or folder {member}/{source}")
    assert fault.hint == f"see what is there: kaji exec --rank 3 bert ls -la {member}{listed}"
    assert tree(folder) == {}


def test_a_folder_that_may_not_be_read_has_the_words_of_tar(folder: Path) -> None:
    """Whether the file is there is not known then."""

    def closed(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        stderr.write(b"tar: /root: Cannot open: Permission denied\ntar: Error is not recoverable: exiting now\n")
        return 2

    with pytest.raises(CopyFailed, match=r"^tar: /root: Cannot open: Permission denied$"):
        copy_out(closed, "/root/x", "x")


def test_a_missing_folder_for_a_copy_in_is_made_by_the_command_in_the_hint(member: Path, folder: Path) -> None:
    (folder / "f").write_text("1")
    with pytest.raises(InvalidInput) as failed:
        copy_in(execute, "f", f"{member}/no ne/x", shell="kaji exec bert")
    (fault,) = failed.value.faults
    assert fault.hint == f"make it there: kaji exec bert mkdir -p '{member}/no ne'"


def test_a_source_without_a_path_is_refused(folder: Path) -> None:
    """In a member whose working folder is / it was everything."""
    with pytest.raises(InvalidInput) as failed:
        copy_out(execute, "", "x")
    (fault,) = failed.value.faults
    assert (fault.field, fault.message) == ("SOURCE", "names no path in the run")


def test_a_member_without_tar_is_named_as_the_cause(folder: Path) -> None:
    def without(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        stderr.write(b"tar: not found")
        return 127

    with pytest.raises(CopyFailed, match="tar: not found") as failed:
        copy_out(without, "/x", "x")
    assert "needs tar" in failed.value.hint


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "x/../../evil", "y", "x/../y"])
def test_archive_entries_outside_the_source_are_left_out(folder: Path, name: str) -> None:
    """Only entries below the source's name are written, and only below the target."""
    assert len(copy_out(sender((entry("x/good"), b"1"), (entry(name), b"evil")), "/x", "out")) == 1
    assert tree(folder) == {"out/good": "1"}


def test_nothing_is_written_through_a_link_of_the_archive(folder: Path, tmp_path: Path) -> None:
    """Links that lead outside are left out; others are created after everything else is written."""
    left_out = copy_out(
        sender(
            entry("x", tarfile.DIRTYPE),
            entry("x/out", tarfile.SYMTYPE, str(tmp_path)),
            (entry("x/out/evil"), b"1"),
            entry("x/up", tarfile.SYMTYPE, "../.."),
            entry("x/in", tarfile.SYMTYPE, "good"),
            (entry("x/in"), b"a file in the link's place"),
            (entry("x/good"), b"2"),
            entry("x/hard", tarfile.LNKTYPE, "/etc/passwd"),
            entry("x/null", tarfile.CHRTYPE),
        ),
        "/x",
        "target",
    )
    assert tree(folder / "target") == {"good": "2", "in": "-> good", "out/evil": "1"}
    assert not (tmp_path / "evil").exists()
    assert [notice.partition(":")[0] for notice in left_out] == ["x/out", "x/up", "x/hard", "x/null"]


def test_no_link_is_created_through_another_link_of_the_archive(folder: Path) -> None:
    """Each link alone leads nowhere outside; together they would have replaced a file beside the target."""
    (folder / "mine").write_text("kept")
    left_out = copy_out(
        sender(
            entry("x", tarfile.DIRTYPE),
            entry("x/here", tarfile.SYMTYPE, "."),
            entry("x/here/up", tarfile.SYMTYPE, ".."),
            entry("x/up/mine", tarfile.SYMTYPE, "good"),
            entry("x/later", tarfile.SYMTYPE, "dot/.."),
            entry("x/dot", tarfile.SYMTYPE, "."),
            (entry("x/good"), b"1"),
        ),
        "/x",
        "target",
    )
    assert tree(folder) == {"mine": "kept", "target/good": "1", "target/here": "-> .", "target/dot": "-> ."}
    assert [notice.partition(":")[0] for notice in left_out] == ["x/up/mine", "x/here/up", "x/later"]


def test_a_link_is_copied_as_a_link_and_nothing_is_written_behind_it(folder: Path) -> None:
    (folder / "mine").mkdir()
    archive = sender(entry("x", tarfile.SYMTYPE, "mine"), entry("x/evil", tarfile.SYMTYPE, "y"))
    assert copy_out(archive, "/x", "target") == ["x/evil: a link to y"]
    assert tree(folder) == {"target": "-> mine"}


def test_names_that_begin_with_two_dots_are_copied(folder: Path) -> None:
    """Kubernetes keeps the files of a ConfigMap in `..data`."""
    archive = sender(
        entry("x/..data", tarfile.SYMTYPE, "..2026"),
        (entry("x/..2026/key"), b"1"),
        entry("x/key", tarfile.SYMTYPE, "..data/key"),
    )
    assert copy_out(archive, "/x", "target") == []
    assert tree(folder) == {"target/..2026/key": "1", "target/..data": "-> ..2026", "target/key": "-> ..data/key"}
    assert copy_out(sender((entry("./..2026/key"), b"1")), "/x/.", "other") == []


def test_nothing_is_written_through_an_existing_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "x").mkdir()
    (folder / "x" / "link").symlink_to(tmp_path / "elsewhere")
    left_out = copy_out(sender((entry("x/link/evil"), b"1"), (entry("x/link"), b"over it")), "/x", ".")
    assert (len(left_out), list((tmp_path / "elsewhere").iterdir())) == (1, [])
    assert (folder / "x" / "link").read_text() == "over it"
    assert (folder / "x" / "link").stat().st_mode & 0o7777 == 0o755, "the set-user-ID bit of the archive is dropped"


def test_an_incomplete_archive_is_an_error(folder: Path) -> None:
    def half(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        whole = io.BytesIO()
        sender((entry("./a"), b"1" * 5000))(command, stdin=-1, stdout=whole, stderr=stderr)
        stdout.write(whole.getvalue()[:3000])
        return 0

    (folder / "out").mkdir()
    (folder / "out" / "a").write_text("the copy of yesterday")
    with pytest.raises(CopyFailed, match="can't be read"):
        copy_out(half, "/x/.", "out")
    left = [(path.name, path.read_text()) for path in folder.rglob("*") if path.is_file()]
    assert left == [("a", "the copy of yesterday")], "what was interrupted replaces nothing"


def test_what_is_no_file_is_named_and_left_out(member: Path, folder: Path) -> None:
    """Also of what is copied into a member: a pipe or a socket."""
    (folder / "x").mkdir()
    (folder / "x" / "file").write_text("1")
    os.mkfifo(folder / "x" / "pipe")
    assert copy_in(execute, "x", str(member)) == ["x/pipe: neither a file nor a folder"]
    assert [path.name for path in (member / "x").iterdir()] == ["file"]


def test_a_long_copy_shows_how_far_it_is() -> None:
    """A short one shows nothing."""
    shown: list[str] = []
    times = iter((0.0, 0.1, 0.9, 1.0, 1.0, 1.2, 1.6, 1.6))
    stream = Meter(shown.append, lambda: next(times)).counted(io.BytesIO())
    for _ in range(5):
        stream.write(b"x" * 2**20)
    assert shown == ["3Mi copied", "5Mi copied"]


def test_a_dash_reads_or_writes_an_archive(
    member: Path, folder: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `docker cp`."""
    fill(member)
    copy_out(execute, str(member), "-")
    archive = capfdbinary.readouterr().out
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "member/sub/b" in tar.getnames()
    (folder / "archive").write_bytes(archive)
    keyboard = os.dup(0)
    with (folder / "archive").open("rb") as file:
        os.dup2(file.fileno(), 0)
        try:
            copy_in(execute, "-", f"{member}/sub")
        finally:
            os.dup2(keyboard, 0)
            os.close(keyboard)
    assert (member / "sub" / "member" / "a").read_text() == "hi"


HOLE = 4 << 20
"""Size of each hole in `with_holes`."""


def with_holes(path: Path) -> Path:
    """Create a file of data between two holes."""
    with path.open("wb") as file:
        file.seek(HOLE)
        file.write(b"data" * 5_000)
        file.truncate(2 * HOLE + 20_000)
    return path


@pytest.mark.parametrize("knows_holes", [True, False])
def test_holes_of_files_do_not_travel_if_the_members_tar_knows_them(
    knows_holes: bool, member: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy has the same bytes and holes of its own. BusyBox's tar, for example, refuses the option."""
    if not knows_holes:
        other = tmp_path / "bin" / "tar"
        other.parent.mkdir()
        other.write_text(f'#!/bin/sh\ncase " $* " in *--sparse*) exit 1;; esac\nexec {shutil.which("tar")} "$@"\n')
        other.chmod(0o755)
        monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    (folder / "data").mkdir()
    source = with_holes(folder / "data" / "model")
    (folder / "data" / "same").hardlink_to(source)
    moved: list[str] = []
    meter = Meter(moved.append, clock=iter(range(10**9)).__next__)
    assert copy_in(execute, "data", str(member / "sub"), meter) == []
    assert copy_out(execute, str(member / "sub" / "data"), "back", meter) == []
    content = source.read_bytes()
    for copied in (member / "sub" / "data" / "model", folder / "back" / "model", folder / "back" / "same"):
        assert copied.read_bytes() == content
        if knows_holes:
            assert copied.stat().st_blocks * 512 < HOLE
    assert meter.moved_bytes < HOLE if knows_holes else meter.moved_bytes > 4 * HOLE


def test_a_copy_that_broke_off_for_any_reason_is_an_error(
    member: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ended with a traceback left half a copy behind, and exit code 0. A time that no file may have is
    left out."""
    strange = entry("x/a")
    strange.pax_headers = {"mtime": "1e300"}
    assert copy_out(sender((strange, b"1"), (entry("x/b"), b"2")), "/x", "target") == []
    assert tree(folder) == {"target/a": "1", "target/b": "2"}

    def fail(*_: object) -> None:
        raise RuntimeError("of another kind")

    monkeypatch.setattr(Path, "chmod", fail)
    with pytest.raises(CopyFailed, match="of another kind"):
        copy_out(sender((entry("x/a"), b"1")), "/x", "target")
    monkeypatch.setattr(tarfile.TarFile, "addfile", fail)
    with pytest.raises(CopyFailed, match="of another kind"):
        copy_in(execute, "target", str(member))


def test_a_file_that_becomes_shorter_while_it_is_copied_is_named(
    member: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message was `None can't be read: None`."""
    (folder / "a").write_text("whole")
    monkeypatch.setattr(tarfile.TarInfo, "size", property(lambda _: 9, lambda *_: None), raising=False)
    with pytest.raises(InvalidInput, match=r"a can't be read: unexpected end of data"):
        copy_in(execute, "a", str(member))


def test_a_wrong_table_of_holes_is_an_error(folder: Path) -> None:
    """The archive of a member is not trusted."""
    wrong = entry("GNUSparseFile.0/model")
    wrong.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    with pytest.raises(CopyFailed, match="can't be read"):
        copy_out(sender((wrong, b"no number\n".ljust(512, b"\0"))), "/model", "model")
