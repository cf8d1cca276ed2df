"""Reports the samples of each minute to a Web API, and answers its questions about this node's members.

One connection serves both: a request for questions waits at the server until there is one. Only the agent opens
connections, so a node may be behind NAT.
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
from kajitori.agent.telemetry.samples import MemberSamples
from kajitori.core.backoff import backoff_seconds
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

MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 2.0, 32.0
"""Range of the delay between the end of a minute and its report. Each agent has a fixed delay of its own, because a
server that gets all reports at once would answer users late."""
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
        samples: MemberSamples,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._servers = servers
        self._node = quote(node, safe="")
        self._samples = samples
        self._clock = clock
        self._chance = chance
        self._offset = MIN_DELAY_SECONDS + (MAX_DELAY_SECONDS - MIN_DELAY_SECONDS) * chance()
        self._reported = 0
        """The last minute that a server accepted."""
        self._reported_checkpoints: frozenset[SavedCheckpoint] = frozenset()
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
                self.report_and_answer()
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
                longest = backoff_seconds(failures + 1, PAUSE_SECONDS, MAX_PAUSE_SECONDS)
                self._stop.wait((0.5 + self._chance() / 2) * longest)
        self._close()

    def report_and_answer(self) -> None:
        """Report if a minute is due or a checkpoint is new. Then answer questions until the next report is due.

        Raises OSError, HTTPException or MsgspecError.
        """
        now = self._clock()
        minute = int((now - self._offset) // MINUTE_SECONDS) - 1
        # Each minute is in two reports, which may reach two servers: if one server loses a report, the other one has
        # it.
        report = self._samples.report((minute - 1, minute) if minute > self._reported else ())
        has_new_checkpoints = not self._reported_checkpoints.issuperset(report.saved)
        if report.minutes or report.node or has_new_checkpoints:  # at once: the node may be lost before the minute ends
            self._ask("POST", PATH.format(node=self._node), encode(report), http.HTTPStatus.NO_CONTENT)
        self._reported_checkpoints = frozenset(report.saved)
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
            self._ask("POST", path, encode(self._samples.answer(question)), http.HTTPStatus.NO_CONTENT)

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
