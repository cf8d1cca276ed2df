"""Behaviour of every store of blobs."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator

import pytest
from tests.helpers.emulators import Emulator

from kajitori.blobs.stores.blobs import Blobs, Usage
from kajitori.blobs.stores.cloud import PIECE_BYTES
from kajitori.blobs.stores.opening import open_blobs
from kajitori.errors import InvalidInput, NotFound, TooLarge, Unavailable


async def _keys(blobs: Blobs, prefix: str = "") -> list[str]:
    return [blob.key async for blob in blobs.under(prefix)]


async def _get(blobs: Blobs, key: str, start: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in blobs.get(key, start=start, length=length)])


async def _pieces(*pieces: bytes, fail: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if fail is not None:
        raise fail


async def test_a_stored_blob_is_read_back(blobs: Blobs) -> None:
    assert await blobs.put("code/team/one", b"first") == 5
    assert await blobs.put("code/team/one", b"second") == 6
    assert await blobs.put("code/team/empty", b"") == 0
    assert await _get(blobs, "code/team/one") == b"second"
    assert await _get(blobs, "code/team/empty") == b""
    found = await blobs.head("code/team/one")
    assert (found.key, found.size_bytes) == ("code/team/one", 6)
    assert abs((found.modified_at - await blobs.now()).total_seconds()) < 60


async def test_many_small_blobs_are_read_at_once(blobs: Blobs) -> None:
    for name in ("one", "two", "large"):
        await blobs.put(f"results/team/{name}", name.encode())
    keys = [f"results/team/{name}" for name in ("one", "two", "large", "missing", "one/deeper")]
    assert await blobs.read_many(keys, limit_bytes=4) == {"results/team/one": b"one", "results/team/two": b"two"}
    assert await blobs.read_many([], limit_bytes=4) == {}


async def test_of_several_that_create_a_blob_one_succeeds(blobs: Blobs) -> None:
    made = await asyncio.gather(*(blobs.create("sessions/one/claim-0", f"{number}".encode()) for number in range(8)))
    assert sorted(made) == [False] * 7 + [True]
    assert await _get(blobs, "sessions/one/claim-0") == f"{made.index(True)}".encode()
    assert not await blobs.create("sessions/one/claim-0", b"late")
    await blobs.delete("sessions/one/claim-0")
    assert await blobs.create("sessions/one/claim-0", b"again")


@pytest.mark.parametrize("size", [0, 3, PIECE_BYTES, 2 * PIECE_BYTES + 1])
async def test_a_stream_is_stored_as_one_blob(blobs: Blobs, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    step = 1 << 20
    pieces = [content[begin : begin + step] for begin in range(0, size, step)]
    assert await blobs.put("log", _pieces(*pieces)) == size
    assert await _get(blobs, "log") == content


async def test_a_part_of_a_blob_can_be_read(blobs: Blobs) -> None:
    await blobs.put("key", b"0123456789")
    for start, length, expected in (
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (3, 0, b""),
        (8, 100, b"89"),
        (10, None, b""),
        (11, None, b""),
        (50, 7, b""),
    ):
        assert await _get(blobs, "key", start, length) == expected, (start, length)


async def test_a_missing_blob_is_not_found(blobs: Blobs) -> None:
    with pytest.raises(NotFound, match="no blob missing"):
        await _get(blobs, "missing")
    with pytest.raises(NotFound):
        await _get(blobs, "missing", 3, 0)
    with pytest.raises(NotFound):
        await _get(blobs, "missing", 3, 2)
    with pytest.raises(NotFound):
        await blobs.head("missing")
    with pytest.raises(NotFound):
        await blobs.read("missing", limit_bytes=10)


async def test_keys_are_listed_in_order_by_whole_segments(blobs: Blobs) -> None:
    for key in ("a/c", "a/b/1", "ab", "a/b-x", "a/b/0", "b"):
        await blobs.put(key, key.encode())
    assert await _keys(blobs) == ["a/b-x", "a/b/0", "a/b/1", "a/c", "ab", "b"]
    assert await _keys(blobs, "a") == ["a/b-x", "a/b/0", "a/b/1", "a/c"]
    assert await _keys(blobs, "a/b") == ["a/b/0", "a/b/1"]
    assert await _keys(blobs, "nothing/here") == []
    assert await blobs.usage("a/b") == Usage(2, 10)
    assert await blobs.usage() == Usage(6, 3 + 5 + 2 + 5 + 5 + 1)


async def test_removing_a_missing_blob_is_no_error(blobs: Blobs) -> None:
    for key in ("a/1", "a/2", "b"):
        await blobs.put(key, b"x")
    await blobs.delete()
    await blobs.delete("a/1", "a/none", "none/at/all", "a/2")
    await blobs.delete("a/1")
    assert await _keys(blobs) == ["b"]
    await blobs.put("a/1", b"again")
    assert await _keys(blobs) == ["a/1", "b"]


async def test_a_failing_source_leaves_the_old_blob(blobs: Blobs) -> None:
    await blobs.put("key", b"old")
    with pytest.raises(ValueError, match="the source"):
        await blobs.put("key", _pieces(b"new", fail=ValueError("the source")))
    with pytest.raises(ValueError, match="the source"):
        await blobs.put("other", _pieces(b"n" * (PIECE_BYTES + 5), fail=ValueError("the source")))
    assert await _get(blobs, "key") == b"old"
    assert await _keys(blobs) == ["key"]


async def test_a_cancelled_put_leaves_the_old_blob(blobs: Blobs) -> None:
    await blobs.put("key", b"old")
    taken = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"n" * (PIECE_BYTES + 5)
        taken.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(blobs.put("key", endless()))
    await taken.wait()
    assert await _get(blobs, "key") == b"old"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _get(blobs, "key") == b"old"
    assert await _keys(blobs) == ["key"]


async def test_a_small_blob_is_read_whole_up_to_a_limit(blobs: Blobs) -> None:
    await blobs.put("key", b"12345")
    assert await blobs.read("key", limit_bytes=5) == b"12345"
    with pytest.raises(TooLarge):
        await blobs.read("key", limit_bytes=4)


async def test_reading_the_stores_clock_leaves_no_blob(blobs: Blobs) -> None:
    await blobs.now()
    assert await _keys(blobs) == []


_BAD_KEYS = ("", "/a", "a/", "a//b", "../a", "a/../b", ".", ".tmp/x", "a/.hidden", "a b", "a\nb", "ä", "a" * 950)


async def test_keys_cannot_leave_the_store(blobs: Blobs) -> None:
    for key in _BAD_KEYS:
        for doing in (blobs.put(key, b"x"), _get(blobs, key), blobs.head(key), blobs.delete(key)):
            with pytest.raises(ValueError, match="not a blob's key"):
                await doing
    for key in _BAD_KEYS[1:]:
        with pytest.raises(ValueError, match="not a blob's key"):
            await _keys(blobs, key)


@pytest.mark.parametrize(
    ("url", "options", "fields"),
    [
        ("/var/lib/blobs", {}, ["blobs.url"]),
        ("ftp://host/x", {}, ["blobs.url"]),
        ("http://[::1", {}, ["blobs.url"]),
        ("file://host/x", {}, ["blobs.url"]),
        ("file:///x", {"region": "here"}, ["blobs.options.region"]),
        ("file:///x?y=1", {"a": "1", "b": "2"}, ["blobs.url", "blobs.options.a", "blobs.options.b"]),
        ("s3://", {}, ["blobs.url"]),
        ("s3://bucket/../x", {}, ["blobs.url"]),
        ("s3://key:SECRET@bucket/x", {}, ["blobs.url"]),
        ("s3://bucket/x?token=SECRET#SECRET", {}, ["blobs.url"]),
        ("s3://bucket", {"regoin": "SECRET", "nonsense": "SECRET"}, ["blobs.options.nonsense", "blobs.options.regoin"]),
        ("s3://bucket", {"access_key_id": "SECRET"}, ["blobs.options"]),
        ("az://container", {}, ["blobs.options"]),
        ("az://container", {"account_name": "me", "account_key": "SECRET, no base64"}, ["blobs.options"]),
        ("gs://bucket", {"service_account_key": '{"private_key": "SECRET"'}, ["blobs.options"]),
    ],
)
async def test_settings_are_refused_by_name_and_not_by_value(
    url: str, options: dict[str, str], fields: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput) as refused:
        await open_blobs(url, options)
    assert sorted(fault.field for fault in refused.value.faults) == sorted(fields)
    said = "".join(traceback.format_exception(refused.value)) + repr(refused.value.faults)
    assert "SECRET" not in said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://", "names no bucket"),
        ("s3:bucket", "names no bucket"),
        ("gs:///prefix", "names no bucket"),
        ("az:///prefix", "names no container"),
        ("s3://b", "'b' can't be the name of a bucket"),
        ("gs://b/prefix", "'b' can't be the name of a bucket"),
        ("az://b", "'b' can't be the name of a container"),
        ("s3://my bucket/x", "'my bucket' can't be the name of a bucket"),
        ("s3://minio:9000/bucket", "'minio:9000' can't be the name of a bucket"),
    ],
)
async def test_missing_and_invalid_buckets_have_different_messages(url: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await open_blobs(url)
    [fault] = refused.value.faults
    assert (fault.message, f"write {url[:2]}://" in fault.hint) == (said, True)


@pytest.mark.parametrize("path", ["", "/", "/prefix", "/two/parts/"])
@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("s3://abc", {"access_key_id": "id", "secret_access_key": "key"}),
        ("s3://My_old.bucket", {"access_key_id": "id", "secret_access_key": "key"}),
        ("gs://my_bucket", {"skip_signature": "true"}),
        ("az://$web", {"account_name": "me", "account_key": "a2V5"}),
    ],
)
async def test_a_url_is_a_bucket_with_or_without_a_path(place: str, options: dict[str, str], path: str) -> None:
    assert (await open_blobs(place + path, options)).where == f"{place}{path}".rstrip("/")


async def test_options_are_completed_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidInput) as refused:
        await open_blobs("az://container", field="--blobs")
    [fault] = refused.value.faults
    assert (fault.field, "AZURE_STORAGE_ACCOUNT_NAME" in fault.hint) == ("--blobs", True)


async def test_a_fault_names_the_option_as_it_was_written() -> None:
    with pytest.raises(InvalidInput) as refused:
        await open_blobs("s3://key:SECRET@bucket", field="--blobs")
    [fault] = refused.value.faults
    assert (fault.field, fault.hint) == ("--blobs", "put credentials and settings into the environment")


async def test_a_mistyped_option_is_recognised() -> None:
    with pytest.raises(InvalidInput) as refused:
        await open_blobs("s3://bucket", {"regoin": "x"})
    assert "region" in refused.value.faults[0].hint


async def test_a_store_that_does_not_answer_is_unavailable() -> None:
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "id", "secret_access_key": "SECRET", "region": "x"}
    blobs = await open_blobs("s3://bucket/prefix", options)
    with pytest.raises(Unavailable, match="can't be reached") as failed:
        await blobs.head("key")
    assert "SECRET" not in "".join(traceback.format_exception(failed.value)) + repr(blobs)
    assert repr(blobs) == "ObjectBlobs('s3://bucket/prefix')"


async def test_settings_may_come_from_the_environment(s3: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the cloud's own tools; a server's Pod gets its credentials this way."""
    for name, value in s3.options.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    blobs = await open_blobs(s3.new_place())
    await blobs.put("key", b"x")
    assert await _keys(blobs) == ["key"]


