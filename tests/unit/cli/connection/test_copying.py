"""Copying through a tar in the member: names as docker has them, and nothing written where it does not belong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kajitori.cli.connection.copying import CopyFailed, Place, copy_in, copy_out, read_place
from kajitori.errors import InvalidInput


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """A folder that stands for a member's disk."""
    folder = tmp_path / "member"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def execute(
    command: tuple[str, ...], *, stdin: int = -1, stdout: BinaryIO | None = None, stderr: BinaryIO | None = None
) -> int:
    """The command on this machine, as `execution.execute` runs it in a member."""
    source = stdin if stdin >= 0 else subprocess.DEVNULL
    done = subprocess.run(command, stdin=source, capture_output=True, check=False)
    assert stderr is not None
    (stdout or sys.stdout.buffer).write(done.stdout)
    stderr.write(done.stderr)
    return done.returncode


def sends(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> Any:
    """A member that answers with this archive, whatever it is asked for."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for each in members:
            info, content = each if isinstance(each, tuple) else (each, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

    def answer(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        stdout.write(archive.getvalue())
        return 0

    return answer


def entry(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, leads_to, 0o4755
    return info


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("bert:/ckpt", Place("/ckpt", "bert")),
        ("vision/bert:a:b", Place("a:b", "vision/bert")),
        ("bert:", Place(".", "bert")),
        ("./a:b", Place("./a:b")),
        ("/a:b", Place("/a:b")),
        ("plain", Place("plain")),
        ("-", Place("-")),
    ],
)
def test_which_side_is_in_a_run(text: str, place: Place) -> None:
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
    ("suffix", "target", "lands"),
    [
        ("", "new", "new"),
        ("", ".", "member"),
        ("/", "there", "there/member"),
        ("/.", "there", "there"),
        ("/.", "n", "n"),
    ],
)
def test_folders_come_out_as_docker_names_them(member: Path, here: Path, suffix: str, target: str, lands: str) -> None:
    """Into a folder that is there, or under the target's name; `/.` is the content."""
    fill(member)
    (here / "there").mkdir()
    assert copy_out(execute, f"{member}{suffix}", target) == []
    assert tree(here / lands) == WHOLE
    assert (here / lands / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("source", "target", "lands"),
    [
        ("src", "new", "new"),
        ("src", "sub", "sub/src"),
        ("src/", "sub", "sub/src"),
        ("src/.", "sub", "sub"),
        ("src/.", "n", "n"),
    ],
)
def test_folders_go_in_as_docker_names_them(member: Path, here: Path, source: str, target: str, lands: str) -> None:
    (here / "src").mkdir()
    fill(here / "src")
    copy_in(execute, source, f"{member}/{target}")
    assert tree(member / lands) == WHOLE


def test_single_files_both_ways(member: Path, here: Path) -> None:
    """Under another name, into a folder, and over a file that is there."""
    (here / "f").write_text("1")
    copy_in(execute, "f", f"{member}/g")
    copy_in(execute, "f", f"{member}/sub")
    assert tree(member) == {"g": "1", "sub/f": "1"}
    (here / "h").write_text("old")
    assert copy_out(execute, f"{member}/g", "h") == copy_out(execute, f"{member}/g", ".") == []
    assert tree(here) == {"f": "1", "g": "1", "h": "1"}


def test_what_can_not_be_copied_is_said(member: Path, here: Path) -> None:
    """Before anything is sent where that is known; else in the words of the member's tar."""
    (here / "src").mkdir()
    (member / "file").write_text("")
    for source, target in (("nope", "x"), ("src", "none/x"), ("src", "file")):
        with pytest.raises(InvalidInput):
            copy_in(execute, source, f"{member}/{target}")
    with pytest.raises(CopyFailed, match="No such file"):
        copy_out(execute, f"{member}/nope", "x")
    with pytest.raises(InvalidInput, match="there is no folder"):
        copy_out(execute, f"{member}/file", "none/x")


def test_a_member_without_tar_is_told_of(here: Path) -> None:
    def without(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        stderr.write(b"tar: not found")
        return 127

    with pytest.raises(CopyFailed, match="tar: not found") as failed:
        copy_out(without, "/x", "x")
    assert "needs tar" in failed.value.hint


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "x/../../evil", "y", "x/../y"])
def test_names_that_were_not_asked_for_are_left_out(here: Path, name: str) -> None:
    """Wherever they point to: only what is below the source's name lands, below the target."""
    assert len(copy_out(sends((entry("x/good"), b"1"), (entry(name), b"evil")), "/x", "out")) == 1
    assert tree(here) == {"out/good": "1"}


