"""Open the store of blobs that a URL names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kajitori.blobs.blobs import Blobs, is_path
from kajitori.blobs.folder import open_folder
from kajitori.errors import Fault, InvalidInput

_CLOUDS = ("s3", "az", "gs")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{2,221}", re.ASCII)
"""The names of buckets and containers in all clouds: capitals and '_' occur in old ones."""


async def open_blobs(url: str, options: Mapping[str, str] | None = None, *, field: str = "blobs") -> Blobs:
    """The store at a URL: `file:///folder`, `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix`.

    `options` are the settings of the S3, Azure or Google client in object_store's words (`endpoint`, `region`,
    `access_key_id`, `account_name`, …); what they leave open is taken from the environment, as those clouds' own tools
    do. A folder is made if it is missing, and what a crashed writer left in it is removed. `field` is how messages name
    the setting. Raises InvalidInput with every fault at once, Unavailable where a folder can't be used.
    """
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
        raise InvalidInput.one(place, "names no kind of store", value=parts.scheme[:80], hint=hint)
    if "@" in parts.netloc or parts.query or parts.fragment:
        hint = "credentials and settings stand in the environment" + (
            "" if field.startswith("--") else f" or in {field}.options"
        )
        faults.append(Fault(place, "has more than a place and a path", shown, hint))
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
    from kajitori.blobs.cloud import open_objects  # obstore, for which only a cloud's store has use

    return open_objects(parts.scheme, parts.netloc, prefix, options, field=field)
