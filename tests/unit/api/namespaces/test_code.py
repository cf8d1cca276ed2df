"""Uploading and reading code over the Web API: rights, order and limits."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from collections.abc import AsyncIterator, Generator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.requests.limits import Turns
from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import MAX_COMPRESSED_BYTES, PART_BYTES, compress, decompressed
from kajitori.codepack.unpacking import unpack
from kajitori.codepack.uploading import Ask, Reply, Uploaded, upload
from kajitori.core.policy.file import with_first_step
from kajitori.errors import Conflict, TooLarge

Conversation = Generator[Ask, Reply, Uploaded]

NO_CODE = "sha256:" + "0" * 64


@pytest.fixture
def packed(tmp_path: Path) -> Pack:
    """An archive of two parts; the first does not compress."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "data.bin").write_bytes(os.urandom(PART_BYTES))
    (folder / "train.py").write_text("print('hello')\n")
    return pack(folder)


def _sum(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


async def _put(
    http: httpx2.AsyncClient, packed: Pack, number: int, *, zipped: bool = False, **options: Any
) -> httpx2.Response:
    part = packed.part(number)
    if zipped:  # as a browser does
        options |= {"headers": {"content-type": "application/gzip"}}
    params = {"sha256": _sum(part), **options.pop("params", {})}
    path = f"/v1/code/{packed.digest}/parts/{number}"
    return await http.put(path, params=params, content=gzip.compress(part) if zipped else compress(part), **options)


def _all(packed: Pack) -> dict[str, Any]:
    return {"parts": [_sum(packed.part(number)) for number in range(packed.parts)], "size": packed.size_bytes}


async def _upload(http: httpx2.AsyncClient, packed: Pack, **options: Any) -> None:
    for number in range(packed.parts):
        assert (await _put(http, packed, number, **options)).status_code == 200
    answer = await http.post(f"/v1/code/{packed.digest}/complete", json=_all(packed), **options)
    assert answer.status_code == 200, answer.text


async def test_an_upload_can_be_done_step_by_step(served: httpx2.AsyncClient, packed: Pack, tmp_path: Path) -> None:
    """The connection is real, since only then bodies come in pieces."""
    place = f"/v1/code/{packed.digest}"
    document = (await served.get("/openapi.json")).json()

    def described(path: str, answer: httpx2.Response, method: str = "get") -> Any:
        assert answer.status_code == 200, answer.text
        schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        assert_fits(document, schema, answer.json(), path)
        return answer.json()

    assert (await served.get(place)).json()["code"] == "NotFound"
    assert (await served.head(place)).status_code == 404
    assert (await served.get(f"{place}/bytes")).status_code == 404
    limits = {"partBytes": PART_BYTES, "maxBytes": 64 << 20}
    assert (await served.get(f"{place}/parts")).json() == {"items": [], **limits}

    stored_part = described("/v1/code/{digest}/parts/{number}", await _put(served, packed, 1, zipped=True), "put")
    assert stored_part == {"number": 1, "sha256": [_sum(packed.part(1))]}
    refused = await served.post(f"{place}/complete", json=_all(packed))
    assert (refused.status_code, refused.json()["code"]) == (409, "PartsMissing")
    stored_parts = described("/v1/code/{digest}/parts", await served.get(f"{place}/parts"))
    assert stored_parts == {"items": [{"number": 1, "sha256": [_sum(packed.part(1))]}], **limits}

    assert (await _put(served, packed, 0)).status_code == 200
    compressed = sum(len(compress(packed.part(number))) for number in range(2))
    sizes = {"sizeBytes": packed.size_bytes, "compressedBytes": compressed}
    expected = {"digest": packed.digest, "namespace": "team", **sizes, "parts": 2}
    for _ in range(2):
        answer = await served.post(f"{place}/complete", json=_all(packed))
        assert described("/v1/code/{digest}/complete", answer, "post") == expected
    assert described("/v1/code/{digest}", await served.get(place)) == expected
    assert (await served.head(place)).status_code == 200

    answer = await served.get(f"{place}/bytes")
    assert (answer.headers["content-type"], int(answer.headers["content-length"])) == ("application/zstd", compressed)
    unpack(decompressed([answer.content]), tmp_path / "code", digest=packed.digest, size_bytes=packed.size_bytes)
    assert (tmp_path / "code" / "train.py").read_text() == "print('hello')\n"


async def _answer_all(http: httpx2.AsyncClient, conversation: Conversation, asked: list[Ask]) -> Uploaded:
    """Send the conversation's requests and pass it the answers, as the command line does."""
    reply: Reply | None = None
    while True:
        try:
            ask = next(conversation) if reply is None else conversation.send(reply)
        except StopIteration as stop:
            uploaded: Uploaded = stop.value
            return uploaded
        asked.append(ask)
        headers = {"Content-Type": ask.media_type} if ask.media_type else {}
        answer = await http.request(ask.method, ask.path, params=ask.params, content=ask.body, headers=headers)
        assert answer.status_code == 200 or answer.status_code in ask.expects, answer.text
        reply = Reply(answer.status_code, answer.content)


async def test_an_upload_sends_only_missing_parts(world: World, packed: Pack) -> None:
    asked: list[Ask] = []
    seen: list[int] = []
    interrupted = upload(packed, progress=seen.append)
    broken = httpx2.ConnectError("the line is down")

    async def until_second_part(request: httpx2.Request) -> None:
        if request.url.path.endswith("/parts/1"):
            raise broken

    world.http.event_hooks = {"request": [until_second_part], "response": []}
    with pytest.raises(httpx2.ConnectError):
        await _answer_all(world.http, interrupted, asked)
    assert seen == [PART_BYTES]

    world.http.event_hooks = {}
    asked.clear()
    uploaded = await _answer_all(world.http, upload(packed, "team", progress=seen.append), asked)
    assert uploaded.parts == 1
    assert [(ask.method, ask.path.rpartition("/")[2]) for ask in asked[1:]] == [
        ("GET", "parts"),
        ("PUT", "1"),
        ("POST", "complete"),
    ]
    assert seen == [PART_BYTES, PART_BYTES, packed.size_bytes]
    assert await _answer_all(world.http, upload(packed), []) == Uploaded(0, 0)


async def test_an_upload_sends_parts_again_that_the_server_lost(world: World, packed: Pack) -> None:
    """Tidying may remove the parts of a very slow upload."""
    asked: list[Ask] = []
    assert world.api.stores.code is not None
    store = world.api.stores.code
    tidied = False

    async def tidy_up(request: httpx2.Request) -> None:
        nonlocal tidied
        if request.url.path.endswith("/complete") and not tidied:
            tidied = True
            await store.collect(set, timedelta(seconds=-1))

    world.http.event_hooks = {"request": [tidy_up], "response": []}
    uploaded = await _answer_all(world.http, upload(packed), asked)
    assert uploaded.parts == 4
    assert [ask.method for ask in asked] == ["GET", "GET", "PUT", "PUT", "POST", "GET", "PUT", "PUT", "POST"]
    assert (await world.http.head(f"/v1/code/{packed.digest}")).status_code == 200


async def test_an_upload_that_is_too_large_ends_before_its_first_part(world: World, packed: Pack) -> None:
    """The error names the largest files."""
    world.change("stores", code=CodeStore(MemoryBlobs(), lambda: CodeLimits(size_bytes=1 << 20)))
    asked: list[Ask] = []
    with pytest.raises(TooLarge, match=r"1\.0 MiB are allowed\. The largest: data.bin \(8\.0 MiB\), train.py"):
        await _answer_all(world.http, upload(packed), asked)
    assert [ask.method for ask in asked] == ["GET", "GET"]


async def test_a_full_namespace_names_its_largest_archives(world: World, packed: Pack) -> None:
    """It also names the runs that refer to them."""
    held, limits = MemoryBlobs(), CodeLimits(namespace_bytes=4 << 20)
    world.change("stores", code=CodeStore(held, lambda: limits))
    await held.put(f"code/team/{'a' * 64}/parts/00000001/000000-{'b' * 64}", bytes(4 << 20))
    world.kubernetes.put("runs", run("keeper", code={"digest": f"sha256:{'a' * 64}"}))
    await world.caught_up()
    answer = await _put(world.http, packed, 0)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (413, "TooLarge")
    assert "4.0 MiB are allowed. The largest: sha256:aaaaaaaaaaaa… (4.0 MiB, of keeper)" in problem["detail"]
    assert "kaji rm" in problem["hint"]


async def test_an_upload_gives_up_if_the_server_keeps_losing_parts(packed: Pack) -> None:
    conversation = upload(packed)
    ask = next(conversation)
    with pytest.raises(Conflict, match="loses parts"):
        for _ in range(100):
            if ask.path.endswith("/parts"):
                ask = conversation.send(Reply(200, b'{"items": [], "partBytes": 8388608, "maxBytes": 99999999}'))
            else:
                ask = conversation.send(Reply((ask.expects or (200,))[0], b"{}"))


async def test_code_needs_the_right_to_create_runs_in_its_namespace(world: World, packed: Pack) -> None:
    """Knowing a digest is not enough, and neither is the right to read runs."""
    await _upload(world.http, packed)
    world.kubernetes.denied.add(("eve", "create", "runs", "team"))
    eve: dict[str, Any] = {"headers": {"Authorization": "Bearer eve"}}
    place = f"/v1/code/{packed.digest}"
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", place, {}),
        ("HEAD", place, {}),
        ("GET", f"{place}/parts", {}),
        ("GET", f"{place}/bytes", {}),
        ("PUT", f"{place}/parts/0", {"params": {"sha256": "0" * 64}, "content": b"x"}),
        ("POST", f"{place}/complete", {"json": _all(packed)}),
    ]
    for method, path, options in calls:
        answer = await world.http.request(method, path, **eve, **options)
        assert answer.status_code == 403, path
    elsewhere = await world.http.get(place, params={"namespace": "other"}, **eve)
    assert elsewhere.status_code == 404
    assert (await world.http.get(place)).status_code == 200
    assert (await world.http.get(place, headers={"Authorization": ""})).status_code == 401


