"""The program that reads a checkpoint folder: lists, files, archives, and paths that lead out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from kajitori.member import files
from kajitori.member.files import Folder, RefusedPath, list_folder, main

MARK = b"model of step 100"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint folder beside a secret, with links of all kinds."""
    (tmp_path / "secret").write_text("not for readers")
    root = tmp_path / "ckpt"
    (root / "step-100").mkdir(parents=True)
    (root / "step-100" / "model.pt").write_bytes(MARK)
    (root / "重み.bin").touch()
    for name, target in {
        "latest": "step-100",
        "absolute": f"{root}/step-100/model.pt",
        "up": "../secret",
        "out": str(tmp_path / "secret"),
        "loop": "loop",
        "step-100/above": "../../secret",
        "step-100/sibling": "../重み.bin",
    }.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    return root


def ask(root: Path, **request: Any) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of an answer."""
    out = io.BytesIO()
    assert main({"root": str(root), **request}, out) == 0
    header, _, data = out.getvalue().partition(b"\n")
    return json.loads(header), data


def listed(root: Path, path: str = "", **request: Any) -> dict[str, dict[str, Any]]:
    page, _ = ask(root, op="list", path=path, **{"limit": 100, **request})
    return {entry["name"]: entry for entry in page["entries"]}


def test_a_list_has_folders_first_and_says_what_links_lead_to(folder: Path) -> None:
    entries = listed(folder)
    assert next(iter(entries)) == "step-100"
    assert set(entries) == {"step-100", "absolute", "latest", "loop", "out", "pipe", "up", "重み.bin"}
    assert (entries["latest"]["kind"], entries["latest"]["leadsTo"]) == ("folder", "step-100")
    assert (entries["absolute"]["kind"], entries["absolute"]["size"]) == ("file", len(MARK))
    assert [entries[name]["readable"] for name in ("up", "out", "loop", "pipe")] == [False] * 4
    assert listed(folder, "latest")["model.pt"]["size"] == len(MARK)


@pytest.mark.parametrize("path", ["up", "out", "loop", "..", "latest/../../secret", "step-100/above", "latest/../out"])
@pytest.mark.parametrize("op", ["list", "content", "archive"])
def test_no_path_leads_out_of_the_folder(folder: Path, path: str, op: str) -> None:
    header, data = ask(folder, op=op, path=path, limit=10, name="x")
    assert (header["error"], data) == ("Outside", b"")


@pytest.mark.parametrize("path", ["nope", "step-100/model.pt/x", "step-100/nope"])
def test_a_path_that_is_not_there_is_not_found(folder: Path, path: str) -> None:
    assert ask(folder, op="content", path=path)[0]["error"] == "NotFound"


def test_a_fifo_is_refused_and_never_waited_for(folder: Path) -> None:
    assert ask(folder, op="content", path="pipe")[0]["error"] == "NotAFile"


def test_a_large_folder_comes_in_pages_each_entry_once(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:03}.pt").touch()
    (tmp_path / "zz").mkdir()
    names, after, pages = [], "", 0
    while True:
        page, _ = ask(tmp_path, op="list", path="", after=after, limit=20)
        names += [entry["name"] for entry in page["entries"]]
        (tmp_path / f"000-{pages}.new").touch()  # the program goes on writing
        pages, after = pages + 1, page["next"]
        if not after:
            break
    assert names == ["zz", *(f"{number:03}.pt" for number in range(50))]
    assert ask(tmp_path, op="list", path="", after="nonsense", limit=1)[0]["error"] == "Cursor"


def test_the_names_after_a_page_describe_the_next_ones_without_a_look_at_the_folder(tmp_path: Path) -> None:
    """Names that are no UTF-8 come back, too; entries that are gone by then are left out."""
    for name in (b"a", b"b", b"c\xff", b"d"):
        (tmp_path / os.fsdecode(name)).touch()
    (tmp_path / "sub").mkdir()
    page, _ = ask(tmp_path, op="list", path="", limit=2, keep_bytes=100)
    assert ([entry["name"] for entry in page["entries"]], page["rest"]) == (["sub", "a"], "1b/1c\xff/1d")
    (tmp_path / "d").unlink()
    rest, _ = ask(tmp_path, op="entries", path="", keys=page["rest"].split("/"))
    assert [entry["name"] for entry in rest["entries"]] == ["b", "c\ufffd"]
    too_long, _ = ask(tmp_path, op="list", path="", limit=2, keep_bytes=9)
    assert too_long == page | {"count": 4, "rest": ""}, "the page is the same, from a walk through the folder"
    assert ask(tmp_path, op="list", path="", limit=9, keep_bytes=100)[0]["rest"] == ""


def test_entries_that_vanish_meanwhile_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> os.stat_result:
        raise FileNotFoundError

    reader = Folder(str(folder))
    descriptor = reader.open("")
    monkeypatch.setattr(reader, "open", lambda path: descriptor)
    monkeypatch.setattr(os, "stat", gone)
    page = list_folder(reader, "", "", 100)
    assert (page["entries"], page["count"]) == ([], 8)


def test_a_name_that_is_not_utf_8_is_shown_but_has_no_path(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb")).touch()
    (entry,) = listed(tmp_path).values()
    assert (entry["name"], entry["readable"]) == ("a\ufffdb", False)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({}, MARK),
        ({"offset": 6, "length": 2}, b"of"),
        ({"offset": -3}, b"100"),
        ({"offset": 9}, MARK[9:]),
        ({"offset": 999}, b""),
        ({"offset": 9, "length": 999}, MARK[9:]),
    ],
)
def test_a_file_or_a_part_of_it_is_sent(folder: Path, part: dict[str, int], expected: bytes) -> None:
    header, data = ask(folder, op="content", path="latest/model.pt", **part)
    assert data == expected
    assert (header["size"], header["end"] - header["start"]) == (len(MARK), len(expected))


def test_a_file_that_becomes_shorter_breaks_the_answer_off(folder: Path) -> None:
    out = io.BytesIO()

    class Truncating(io.BytesIO):
        def write(self, data: Any) -> int:
            os.truncate(folder / "step-100" / "model.pt", 3)
            return out.write(data)

    assert main({"root": str(folder), "op": "content", "path": "step-100/model.pt"}, Truncating()) == 1


def test_an_archive_leaves_out_links_that_lead_out(folder: Path) -> None:
    def names(path: str, name: str) -> set[str]:
        _, data = ask(folder, op="archive", path=path, name=name)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            assert all(not member.isreg() or archive.extractfile(member) for member in archive)
            return set(archive.getnames())

    inner = {"step-100", "step-100/model.pt", "step-100/sibling"}
    assert names("step-100", "step-100") == inner
    assert names("", "b") == {"b", "b/latest", "b/loop", "b/重み.bin", *(f"b/{name}" for name in inner)}
    assert names("latest/model.pt", "m.pt") == {"m.pt"}


def test_a_swapped_link_never_opens_a_file_outside(tmp_path: Path) -> None:
    """Another process replaces a folder by a link again and again while paths are opened."""
    root, other = tmp_path / "ckpt", tmp_path / "other"
    for where in (root / "a", other):
        where.mkdir(parents=True)
        (where / "file").write_text(str(where))
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "a").rename(root / "b")
            (root / "a").symlink_to(other)
            (root / "a").unlink()
            (root / "b").rename(root / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            try:
                descriptor = Folder(str(root)).open("a/file")
            except (OSError, RefusedPath):
                continue
            with open(descriptor) as file:
                assert file.read() == str(root / "a")
    finally:
        stop.set()
        thread.join()


def test_it_runs_from_standard_input_with_the_standard_library_alone(folder: Path) -> None:
    source = Path(files.__file__).read_bytes()
    request = json.dumps({"root": str(folder), "op": "content", "path": "step-100/model.pt"})
    command = [sys.executable, "-I", "-S", "-", request]
    done = subprocess.run(command, input=source, capture_output=True, check=True)
    assert done.stdout.partition(b"\n")[2] == MARK
