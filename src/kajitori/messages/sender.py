"""The sending process: reads requests from its standard input, sends them with apprise, and answers on its output.

It gets neither environment variables nor credentials of the controller; a proxy comes with the policy's rules. URLs
come in through a pipe, so they are in no list of processes; what services write to logs is discarded, because it may
contain URLs.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, cast

import msgspec

from kajitori.core.messages.channels import redacted
from kajitori.messages.guard import AUTHORITIES, Guard, Rules
from kajitori.messages.proxy import announce_connections
from kajitori.messages.webhook import signed_headers

THREADS = 4
TIMEOUT_SECONDS = 15.0
"""Time limit of one connection of a service."""
_ERROR_LIMIT = 300


class Delivery(msgspec.Struct, kw_only=True):
    """One request to send."""

    number: int
    id: str
    """Identifier that is the same for every try, so that the receiver can recognise a repetition."""
    url: str
    key: str = ""
    kind: str
    title: str
    body: str
    namespace: str = ""
    run: str = ""


class Receipt(msgspec.Struct, kw_only=True):
    """The outcome of a delivery."""

    number: int
    error: str = ""
    """Why it was not delivered; empty if it was. It contains nothing of the URL."""
    for_good: bool = False
    """Whether another try would fail as well."""


class _Notes(logging.Handler):
    """Keeps the last warning of each thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        self._last.text = record.getMessage()

    def take(self) -> str:
        """Return the last warning of this thread, once."""
        text: str = getattr(self._last, "text", "")
        self._last.text = ""
        return text


class Sender:
    """Sends deliveries, each in a thread."""

    def __init__(self, rules: Rules, guard: Guard) -> None:
        import apprise
        from apprise.plugins import N_MGR

        self._rules, self._guard = rules, guard
        self._apprise = apprise
        self._asset = apprise.AppriseAsset(async_mode=False, app_id="Kajitori", app_desc="", app_url="")
        cast(Any, N_MGR).load_modules()  # files of the library are read before the guard begins
        self._encrypting = {
            scheme
            for plugin in cast(Any, N_MGR).plugins(include_disabled=False)
            for scheme in _as_tuple(plugin.secure_protocol)
        }
        self._notes = _Notes()
        logger = logging.getLogger("apprise")
        logger.handlers, logger.propagate = [self._notes], False
        logger.setLevel(logging.WARNING)

    def send(self, delivery: Delivery) -> Receipt:
        """Send one delivery."""
        self._guard.take_refusal()
        self._notes.take()
        try:
            error, for_good = self._send_webhook(delivery) if delivery.key else self._send_by_apprise(delivery)
        except Exception as cause:  # a service's code may raise any error
            text = redacted(str(cause), (delivery.url, delivery.key))
            error, for_good = f"{type(cause).__name__}: {text}", False
        if refusal := self._guard.take_refusal():
            error, for_good = refusal, True
        return Receipt(number=delivery.number, error=error[:_ERROR_LIMIT], for_good=for_good)

    def _send_by_apprise(self, delivery: Delivery) -> tuple[str, bool]:
        scheme = delivery.url.partition("://")[0].lower()
        service = self._apprise.Apprise.instantiate(delivery.url, asset=self._asset, suppress_exceptions=True)
        if service is None:
            return "the URL names no known service, or lacks a part", True
        if scheme in ("http", "https"):  # a service's own URL, as users copy it
            scheme = next(iter(_as_tuple(service.secure_protocol)), scheme)
        if scheme not in (self._rules.schemes or self._encrypting):
            return f"the policy's notifications.schemes does not allow {scheme}", True
        service.socket_connect_timeout = service.socket_read_timeout = TIMEOUT_SECONDS
        colours = {
            "failed": "failure",
            "ended": "success",
            "preempted": "warning",
            "stuck": "warning",
            "idle": "warning",
            "time-limit": "warning",
        }
        sent = service.notify(body=delivery.body, title=delivery.title, notify_type=colours.get(delivery.kind, "info"))
        why = redacted(self._notes.take(), (delivery.url,)) or "the service did not take it"
        return ("" if sent else why), False

    def _send_webhook(self, delivery: Delivery) -> tuple[str, bool]:
        import requests

        scheme = delivery.url.partition("://")[0].lower()
        if self._rules.schemes and "webhook" not in self._rules.schemes:
            return "the policy's notifications.schemes does not allow webhook", True
        if scheme != "https" and not (scheme == "http" and "http" in self._rules.schemes):
            return "a webhook needs https, or http in the policy's notifications.schemes", True
        content = {"type": f"run.{delivery.kind}", "id": delivery.id, "title": delivery.title, "text": delivery.body}
        content |= {"namespace": delivery.namespace, "run": delivery.run}
        body = msgspec.json.encode(content)
        with requests.Session() as session:
            session.trust_env = False
            answer = session.post(
                delivery.url,
                proxies=requests.utils.get_environ_proxies(delivery.url),
                verify=os.environ.get(AUTHORITIES) or True,
                data=body,
                headers=signed_headers(delivery.key, delivery.id, body, time.time()),
                timeout=TIMEOUT_SECONDS,
                allow_redirects=False,
                stream=True,
            )
        if answer.ok and not answer.is_redirect:
            return "", False
        return f"the receiver answered {answer.status_code}", False


def _as_tuple(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def use_proxy(rules: Rules) -> None:
    """Have all HTTP requests of this process go through the proxy: requests, which services use, reads variables."""
    if rules.proxy:
        announce_connections()
        direct = ",".join(pattern.removeprefix("*") for pattern in rules.no_proxy)
        os.environ |= {"http_proxy": rules.proxy, "https_proxy": rules.proxy, "no_proxy": direct}


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Read the rules, then deliveries, one a line; write receipts."""
    rules = msgspec.json.decode(source.readline(), type=Rules)
    use_proxy(rules)
    guard = Guard(rules)
    sender = Sender(rules, guard)
    guard.install()
    writing = threading.Lock()

    def deliver(line: bytes) -> None:
        receipt = sender.send(msgspec.json.decode(line, type=Delivery))
        with writing:
            sink.write(msgspec.json.encode(receipt) + b"\n")
            sink.flush()

    with ThreadPoolExecutor(THREADS) as threads:
        for line in source:
            threads.submit(deliver, line)


if __name__ == "__main__":
    os.chdir("/")
    serve(sys.stdin.buffer, sys.stdout.buffer)
