"""Asking the Web API until it answers, or until it is too late."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import zlib
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from kajitori.core.words import first_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

ANSWER_SECONDS = 40.0
"""The server answers a long poll after 25 s at the latest; who is silent for longer is away."""

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0

_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_GZIP = 16 + zlib.MAX_WBITS
_QUOTED = 500
"""Characters of an answer that are repeated in a message."""


class Failure(Exception):
    """The first step cannot be done; `exit_code` says which of its reasons it is."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Later(Exception):
    """Not now: asked again, and the failure where it was for the last time."""

    def __init__(self, failure: Failure, at_least_seconds: float = 0.0, *, is_progress: bool = False) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.at_least_seconds = at_least_seconds
        self.is_progress = is_progress


class Server:
    """The Web API, as a member with a ticket sees it."""

    def __init__(
        self,
        url: str,
        ticket: str,
        *,
        ca: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`ca`: who alone vouches for an https server, as PEM; else those that the image trusts."""
        self._url = url
        self._ca = ca
        self._ticket = ticket
        self._clock = clock
        self._sleep = sleep

    def addresses(self, members: int, seconds: float) -> list[str]:
        """The addresses of all members, by rank. Raises Failure where they are not to be had within `seconds`."""

        def ask(left: float) -> list[str]:
            status, at_least, body = self._get("/v1/members/hosts", min(ANSWER_SECONDS, left))
            if status == 200:
                return _addresses_in(body, members)
            if status == 202:
                raise Later(self._missing(body, seconds), at_least, is_progress=True)
            raise self.refusal(status, body, at_least, seconds)

        return self.persist(ask, seconds)

    def document(self, path: str, names: Sequence[str], seconds: float) -> dict[str, str]:
        """The texts of these names that the server answers. Raises Failure where they are not to be had in time."""

        def ask(left: float) -> dict[str, str]:
            status, at_least, body = self._get(path, min(ANSWER_SECONDS, left))
            if status != 200:
                raise self.refusal(status, body, at_least, seconds)
            said = json.loads(body)
            if not isinstance(said, dict) or not all(isinstance(said.get(name), str) for name in names):
                raise ValueError(f"the answer does not say {', '.join(names)}")
            return {name: said[name] for name in names}

        return self.persist(ask, seconds)

    def persist(self, ask: Callable[[float], T], seconds: float) -> T:
        """What `ask` (told how many seconds are left) gives; asked again where it raises Later, or the server is away.

        Raises Failure: at once where it is final, else after `seconds`.
        """
        deadline = self._clock() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            at_least = 0.0
            try:
                return ask(deadline - self._clock())
            except Later as later:
                late, at_least = later.failure, later.at_least_seconds
                pause = FIRST_PAUSE_SECONDS if later.is_progress else pause
            except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
                late = self._away(str(error) or type(error).__name__, seconds)
            wait = max(at_least, pause * (0.5 + os.urandom(1)[0] / 512))
            if self._clock() + wait >= deadline:
                raise late
            self._sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def open(self, path: str, seconds: float) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A connection with the beginning of an answer; whoever asked closes it."""
        url = urlsplit(self._url)
        connection = self._connection(url.scheme, url.hostname or "", url.port, max(1.0, seconds))
        headers = {"Authorization": f"Bearer {self._ticket}", "Accept-Encoding": "gzip"}
        try:
            connection.request("GET", url.path + path, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _connection(self, scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        trust = ssl.create_default_context(cadata=self._ca or None)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=trust)

    def refusal(self, status: int, body: bytes, at_least_seconds: float, seconds: float) -> Exception:
        """What to raise for an answer that is no success: Later where it may pass, else Failure."""
        if status in _TRY_AGAIN:
            return Later(self._away(f"HTTP {status}: {said(body)}", seconds), at_least_seconds)
        return Failure(first_step.REFUSED, f"the Web API at {self._url} refused: {said(body)}")

    def _get(self, path: str, seconds: float) -> tuple[int, float, bytes]:
        """Status, the pause in seconds that the server asks for, and body."""
        connection, answer = self.open(path, seconds)
        try:
            body = answer.read()
        finally:
            connection.close()
        if answer.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, _GZIP)
        return answer.status, asked_pause(answer), body

    def _away(self, why: str, seconds: float) -> Failure:
        message = f"the Web API at {self._url} was not to be reached within {seconds:.0f} s: {why}"
        return Failure(first_step.NO_SERVER, message)

    def _missing(self, body: bytes, seconds: float) -> Failure:
        said = json.loads(body)
        count, named = said["total"] - said["known"], said["missing"]
        more = f" and {count - len(named)} more" if count > len(named) else ""
        message = f"after {seconds:.0f} s {count} of {said['total']} members have no address: {', '.join(named)}{more}"
        return Failure(first_step.NO_PEERS, message)


def asked_pause(answer: http.client.HTTPResponse) -> float:
    """The seconds to wait that an answer asks for."""
    asked = answer.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE_SECONDS) if asked.isdecimal() else 0.0


def _addresses_in(body: bytes, members: int) -> list[str]:
    """Raises ValueError where it is something else."""
    document = json.loads(body)
    addresses = document.get("addresses") if isinstance(document, dict) else None
    if not isinstance(addresses, list) or len(addresses) != members or not all(addresses):
        raise ValueError(f"the answer is no list of {members} addresses")
    return [str(address) for address in addresses]


def said(body: bytes) -> str:
    """What a problem document says; the text itself where it is none."""
    try:
        problem = json.loads(body)
        return f"{problem['code']}: {problem['detail']}"
    except (ValueError, TypeError, KeyError):
        return body.decode(errors="replace").strip()[:_QUOTED] or "nothing"
