"""Reports the node's totals to a Web API at intervals: one small request with all of them each time."""

from __future__ import annotations

import http.client
import logging
import random
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from kajitori.agent.counting import Counting
from kajitori.agent.servers import Servers
from kajitori.core.traffic.report import PATH, Report, report_of

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 20.0
_encode = msgspec.json.Encoder().encode


class Reporting:
    """Sends reports in a thread of its own, from `start` to `stop`. A failed report is made up for by the next one."""

    def __init__(
        self,
        servers: Servers,
        node: str,
        counting: Counting,
        every_seconds: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._servers = servers
        self._node = node
        self._counting = counting
        self._every_seconds = every_seconds
        self._chance = chance
        self._failed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send a last report if needed, and wait for the thread."""
        self._stop.set()
        self._thread.join()

    def send(self) -> None:
        """Send one report. Raises OSError or HTTPException if no server accepted it."""
        health = self._counting.health
        read_at = health.read_at  # before the ledger, which may become newer meanwhile
        report = report_of(self._counting.ledger, read_at, health.uncounted_pods, health.counters_lost)
        self._send(random.choice(self._servers.urls), report)
        health.reported_at = read_at

    def _run(self) -> None:
        # A random pause keeps agents that start together from reporting together.
        pause = self._chance() * self._every_seconds()
        while not self._stop.wait(pause):
            self._try()
            pause = self._every_seconds() * (0.75 + self._chance() / 2)
        if time.time() - self._counting.health.reported_at > 1:
            self._try()

    def _try(self) -> None:
        try:
            self.send()
        except (OSError, http.client.HTTPException) as error:
            level = logging.INFO if self._failed else logging.WARNING
            log.log(level, "totals were not reported; the next report has them: %s", error)
            self._failed = True
        else:
            if self._failed:
                log.warning("totals are reported again")
            self._failed = False

    def _send(self, url: str, report: Report) -> None:
        connection = self._servers.connection(url, TIMEOUT_SECONDS)
        try:
            path = PATH.format(node=quote(self._node, safe=""))
            self._servers.ask(connection, url, "POST", path, _encode(report), http.HTTPStatus.NO_CONTENT)
        finally:
            connection.close()