def test_nothing_is_written_through_a_link_of_the_archive(here: Path, tmp_path: Path) -> None:
    """Links that lead outside are left out; those that stay are made when everything else is written."""
    left_out = copy_out(
        sends(
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
    assert tree(here / "target") == {"good": "2", "in": "-> good", "out/evil": "1"}
    assert not (tmp_path / "evil").exists()
    assert [each.partition(":")[0] for each in left_out] == ["x/out", "x/up", "x/hard", "x/null"]


def test_no_link_is_made_through_another_link_of_the_archive(here: Path) -> None:
    """Each leads nowhere outside by its words alone; together they would have replaced a file beside the target."""
    (here / "mine").write_text("kept")
    left_out = copy_out(
        sends(
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
    assert tree(here) == {"mine": "kept", "target/good": "1", "target/here": "-> .", "target/dot": "-> ."}
    assert [each.partition(":")[0] for each in left_out] == ["x/up/mine", "x/here/up", "x/later"]


def test_a_link_is_copied_as_a_link_and_nothing_is_made_behind_it(here: Path) -> None:
    (here / "mine").mkdir()
    archive = sends(entry("x", tarfile.SYMTYPE, "mine"), entry("x/evil", tarfile.SYMTYPE, "y"))
    assert copy_out(archive, "/x", "target") == ["x/evil: a link to y"]
    assert tree(here) == {"target": "-> mine"}


def test_names_that_begin_with_two_dots_are_copied(here: Path) -> None:
    """Kubernetes keeps the files of a ConfigMap in `..data`."""
    archive = sends(
        entry("x/..data", tarfile.SYMTYPE, "..2026"),
        (entry("x/..2026/key"), b"1"),
        entry("x/key", tarfile.SYMTYPE, "..data/key"),
    )
    assert copy_out(archive, "/x", "target") == []
    assert tree(here) == {"target/..2026/key": "1", "target/..data": "-> ..2026", "target/key": "-> ..data/key"}
    assert copy_out(sends((entry("./..2026/key"), b"1")), "/x/.", "other") == []


def test_nothing_is_written_through_a_link_that_was_here(here: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (here / "x").mkdir()
    (here / "x" / "link").symlink_to(tmp_path / "elsewhere")
    left_out = copy_out(sends((entry("x/link/evil"), b"1"), (entry("x/link"), b"over it")), "/x", ".")
    assert (len(left_out), list((tmp_path / "elsewhere").iterdir())) == (1, [])
    assert (here / "x" / "link").read_text() == "over it"
    assert (here / "x" / "link").stat().st_mode & 0o7777 == 0o755, "no rights beyond the plain ones"


def test_an_archive_that_breaks_off_is_no_success(here: Path) -> None:
    def half(command: tuple[str, ...], *, stdin: int, stdout: BinaryIO, stderr: BinaryIO) -> int:
        whole = io.BytesIO()
        sends((entry("x/a"), b"1" * 5000))(command, stdin=-1, stdout=whole, stderr=stderr)
        stdout.write(whole.getvalue()[:3000])
        return 0

    with pytest.raises(CopyFailed, match="can't be read"):
        copy_out(half, "/x", "out")


def test_archives_through_stdin_and_stdout(
    member: Path, here: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` is an archive, as for docker."""
    fill(member)
    copy_out(execute, str(member), "-")
    archive = capfdbinary.readouterr().out
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "member/sub/b" in tar.getnames()
    (here / "archive").write_bytes(archive)
    keyboard = os.dup(0)
    with (here / "archive").open("rb") as file:
        os.dup2(file.fileno(), 0)
        try:
            copy_in(execute, "-", f"{member}/sub")
        finally:
            os.dup2(keyboard, 0)
            os.close(keyboard)
    assert (member / "sub" / "member" / "a").read_text() == "hi"
