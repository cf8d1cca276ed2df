"""Fetch the run's code and files in the first step of a member."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http.client import HTTPResponse
from pathlib import Path

from kajitori.codepack.parts import ARCHIVE_BYTES, decompressed
from kajitori.codepack.unpacking import unpack
from kajitori.core.naming import first_step
from kajitori.errors import KajitoriError
from kajitori.member.server import ANSWER_SECONDS, Failure, Server, problem_text, retry_after

_PIECE_BYTES = 1 << 18


def fetch(
    server: Server,
    rank: int,
    digest: str,
    target: str,
    seconds: float,
    owner: tuple[int, int] | None = None,
    what: str = "code",
) -> int:
    """Unpack the run's code, or its `files`, as the folder `target`, owned by `owner`; return the number of its files.

    A broken connection is retried from the beginning. Raises Failure.
    """

    def ask(left: float) -> int:
        connection, response = server.open(f"/v1/members/{what}?rank={rank}", min(ANSWER_SECONDS, left))
        try:
            if response.status == 404:
                raise Failure(first_step.NO_CODE, f"the run's {what} is not there: {problem_text(response.read())}")
            if response.status != 200:
                raise server.refusal(response.status, response.read(), retry_after(response), seconds)
            size = int(response.headers[ARCHIVE_BYTES])
            archive = decompressed(_pieces(response))
            return unpack(archive, Path(target), digest=digest, size_bytes=size, owner=owner).files
        except KajitoriError as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise Failure(
                first_step.NO_CODE, f"the run's {what} could not be unpacked: {error.message}{hint}"
            ) from error
        finally:
            connection.close()

    return server.persist(ask, seconds)


def fetch_files(
    server: Server,
    rank: int,
    digest: str,
    modes: Sequence[str],
    target: str,
    seconds: float,
    owner: tuple[int, int] | None = None,
) -> int:
    """Unpack the run's files as the folder `target`, each with its permissions, and return their number. Raises
    Failure, and OSError."""
    count = fetch(server, rank, digest, target, seconds, owner, "files")
    for index, mode in enumerate(modes):
        Path(target, first_step.file_name(index)).chmod(int(mode, 8) & 0o777)
    return count


def _pieces(response: HTTPResponse) -> Iterator[bytes]:
    while piece := response.read(_PIECE_BYTES):
        yield piece
