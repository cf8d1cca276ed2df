"""The conversation of an upload, without a connection.

`upload` says what to ask, one request after the other, and is handed the answers; whoever has a connection, blocking or
not, drives it. If the connection breaks, a new conversation goes on where the old one was: the server knows what is
there.
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
"""How often what is missing is sent before it is given up."""


class Ask(NamedTuple):
    """A request to the Web API."""

    method: str
    path: str
    params: Mapping[str, str]
    body: bytes = b""
    media_type: str = ""
    expects: tuple[int, ...] = ()
    """Refusals that the conversation goes on with. Whoever sends raises the others."""


class Reply(NamedTuple):
    """What was answered."""

    status: int
    body: bytes


class Uploaded(NamedTuple):
    """What an upload took. Nothing, where the code was there already."""

    parts: int
    size_bytes: int
    """As sent: compressed."""


def upload(
    pack: Pack, namespace: str = "", *, progress: Callable[[int], None] | None = None
) -> Generator[Ask, Reply, Uploaded]:
    """Brings an archive to where runs of a namespace (empty: the server's default) find it.

    `progress` is told how many bytes of the archive are there, more and more of them. Raises TooLarge for more than the
    server takes, with the largest files; Conflict where a file was edited since it was packed.
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
        state = _document(reply)
        if pack.size_bytes > state["maxBytes"]:
            raise too_large(pack.listing, state["maxBytes"])
        there = {(each["number"], sha256) for each in state["items"] for sha256 in each["sha256"]}
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
    raise Conflict(f"the server loses parts of {pack.digest}: {_document(reply).get('detail', '')}", hint="try again")


def _document(reply: Reply) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(reply.body)
    return document
