"""The sending process with real servers of SMTP and HTTP on loopback."""

from __future__ import annotations

import asyncio
import email
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiosmtpd.smtp import SMTP

from kajitori.controllers.messages.sending_process import SendingProcess
from kajitori.messages.guard import Rules
from kajitori.messages.sender import Delivery
from kajitori.messages.webhook import new_key, signed_headers

KEY = new_key()


@dataclass
class Receivers:
    """Servers that keep what they get."""

    http: int = 0
    smtp: int = 0
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(envelope.content.decode())
        return "250 OK"

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/elsewhere":
            raise web.HTTPFound("/taken")
        self.requests.append(request)
        self.bodies.append(await request.read())
        return web.Response(status=500 if request.path == "/broken" else 200)


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    found = Receivers()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.http = runner.addresses[0][1]
    mail = await asyncio.get_running_loop().create_server(lambda: SMTP(found, hostname="localhost"), "127.0.0.1", 0)
    found.smtp = mail.sockets[0].getsockname()[1]
    yield found
    mail.close()
    await runner.cleanup()


def delivery(url: str, key: str = "") -> Delivery:
    return Delivery(
        number=0, id="u.failed.1", url=url, key=key, kind="failed", title="vision/bert has failed", body="boom"
    )


async def test_messages_arrive_and_refusals_say_why(receivers: Receivers) -> None:
    """One process sends them all. No error contains a token of a URL."""
    rules = Rules(schemes=("json", "mailto", "http", "webhook", "syslog"), networks=("127.0.0.1/32",))
    sending_process = SendingProcess(lambda: rules)
    here = f"127.0.0.1:{receivers.http}"
    deliveries = {
        "json": delivery(f"json://{here}/s3cr3t-token"),
        "mail": delivery(f"mailto://127.0.0.1:{receivers.smtp}?from=kaji@example.org&to=ada@example.org"),
        "webhook": delivery(f"http://{here}/hook", KEY),
        "broken": delivery(f"http://{here}/broken", KEY),
        "redirected": delivery(f"http://{here}/elsewhere", KEY),
        "not allowed": delivery("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"),
        "nonsense": delivery("nonsense://s3cr3t-token"),
        "on this machine": delivery("syslog://"),
        "inside": delivery("http://127.0.0.2:1/s3cr3t-token", KEY),
    }
    try:
        receipts = dict(
            zip(deliveries, await asyncio.gather(*map(sending_process.send, deliveries.values())), strict=True)
        )
    finally:
        await sending_process.close()
    errors = {name: (receipt.error, receipt.for_good) for name, receipt in receipts.items()}
    assert errors == {
        "json": ("", False),
        "mail": ("", False),
        "webhook": ("", False),
        "broken": ("the receiver answered 500", False),
        "redirected": ("the receiver answered 302", False),
        "not allowed": ("the policy's notifications.schemes does not allow slack", True),
        "nonsense": ("the URL names no known service, or lacks a part", True),
        "on this machine": ("syslog.openlog is not allowed", True),
        "inside": ("the policy's notifications.networks does not allow the address 127.0.0.2", True),
    }
    (mail,) = receivers.mails
    assert email.message_from_string(mail)["Subject"] == "vision/bert has failed"
    request, body = next(
        pair for pair in zip(receivers.requests, receivers.bodies, strict=True) if pair[0].path == "/hook"
    )
    headers = request.headers
    now = float(headers["webhook-timestamp"])
    assert (
        signed_headers(KEY, headers["webhook-id"], body, now).items()
        <= {k.lower(): v for k, v in headers.items()}.items()
    )
    assert json.loads(body)["title"] == "vision/bert has failed" and headers["webhook-id"] == "u.failed.1"


TELLS_ITS_RULES = """
import json, sys
rules = json.loads(sys.stdin.readline())
for line in sys.stdin:
    print(json.dumps({"number": json.loads(line)["number"], "error": rules["hosts"][0]}), flush=True)
"""


async def test_new_rules_hold_for_the_next_message() -> None:
    """A process gets its rules at its start, so another one is started."""
    rules = [Rules(hosts=("old",))]
    sending_process = SendingProcess(lambda: rules[0], (sys.executable, "-I", "-S", "-c", TELLS_ITS_RULES))
    errors = [(await sending_process.send(delivery("json://example.org"))).error]
    rules[0] = Rules(hosts=("new",))
    errors.append((await sending_process.send(delivery("json://example.org"))).error)
    await sending_process.close()
    assert errors == ["old", "new"]


async def test_a_process_that_ends_or_does_not_start_is_an_error_to_try_again() -> None:
    for command in (("/bin/false",), ("/nonexistent/program",)):
        sending_process = SendingProcess(Rules, command)
        receipt = await sending_process.send(delivery("json://example.org"))
        await sending_process.close()
        assert "the sending process" in receipt.error and not receipt.for_good