@pytest.mark.parametrize("kind", ["s3", "azure"])
async def test_a_missing_bucket_is_distinguished_from_a_missing_blob(kind: str, request: pytest.FixtureRequest) -> None:
    emulator: Emulator = request.getfixturevalue(kind)
    blobs = await open_blobs(f"{emulator.scheme}://no-such-place", emulator.options)
    for doing in (blobs.put("key", b"x"), blobs.read("key", limit_bytes=9), blobs.usage()):
        with pytest.raises(Unavailable, match="there is no") as failed:
            await doing
        assert failed.value.code == "NoBucket"


async def test_wrong_credentials_are_not_retried(azure: Emulator) -> None:
    wrong = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="
    blobs = await open_blobs(azure.new_place(), azure.options | {"account_key": wrong})
    with pytest.raises(Unavailable, match=r"refuses this server \(HTTP 403") as failed:
        await blobs.read("key", limit_bytes=9)
    assert wrong not in "".join(traceback.format_exception(failed.value)) + repr(blobs)


async def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is not about the network error of a request to the cloud's metadata service."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = "http://{}:{}".format(*nobody.getsockname())
        options = {"region": "us-east-1", "endpoint": address, "metadata_endpoint": address}
        blobs = await open_blobs("s3://bucket/prefix", options)
        with pytest.raises(Unavailable, match="no credentials for s3://bucket/prefix") as failed:
            await blobs.put("key", b"x")
    assert "have to give this server some" in failed.value.hint


async def test_an_aborted_upload_to_s3_leaves_no_parts(s3: Emulator) -> None:
    import boto3  # type: ignore[import-untyped]

    place = s3.new_place()
    blobs = await open_blobs(place, s3.options)
    taken = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"n" * (3 * PIECE_BYTES)
        taken.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(blobs.put("cancelled", endless()))
    await taken.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ValueError, match="the source"):
        await blobs.put("failed", _pieces(*[b"n" * PIECE_BYTES] * 3, fail=ValueError("the source")))
    client = boto3.client(
        "s3",
        endpoint_url=s3.options["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="key",
    )
    answer = await asyncio.to_thread(client.list_multipart_uploads, Bucket=place.removeprefix("s3://"))
    assert not answer.get("Uploads")
