"""Reports minutes to a Web API, and waits there for questions about this node's members.

One connection is used for both, and only the agent makes connections, so that a node may be behind any NAT.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.watch import Watch
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.core.telemetry.report import (
    ANSWER_PATH,
    HOLD,
    MAX_HOLD_SECONDS,
    MEDIA_TYPE,
    PATH,
    QUESTIONS_PATH,
    Question,
    SavedCheckpoint,
    decode_questions,
    encode,
    hold_seconds,
)

log = logging.getLogger(__name__)

FIRST_SECONDS, LAST_SECONDS = 2.0, 32.0
"""Range of the time after the end of a minute at which an agent reports it. Each agent has a fixed time of its own: if
all reported together, a busy server would answer users late."""
PATIENCE_SECONDS = 20.0
"""Longest wait for an answer beyond the time for which the server may hold it."""
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
"""Limits of the pause after a failure. It doubles with each one and is random, to spread the nodes."""


class TelemetryReporting:
    """Reports and answers in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        servers: Servers,
        node: str,
        watch: Watch,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._servers = servers
        self._node = quote(node, safe="")
        self._watch = watch
        self._clock = clock
        self._chance = chance
        self._offset = FIRST_SECONDS + (LAST_SECONDS - FIRST_SECONDS) * chance()
        self._reported = 0
        """The last minute that a server accepted."""
        self._told: frozenset[SavedCheckpoint] = frozenset()
        """Checkpoints of the last report."""
        self._stop = threading.Event()
        self._url = ""
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="telemetry reports", daemon=True)
        self.reported_at = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the connection and wait for the thread."""
        self._stop.set()
        connection = self._connection
        if connection is not None and (open_now := connection.sock) is not None:
            with contextlib.suppress(OSError):  # it was closed meanwhile
                open_now.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self.turn()
                if failures:
                    log.info("telemetry is reported again")
                failures = 0
            except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
                self._close()
                if self._stop.is_set():
                    return
                level = logging.WARNING if failures == 0 else logging.DEBUG
                log.log(level, "telemetry was not reported; it is tried again: %s", error)
                failures += 1
                longest = min(MAX_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(failures, 10))
                self._stop.wait((0.5 + self._chance() / 2) * longest)
        self._close()

    def turn(self) -> None:
        """Report if a minute is due, or a checkpoint is new; then wait for questions until the next report is due, and
        answer them.

        Raises OSError, HTTPException or MsgspecError.
        """
        now = self._clock()
        minute = int((now - self._offset) // MINUTE_SECONDS) - 1
        # Twice, in two reports that may reach two servers: what one of them loses, the other one has.
        report = self._watch.report((minute - 1, minute) if minute > self._reported else ())
        if report.minutes or not self._told.issuperset(report.saved):  # a node that is lost takes checkpoints along
            self._ask("POST", PATH.format(node=self._node), encode(report), http.HTTPStatus.NO_CONTENT)
        self._told = frozenset(report.saved)
        if minute > self._reported:
            self._reported, self.reported_at = minute, now
        due = (minute + 2) * MINUTE_SECONDS + self._offset
        hold = hold_seconds(due - self._clock())
        path = f"{QUESTIONS_PATH.format(node=self._node)}?{HOLD}={hold}"
        for question in decode_questions(self._ask("GET", path)):
            self._answer(question)

    def _answer(self, question: Question) -> None:
        path = ANSWER_PATH.format(node=self._node, question=quote(question.id, safe=""))
        with contextlib.suppress(_Refused):  # the question has expired
            self._ask("POST", path, encode(self._watch.answer(question)), http.HTTPStatus.NO_CONTENT)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, expected: http.HTTPStatus = http.HTTPStatus.OK
    ) -> bytes:
        if self._connection is None:
            self._url = random.choice(self._servers.urls)
            self._connection = self._servers.connection(self._url, MAX_HOLD_SECONDS + PATIENCE_SECONDS)
        try:
            answer = self._servers.ask(self._connection, self._url, method, path, body, expected, MEDIA_TYPE)
        except http.client.HTTPException as error:
            self._close()  # the rest of the answer was not read
            raise _Refused(str(error)) from error
        return answer.read()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Refused(http.client.HTTPException):
    """The server refused a request."""
