"""Fetching the run's code in the first step of a member."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

from kajitori.codepack.parts import ARCHIVE_BYTES, decompressed
from kajitori.codepack.unpacking import unpack
from kajitori.core.words import first_step
from kajitori.errors import KajitoriError
from kajitori.member.server import ANSWER_SECONDS, Failure, Server, asked_pause, said

_PIECE_BYTES = 1 << 18


def owner(said: str) -> tuple[int, int] | None:
    """User and group out of `uid:gid`; None where nothing was said."""
    uid, _, gid = said.partition(":")
    return (int(uid), int(gid)) if said else None


def fetch(
    server: Server, rank: int, digest: str, target: str, seconds: float, owner: tuple[int, int] | None = None
) -> int:
    """Makes the folder `target` of the run's code; answers how many files it has.

    A connection that breaks costs a new beginning, nothing else. `owner` is given everything. Raises Failure.
    """

    def ask(left: float) -> int:
        connection, answer = server.open(f"/v1/members/code?rank={rank}", min(ANSWER_SECONDS, left))
        try:
            if answer.status == 404:
                raise Failure(first_step.NO_CODE, f"the run's code is not there: {said(answer.read())}")
            if answer.status != 200:
                raise server.refusal(answer.status, answer.read(), asked_pause(answer), seconds)
            size = int(answer.headers[ARCHIVE_BYTES])
            archive = decompressed(_pieces(answer))
            return unpack(archive, Path(target), digest=digest, size_bytes=size, owner=owner).files
        except KajitoriError as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise Failure(first_step.NO_CODE, f"the run's code could not be unpacked: {error.message}{hint}") from error
        finally:
            connection.close()

    return server.persist(ask, seconds)


def _pieces(answer: HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read(_PIECE_BYTES):
        yield piece
