"""Open the store of blobs that a URL names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from kajitori.blobs.stores.blobs import Blobs, is_path
from kajitori.blobs.stores.folder import open_folder
from kajitori.errors import Fault, InvalidInput

_CLOUDS = ("s3", "az", "gs")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{2,221}", re.ASCII)
"""The names of buckets and containers in all clouds. Old ones may have capitals and '_'."""


async def open_blobs(url: str, options: Mapping[str, str] | None = None, *, field: str = "blobs") -> Blobs:
    """Open the store at a URL: `file:///folder`, `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix`.

    `options` are settings of the S3, Azure or Google client with object_store's names (`endpoint`, `region`,
    `access_key_id`, `account_name`, …). The other settings come from the environment, as for those clouds' own tools. A
    missing folder is created, and files that a crashed writer left are removed. `field` is the setting's name in
    messages. Raises InvalidInput with all faults at once, Unavailable if a folder can't be used."""
    options = dict(options or {})
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    place = field if field.startswith("--") else f"{field}.url"
    if parts.scheme not in (*_CLOUDS, "file"):
        hint = "such as file:///var/lib/kajitori/blobs, s3://bucket/prefix, az://container/prefix or gs://bucket/prefix"
        raise InvalidInput.one(place, "is not a supported kind of store", value=parts.scheme[:80], hint=hint)
    faults = [*_url_faults(parts, place, field)]
    if parts.scheme == "file":
        faults += _folder_faults(parts, place, options, field)
    else:
        faults += _bucket_faults(parts, place)
    if faults:
        raise InvalidInput(faults)
    if parts.scheme == "file":
        return await open_folder(Path(unquote(parts.path)))
    from kajitori.blobs.stores.cloud import open_objects  # imports obstore, which only cloud stores need

    return open_objects(parts.scheme, parts.netloc, parts.path.strip("/"), options, field=field)


def _shown(parts: SplitResult) -> str:
    """Return the URL without credentials and settings."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _url_faults(parts: SplitResult, place: str, field: str) -> Iterator[Fault]:
    if "@" in parts.netloc or parts.query or parts.fragment:
        elsewhere = "" if field.startswith("--") else f" or in {field}.options"
        hint = f"put credentials and settings into the environment{elsewhere}"
        yield Fault(place, "has more parts than a host and a path", _shown(parts), hint)


def _folder_faults(parts: SplitResult, place: str, options: Mapping[str, str], field: str) -> Iterator[Fault]:
    folder = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not folder.startswith("/") or "\0" in folder:
        yield Fault(place, "is not the path of a folder", _shown(parts), "write file:///var/lib/kajitori/blobs")
    for name in sorted(options):
        yield Fault(f"{field}.options.{name}", "a folder takes no options", hint="leave it out")


def _bucket_faults(parts: SplitResult, place: str) -> Iterator[Fault]:
    what, bucket = "container" if parts.scheme == "az" else "bucket", parts.netloc.rpartition("@")[2]
    example = f"{parts.scheme}://{what}/prefix"
    if not bucket:
        yield Fault(place, f"names no {what}", _shown(parts), f"write {example}")
    elif not _BUCKET.fullmatch(bucket):
        hint = f"a {what} has 3 characters or more: letters, digits, '-', '_' and '.'; write {example}"
        yield Fault(place, f"{bucket!r:.80} can't be the name of a {what}", _shown(parts), hint)
    prefix = parts.path.strip("/")
    if prefix and not is_path(prefix):
        hint = "letters, digits, '-', '_' and '.' between slashes; no part begins with a dot"
        yield Fault(place, f"{prefix!r:.80} is no prefix", _shown(parts), hint)
