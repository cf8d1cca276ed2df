"""Files inside a member over the Web API. The member's commands run on this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.runs.members.test_member_processes import put_member

FILES = "/v1/runs/team/bert/member-files"
CONTENT = f"{FILES}/content"


@pytest.fixture
async def member(world: World) -> World:
    await put_member(world)
    return world


async def listed(world: World, path: Path) -> Any:
    answer = await world.http.get(FILES, params={"path": str(path)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_a_folder_is_listed_with_names_of_any_kind(member: World, tmp_path: Path) -> None:
    """Folders come first. Links are followed; one that leads nowhere is left out."""
    names = ["重み.pt", "-rf", ".hidden", "two\nlines", "a b"]
    for name in names:
        (tmp_path / name).write_text("12345")
    (tmp_path / "z").mkdir()
    (tmp_path / "to-z").symlink_to("z")
    (tmp_path / "nowhere").symlink_to("missing")
    page = await listed(member, tmp_path)
    assert (page["path"], page["isFile"], page["hasMore"]) == (str(tmp_path), False, False)
    found = [(each["name"], each["kind"], each["sizeBytes"]) for each in page["items"]]
    assert found == [("to-z", "folder", 0), ("z", "folder", 0), *[(name, "file", 5) for name in sorted(names)]]
    one = await listed(member, tmp_path / "a b")
    assert (one["isFile"], [each["kind"] for each in one["items"]]) == (True, ["file"])


async def test_the_first_folder_is_the_one_in_which_programs_start(member: World) -> None:
    assert (await member.http.get(FILES)).json()["path"] == str(Path.cwd())


@pytest.mark.parametrize("content", [b"", b"\x00\n\xff" * 100_000], ids=["empty", "large"])
async def test_a_file_arrives_as_it_was_sent(member: World, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "it's a fi\nle"
    sent = await member.http.put(CONTENT, params={"path": str(path)}, content=content)
    assert (sent.status_code, sent.json()["sizeBytes"]) == (200, len(content)), sent.text
    assert path.read_bytes() == content
    read = await member.http.get(CONTENT, params={"path": str(path)})
    assert (read.content, read.headers["content-length"]) == (content, str(len(content)))
    assert read.headers["content-disposition"].startswith("attachment; filename*=UTF-8")
    assert names_in(tmp_path) == [path.name]


async def test_a_folder_is_downloaded_as_an_archive(member: World, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("content")
    read = await member.http.get(CONTENT, params={"path": f"{tmp_path}/data/"})
    with tarfile.open(fileobj=io.BytesIO(read.content)) as archive:
        assert archive.getnames() == ["data", "data/x"]
    assert read.headers["content-disposition"].endswith("data.tar")


async def test_an_upload_that_is_not_whole_leaves_what_was_there(
    member: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("before")
    headers = {"Content-Length": "4"}
    from kajitori.api.runs.members import files

    monkeypatch.setattr(files, "_RECEIVE", files._RECEIVE.replace("cat 2", "head -c 2 2"))
    sent = await member.http.put(CONTENT, params={"path": f"{tmp_path}/x"}, content=b"1234", headers=headers)
    assert (sent.status_code, "did not arrive whole" in sent.text) == (503, True)
    assert (names_in(tmp_path), (tmp_path / "x").read_text()) == (["x"], "before")


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "missing", 404, "the member has no "),
        ("PUT", "missing/x", 404, "a folder has to exist before"),
        ("PUT", "", 422, "is a folder"),
        ("PUT", "file/x", 404, "the member has no "),
    ],
)
async def test_what_cannot_be_done_is_named(
    member: World, tmp_path: Path, method: str, path: str, status: int, words: str
) -> None:
    (tmp_path / "file").touch()
    body = b"x" if method == "PUT" else None
    answer = await member.http.request(method, CONTENT, params={"path": f"{tmp_path}/{path}"}, content=body)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    if method == "GET":
        assert (await member.http.get(FILES, params={"path": f"{tmp_path}/{path}"})).status_code == status


async def test_it_takes_the_right_to_run_programs(member: World, tmp_path: Path) -> None:
    member.kubernetes.denied.add(("reader", "create", "pods/exec", "team"))
    headers, params = {"Authorization": "Bearer reader"}, {"path": f"{tmp_path}/x"}
    refused = await member.http.put(CONTENT, params=params, headers=headers, content=b"x")
    assert refused.status_code == 403
    assert (await member.http.get(CONTENT, params=params, headers=headers)).status_code == 403
    assert not (tmp_path / "x").exists()
