"""Requests to the Web API, which are retried until it answers or the time is over."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import zlib
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from kajitori.core.naming import first_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

ANSWER_SECONDS = 40.0
"""Timeout of a request. The server answers a long poll after at most 25 s."""

FIRST_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 8.0

_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_GZIP = 16 + zlib.MAX_WBITS
_MESSAGE_LENGTH = 500
"""Characters of a response that a message repeats."""


class Failure(Exception):
    """The first step failed; `exit_code` is one of its reasons in `first_step`."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Later(Exception):
    """The request is to be retried; `failure` is raised if there is no time left."""

    def __init__(self, failure: Failure, at_least_seconds: float = 0.0, *, is_progress: bool = False) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.at_least_seconds = at_least_seconds
        self.is_progress = is_progress


class Server:
    """The Web API for a member with a ticket."""

    def __init__(
        self,
        url: str,
        ticket: str,
        *,
        ca: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`ca` is the only trusted CA of an https server, as PEM; empty trusts the image's CAs."""
        self._url = url
        self._ca = ca
        self._ticket = ticket
        self._clock = clock
        self._sleep = sleep

    def addresses(self, members: int, seconds: float) -> list[str]:
        """Return the addresses of all members by rank. Raises Failure if they are not available within `seconds`."""

        def ask(left: float) -> list[str]:
            status, at_least, body = self._get("/v1/members/hosts", min(ANSWER_SECONDS, left))
            if status == 200:
                return _addresses_in(body, members)
            if status == 202:
                raise Later(self._missing_peers(body, seconds), at_least, is_progress=True)
            raise self.refusal(status, body, at_least, seconds)

        return self.persist(ask, seconds)

    def document(self, path: str, names: Sequence[str], seconds: float) -> dict[str, str]:
        """Return the texts with these names in the server's response. Raises Failure if it has none in time."""

        def ask(left: float) -> dict[str, str]:
            status, at_least, body = self._get(path, min(ANSWER_SECONDS, left))
            if status != 200:
                raise self.refusal(status, body, at_least, seconds)
            found = json.loads(body)
            if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in names):
                raise ValueError(f"the response lacks {', '.join(names)}")
            return {name: found[name] for name in names}

        return self.persist(ask, seconds)

    def persist(self, ask: Callable[[float], T], seconds: float) -> T:
        """Return the result of `ask`, which is retried if it raises Later or the server does not answer.

        `ask` gets the remaining seconds. Raises Failure: at once for a final refusal, otherwise after `seconds`.
        """
        deadline = self._clock() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            at_least = 0.0
            try:
                return ask(deadline - self._clock())
            except Later as later:
                failure, at_least = later.failure, later.at_least_seconds
                pause = FIRST_PAUSE_SECONDS if later.is_progress else pause
            except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
                failure = self._unreachable_failure(str(error) or type(error).__name__, seconds)
            wait = max(at_least, pause * (0.5 + os.urandom(1)[0] / 512))
            if self._clock() + wait >= deadline:
                raise failure
            self._sleep(wait)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def open(self, path: str, seconds: float) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and return its connection, which the caller closes, and the response."""
        url = urlsplit(self._url)
        connection = self._new_connection(url.scheme, url.hostname or "", url.port, max(1.0, seconds))
        headers = {"Authorization": f"Bearer {self._ticket}", "Accept-Encoding": "gzip"}
        try:
            connection.request("GET", url.path + path, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _new_connection(self, scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        trust = ssl.create_default_context(cadata=self._ca or None)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=trust)

    def refusal(self, status: int, body: bytes, at_least_seconds: float, seconds: float) -> Exception:
        """Return the error for an unsuccessful response: Later if a retry may help, else Failure."""
        if status in _TRY_AGAIN:
            return Later(self._unreachable_failure(f"HTTP {status}: {problem_text(body)}", seconds), at_least_seconds)
        return Failure(first_step.REFUSED, f"the Web API at {self._url} refused: {problem_text(body)}")

    def _get(self, path: str, seconds: float) -> tuple[int, float, bytes]:
        """Return status, requested pause in seconds, and body."""
        connection, response = self.open(path, seconds)
        try:
            body = response.read()
        finally:
            connection.close()
        if response.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, _GZIP)
        return response.status, retry_after(response), body

    def _unreachable_failure(self, why: str, seconds: float) -> Failure:
        message = f"the Web API at {self._url} could not be reached within {seconds:.0f} s: {why}"
        return Failure(first_step.NO_SERVER, message)

    def _missing_peers(self, body: bytes, seconds: float) -> Failure:
        found = json.loads(body)
        total, missing = found["total"], found["missing"]
        count = total - found["known"]
        more = f" and {count - len(missing)} more" if count > len(missing) else ""
        message = f"after {seconds:.0f} s {count} of {total} members have no address: {', '.join(missing)}{more}"
        return Failure(first_step.NO_PEERS, message)


def retry_after(response: http.client.HTTPResponse) -> float:
    """Return the pause in seconds that a response asks for."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_PAUSE_SECONDS) if text.isdecimal() else 0.0


def _addresses_in(body: bytes, members: int) -> list[str]:
    """Return the addresses in a response. Raises ValueError if it has something else."""
    document = json.loads(body)
    addresses = document.get("addresses") if isinstance(document, dict) else None
    if not isinstance(addresses, list) or len(addresses) != members or not all(addresses):
        raise ValueError(f"the response is not a list of {members} addresses")
    return [str(address) for address in addresses]


def problem_text(body: bytes) -> str:
    """Return code and detail of a problem document, or the text of another body."""
    try:
        problem = json.loads(body)
        return f"{problem['code']}: {problem['detail']}"
    except (ValueError, TypeError, KeyError):
        return body.decode(errors="replace").strip()[:_MESSAGE_LENGTH] or "nothing"
