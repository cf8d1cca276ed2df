"""Open the store of blobs that a URL names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

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
    faults: list[Fault] = []
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    place = field if field.startswith("--") else f"{field}.url"
    if parts.scheme not in (*_CLOUDS, "file"):
        hint = "such as file:///var/lib/kajitori/blobs, s3://bucket/prefix, az://container/prefix or gs://bucket/prefix"
        raise InvalidInput.one(place, "is not a supported kind of store", value=parts.scheme[:80], hint=hint)
    if "@" in parts.netloc or parts.query or parts.fragment:
        hint = "put credentials and settings into the environment" + (
            "" if field.startswith("--") else f" or in {field}.options"
        )
        faults.append(Fault(place, "has more parts than a host and a path", shown, hint))
    if parts.scheme == "file":
        folder = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not folder.startswith("/") or "\0" in folder:
            faults.append(Fault(place, "is not the path of a folder", shown, "write file:///var/lib/kajitori/blobs"))
        if options:
            message = "a folder takes no options"
            faults += [Fault(f"{field}.options.{name}", message, hint="leave it out") for name in sorted(options)]
        if faults:
            raise InvalidInput(faults)
        return await open_folder(Path(folder))
    prefix = parts.path.strip("/")
    what, bucket = "container" if parts.scheme == "az" else "bucket", parts.netloc.rpartition("@")[2]
    example = f"{parts.scheme}://{what}/prefix"
    if not bucket:
        faults.append(Fault(place, f"names no {what}", shown, f"write {example}"))
    elif not _BUCKET.fullmatch(bucket):
        hint = f"a {what} has 3 characters or more: letters, digits, '-', '_' and '.'; write {example}"
        faults.append(Fault(place, f"{bucket!r:.80} can't be the name of a {what}", shown, hint))
    if prefix and not is_path(prefix):
        hint = "letters, digits, '-', '_' and '.' between slashes; no part begins with a dot"
        faults.append(Fault(place, f"{prefix!r:.80} is no prefix", shown, hint))
    if faults:
        raise InvalidInput(faults)
    from kajitori.blobs.stores.cloud import open_objects  # imports obstore, which only cloud stores need

    return open_objects(parts.scheme, parts.netloc, prefix, options, field=field)