async def test_each_namespace_has_its_own_code(world: World, packed: Pack) -> None:
    await _upload(world.http, packed, params={"namespace": "other"})
    place = f"/v1/code/{packed.digest}"
    assert (await world.http.get(place)).status_code == 404
    assert (await world.http.get(place, params={"namespace": "other"})).json()["namespace"] == "other"
    assert (await world.http.get(f"{place}/bytes", params={"namespace": "a/../other"})).status_code == 422


async def test_faults_of_code_requests_name_the_field(world: World, packed: Pack) -> None:
    place = f"/v1/code/{packed.digest}"
    calls: list[tuple[str, str, dict[str, Any], str]] = [
        ("GET", "/v1/code/sha256:abc", {}, "digest"),
        ("GET", place, {"params": {"nonsense": "1"}}, "nonsense"),
        ("PUT", f"{place}/parts/x", {"params": {"sha256": "0" * 64}}, "number"),
        ("PUT", f"{place}/parts/-1", {"params": {"sha256": "0" * 64}}, "number"),
        ("PUT", f"{place}/parts/0", {}, "sha256"),
        ("PUT", f"{place}/parts/0", {"params": {"sha256": "x"}}, "sha256"),
        ("PUT", f"{place}/parts/0", {"params": {"sha256": "0" * 64}, "content": b"nonsense"}, "part"),
        ("PUT", f"{place}/parts/0", {"params": {"sha256": "0" * 64}, "content": compress(b"x")}, "sha256"),
        ("POST", f"{place}/complete", {"json": {"parts": []}}, "size"),
        ("POST", f"{place}/complete", {"json": {"parts": ["x"], "size": 2048}}, "parts[0]"),
        ("POST", f"{place}/complete", {"content": b"nonsense"}, "body"),
    ]
    for method, path, options, field in calls:
        answer = await world.http.request(method, path, **options)
        assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, field), (path, options)


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_refused(served: httpx2.AsyncClient, packed: Pack, announced: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(2 * MAX_COMPRESSED_BYTES >> 20):
            yield bytes(1 << 20)

    path = f"/v1/code/{packed.digest}/parts/0"
    content = bytes(MAX_COMPRESSED_BYTES + 1) if announced else pieces()
    answer = await served.put(path, params={"sha256": "0" * 64}, content=content)
    assert (answer.status_code, answer.json()["code"]) == (413, "TooLarge")


async def test_a_part_beyond_the_limit_is_refused(world: World, packed: Pack) -> None:
    answer = await _put(world.http, packed, 0)
    assert answer.status_code == 200
    path = f"/v1/code/{packed.digest}/parts/8"
    answer = await world.http.put(path, params={"sha256": "0" * 64}, content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (413, "TooLarge")
    assert ".kajiignore" in answer.json()["hint"]


async def test_an_incomplete_part_is_not_kept(served: httpx2.AsyncClient, world: World, packed: Pack) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await served.put(f"/v1/code/{packed.digest}/parts/0", params={"sha256": "0" * 64}, content=broken())
    assert (await served.get(f"/v1/code/{packed.digest}/parts")).json()["items"] == []


async def test_an_aborted_download_of_code_is_no_complete_answer(
    served: httpx2.AsyncClient, world: World, packed: Pack
) -> None:
    """A part has disappeared from the store; the reader can tell that from a regular end."""
    await _upload(served, packed)
    memory = world.blobs
    [part] = [key for key in memory.held if "/000001-" in key]
    del memory.held[part]
    with pytest.raises(httpx2.RemoteProtocolError):
        await served.get(f"/v1/code/{packed.digest}/bytes")


async def test_a_server_without_a_store_refuses_code(world: World) -> None:
    world.change("stores", code=None)
    answer = await world.http.get(f"/v1/code/{NO_CODE}")
    assert (answer.status_code, answer.json()["code"]) == (501, "Unsupported")
    assert answer.json()["hint"]


async def test_one_user_does_not_keep_others_from_uploading() -> None:
    """Each user has a limited number of uploads at a time; further ones wait."""
    uploads = Turns(at_once=3, for_one=2)
    inside: list[str] = []
    leave = asyncio.Event()

    async def upload(name: str) -> None:
        async with uploads.turn(name):
            inside.append(name)
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        for name in ("ada", "ada", "ada", "eve", "eve"):
            group.create_task(upload(name))
        await asyncio.sleep(0)
        assert inside == ["ada", "ada", "eve"]
        leave.set()
    assert sorted(inside) == ["ada", "ada", "ada", "eve", "eve"]


async def test_a_run_with_code_that_was_not_uploaded_is_refused(
    world: World, served: httpx2.AsyncClient, packed: Pack
) -> None:
    """Otherwise it would fail in the first step of each member; at submission the user is still there to read the
    reason."""
    world.api.policy.complete(partial(with_first_step, image="kajitori", server="http://kajitori:8600"))
    run = {"name": "bert", "spec": {"image": "x", "code": {"digest": packed.digest}}}
    answer = await served.post("/v1/runs", json=run)
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "spec.code.digest")
    assert "kaji run --code" in answer.json()["faults"][0]["hint"]
    assert (await served.post("/v1/runs", json=run, params={"dryRun": True})).status_code == 200
    await _upload(served, packed)
    assert (await served.post("/v1/runs", json=run)).status_code == 201


async def test_files_are_set_while_a_run_does_not_run(world: World, served: httpx2.AsyncClient, packed: Pack) -> None:
    """Each request names the archive that it replaces, so that of two clients none loses the other's files."""
    world.api.policy.complete(partial(with_first_step, image="kajitori", server="http://kajitori:8600"))
    await served.post("/v1/runs", json={"name": "bert", "spec": {"image": "x", "stopped": True}})
    files: dict[str, Any] = {"digest": packed.digest, "items": [{"path": "/etc/x", "mode": "600"}]}

    async def asked(**more: Any) -> tuple[int, Any]:
        answer = await served.post("/v1/runs/team/bert/set-files", json={"files": files} | more)
        return answer.status_code, answer.json()

    assert (await asked())[0] == 422, "the archive is not in the store"
    await _upload(served, packed)
    assert (await asked(insteadOf=f"sha256:{'0' * 64}"))[0] == 409
    for _ in range(2):  # the first answer may be lost
        code, run = await asked()
        assert (code, run["spec"]["files"]) == (200, files)
    files["items"][0]["path"] = "/proc/x"
    code, problem = await asked(insteadOf=packed.digest)
    assert (code, problem["faults"][0]["field"]) == (422, "files.items[0].path")
    files["items"][0]["path"] = "/etc/y"
    world.kubernetes.change("runs", "bert", status={"phase": "Running", "attempts": 1})
    code, problem = await asked(insteadOf=packed.digest)
    assert (code, "kaji cp" in problem["hint"]) == (409, True)
