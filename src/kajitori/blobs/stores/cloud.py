"""A store of blobs in S3, Azure Blob Storage or Google Cloud Storage.

The clouds' error messages may repeat signatures, keys and tokens. So this module writes its own messages, which contain
only the HTTP status and the cloud's error code.

If an upload in several pieces fails, it is aborted. A process that is killed during an upload leaves its pieces; they
cannot be read, but a bucket should have a rule that removes unfinished uploads (in S3 and Google's:
AbortIncompleteMultipartUpload; Azure does it by itself after a week).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from kajitori.blobs.stores.blobs import CHUNK_BYTES, Blob, Blobs, check_key, no_such_blob, store_full
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault, InvalidInput, KajitoriError, Unavailable

PIECE_BYTES = 8 << 20
"""Longer content is sent in pieces of this size, two at a time."""

_PIECES_AT_ONCE = 2
_DELETED_AT_ONCE = 256
_STORES: dict[str, Any] = {"s3": S3Store, "az": AzureStore, "gs": GCSStore}
_CLIENT = {"timeout": "60s", "connect_timeout": "5s"}
_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_HTTP_STATUS = re.compile(r"\bstatus(?: code)?:? (\d{3})\b|response: (\d{3})\b", re.IGNORECASE)
_CLOUD_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_ASKED_FOR_CREDENTIALS = re.compile(r"/latest/(api/token|meta-data)|/metadata/identity|/computeMetadata/")
"""Addresses at which clouds give credentials to their own machines. A client that asks there was given no
credentials."""
_FULL = (507,)
_FULL_CODES = ("QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "AccountLimitExceeded")
_EXAMPLES = {
    "s3": ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "virtual_hosted_style_request"),
    "az": ("account_name", "account_key", "endpoint", "sas_token", "client_id", "client_secret", "tenant_id"),
    "gs": ("service_account_path", "service_account_key", "application_credentials", "base_url"),
}
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for another server, AWS_ENDPOINT_URL",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or an identity",
    "gs": "GOOGLE_SERVICE_ACCOUNT, the path of a key, or an identity",
}


def open_objects(scheme: str, bucket: str, prefix: str, options: Mapping[str, str], *, field: str) -> ObjectBlobs:
    """Return the store in a bucket or container, without a request to it. Raises InvalidInput for unusable settings."""
    wanted = dict(options)
    client = dict(_CLIENT)
    from_environment = (os.environ.get(name, "") for name in _ENDPOINTS)
    if any(value.startswith("http://") for value in (*wanted.values(), *from_environment)):
        client["allow_http"] = "true"  # the settings name it on purpose
    make = _STORES[scheme]
    faults = []
    while True:
        try:
            store = make(bucket, prefix=prefix or None, config=wanted, client_options=client, retry_config=_RETRIES)
            break
        except exceptions.UnknownConfigurationKeyError as error:
            named = re.search(r"'([^']*)'", str(error))
            name = named.group(1) if named else ""
            if name not in wanted:
                raise InvalidInput.one(f"{field}.options", "holds an option that the store does not have") from None
            del wanted[name]
            hint = did_you_mean(name, _EXAMPLES[scheme]) or f"such as {', '.join(_EXAMPLES[scheme])}"
            faults.append(Fault(f"{field}.options.{name}", "there is no such option", hint=hint, code="UnknownField"))
        except (exceptions.BaseError, ValueError) as error:
            if field.startswith("--"):
                where, hint = field, f"set what it needs in the environment: {_VARIABLES[scheme]}"
            else:
                where = f"{field}.options"
                hint = f"options of {scheme}:// are such as {', '.join(_EXAMPLES[scheme])}"
            faults.append(Fault(where, f"can't be used: {_without_values(error, options)}", hint=hint))
            break
    if faults:
        raise InvalidInput(faults)
    return ObjectBlobs(store, f"{scheme}://{bucket}/{prefix}".rstrip("/"))


class ObjectBlobs(Blobs):
    """Blobs as objects in a bucket or container."""

    def __init__(self, store: Any, where: str) -> None:
        super().__init__(where)
        self._store = store

    async def put(self, key: str, content: bytes | AsyncIterable[bytes]) -> int:
        check_key(key)
        if isinstance(content, bytes):
            await self._put_whole(key, content)
            return len(content)
        pieces = aiter(content)
        begin = await _read_at_least(pieces, PIECE_BYTES)
        if len(begin) < PIECE_BYTES:
            await self._put_whole(key, begin)
            return len(begin)
        return await self._put_stream(key, begin, pieces)

    async def create(self, key: str, content: bytes) -> bool:
        check_key(key)
        try:
            await obstore.put_async(self._store, key, content, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        except (exceptions.BaseError, OSError) as error:
            raise self._error_of(error) from None
        return True

    async def _put_whole(self, key: str, content: bytes) -> None:
        try:
            await obstore.put_async(self._store, key, content, use_multipart=False)
        except (exceptions.BaseError, OSError) as error:
            raise self._error_of(error) from None

    async def _put_stream(self, key: str, begin: bytes, pieces: AsyncIterator[bytes]) -> int:
        source = _Source(begin, pieces)
        sending = asyncio.ensure_future(
            obstore.put_async(self._store, key, source, chunk_size=PIECE_BYTES, max_concurrency=_PIECES_AT_ONCE)
        )
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            source.interrupt()  # a failing source makes the client abort the upload
            await asyncio.gather(sending, return_exceptions=True)
            raise
        except (exceptions.BaseError, OSError) as error:
            if source.failed is not None:
                raise source.failed from None  # the source's own error, not the client's version of it
            raise self._error_of(error) from None
        return source.size

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        check_key(key)
        if length == 0:
            await self.head(key)
            return
        options: dict[str, Any] = {}
        if length is not None:
            options["range"] = (start, start + length)
        elif start:
            options["range"] = {"offset": start}
        try:
            answer = await obstore.get_async(self._store, key, options=options or None)  # type: ignore[arg-type]
            async for piece in answer.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)
        except (exceptions.BaseError, OSError) as error:
            if start and not isinstance(error, FileNotFoundError) and (await self.head(key)).size_bytes <= start:
                return
            raise self._error_of(error, key) from None

    async def head(self, key: str) -> Blob:
        check_key(key)
        try:
            meta = await obstore.head_async(self._store, key)
        except (exceptions.BaseError, OSError) as error:
            raise self._error_of(error, key) from None
        return Blob(key, meta["size"], meta["last_modified"])

    async def under(self, prefix: str = "") -> AsyncGenerator[Blob, None]:
        if prefix:
            check_key(prefix)
        try:
            async for batch in obstore.list(self._store, f"{prefix}/" if prefix else None):
                for meta in batch:
                    yield Blob(meta["path"], meta["size"], meta["last_modified"])
        except (exceptions.BaseError, OSError) as error:
            raise self._error_of(error) from None

    async def delete(self, *keys: str) -> None:
        for begin in range(0, len(keys), _DELETED_AT_ONCE):
            batch = [check_key(key) for key in keys[begin : begin + _DELETED_AT_ONCE]]
            try:
                await obstore.delete_async(self._store, batch)
            except (exceptions.BaseError, OSError):
                # Either one blob was missing, or none can be deleted.
                await asyncio.gather(*(self._delete_one(key) for key in batch))

    async def _delete_one(self, key: str) -> None:
        try:
            await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            return
        except (exceptions.BaseError, OSError) as error:
            raise self._error_of(error) from None

    def _error_of(self, error: Exception, key: str = "") -> KajitoriError:
        text = str(error)
        code = found.group(1) if (found := _CLOUD_CODE.search(text)) else ""
        status = int(next(filter(None, found.groups()))) if (found := _HTTP_STATUS.search(text)) else 0
        if status in _FULL or code in _FULL_CODES:
            return store_full(self.where)
        if key and code not in _NO_BUCKET and isinstance(error, FileNotFoundError):
            return no_such_blob(key, self.where)
        if code in _NO_BUCKET or isinstance(error, FileNotFoundError):
            return Unavailable(f"there is no {self.where}", hint="create it first", code="NoBucket")
        if _ASKED_FOR_CREDENTIALS.search(text):
            hint = "the platform's operators have to give this server some, in its environment or by an identity"
            return Unavailable(f"there are no credentials for {self.where}", hint=hint)
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
            hint = "the platform's operators have to give this server valid credentials and rights for it"
            return Unavailable(f"{self.where} refuses this server{_failure_details(status, code)}", hint=hint)
        if "Timeout" in text or "timed out" in text:
            return Unavailable(f"{self.where} does not answer in time{_failure_details(status, code)}")
        if not status:
            return Unavailable(f"{self.where} can't be reached", hint="check the endpoint and the network")
        return Unavailable(f"{self.where} does not work{_failure_details(status, code)}")


class _Source:
    """The pieces of an upload, for a client that reads them in its own task."""

    def __init__(self, begin: bytes, pieces: AsyncIterator[bytes]) -> None:
        self.size = 0
        self.failed: Exception | None = None
        self._begin = begin
        self._pieces = pieces
        self._step: asyncio.Future[bytes] | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """Make the next read fail."""
        self._interrupted = True
        if self._step is not None:
            self._step.cancel()

    def __aiter__(self) -> _Source:
        return self

    async def __anext__(self) -> bytes:
        if self._interrupted:
            raise InterruptedError
        if self._begin:
            piece, self._begin = self._begin, b""
        else:
            self._step = asyncio.ensure_future(anext(self._pieces))
            try:
                piece = await self._step
            except StopAsyncIteration:
                raise
            except asyncio.CancelledError:
                raise InterruptedError from None
            except Exception as error:
                self.failed = error
                raise
        self.size += len(piece)
        return piece


def _failure_details(status: int, code: str) -> str:
    details = ", ".join(filter(None, (f"HTTP {status}" if status else "", code)))
    return f" ({details})" if details else ""


async def _read_at_least(pieces: AsyncIterator[bytes], size: int) -> bytes:
    """Return the first bytes, at least `size` of them unless there are fewer."""
    begin = bytearray()
    while len(begin) < size:
        try:
            begin += await anext(pieces)
        except StopAsyncIteration:
            break
    return bytes(begin)


def _without_values(error: Exception, options: Mapping[str, str]) -> str:
    """Return a client's message about its settings, without their values."""
    text = str(error).partition("\n")[0].rpartition("error: ")[2]
    for value in sorted(options.values(), key=len, reverse=True):
        if value:
            text = text.replace(value, "…")
    return text[:200]
