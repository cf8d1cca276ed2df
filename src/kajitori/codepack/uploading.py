"""The requests of an upload, without a connection.

`upload` is a generator of requests that receives the responses; callers with a blocking or an asynchronous connection
drive it. If the connection breaks, a new upload continues where the old one stopped: the server knows which parts it
has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from kajitori.codepack.packing import Pack, too_large
from kajitori.codepack.parts import MEDIA_TYPE, compress
from kajitori.errors import Conflict

ROUNDS = 3
"""Attempts to send missing parts before the upload is given up."""


class Ask(NamedTuple):
    """A request to the Web API."""

    method: str
    path: str
    params: Mapping[str, str]
    body: bytes = b""
    media_type: str = ""
    expects: tuple[int, ...] = ()
    """Error statuses that the upload handles. The caller raises all others."""


class Reply(NamedTuple):
    """A response of the Web API."""

    status: int
    body: bytes


class Uploaded(NamedTuple):
    """Figures of an upload; zero if the code was there already."""

    parts: int
    size_bytes: int
    """Number of bytes sent, compressed."""


def upload(
    pack: Pack, namespace: str = "", *, progress: Callable[[int], None] | None = None
) -> Generator[Ask, Reply, Uploaded]:
    """Upload an archive for runs of a namespace (empty: the server's default).

    `progress` is called with the number of bytes of the archive that are on the server. Raises TooLarge for more
    than the server accepts, with the largest files; Conflict if a file was edited since it was packed.
    """
    place = f"/v1/code/{pack.digest}"
    params = {"namespace": namespace} if namespace else {}
    reply = yield Ask("GET", place, params, expects=(404,))
    if reply.status == 200:
        return Uploaded(0, 0)
    sent = size = 0
    for _ in range(ROUNDS):
        sums = []
        reply = yield Ask("GET", f"{place}/parts", params)
        state = _reply_document(reply)
        if pack.size_bytes > state["maxBytes"]:
            raise too_large(pack.listing, state["maxBytes"])
        there = {(item["number"], sha256) for item in state["items"] for sha256 in item["sha256"]}
        done = 0
        for number in range(pack.parts):
            part = pack.part(number)
            sums.append(hashlib.sha256(part).hexdigest())
            if (number, sums[-1]) not in there:
                frame = compress(part)
                asked = {**params, "sha256": sums[-1]}
                yield Ask("PUT", f"{place}/parts/{number}", asked, frame, MEDIA_TYPE)
                sent, size = sent + 1, size + len(frame)
            done += len(part)
            if progress is not None:
                progress(done)
        whole = json.dumps({"parts": sums, "size": pack.size_bytes}).encode()
        reply = yield Ask("POST", f"{place}/complete", params, whole, "application/json", expects=(409,))
        if reply.status == 200:
            return Uploaded(sent, size)
    raise Conflict(
        f"the server loses parts of {pack.digest}: {_reply_document(reply).get('detail', '')}", hint="try again"
    )


def _reply_document(reply: Reply) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(reply.body)
    return document
