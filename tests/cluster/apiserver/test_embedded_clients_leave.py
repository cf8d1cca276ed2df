"""Clients of the embedded API server that disconnect in the middle of a request."""

from __future__ import annotations

import asyncio
import logging
import ssl
from urllib.parse import urlsplit

import pytest
from tests.harness.servers.embedded_server import TOKEN, EmbeddedServer, embedded_server

WATCH = f"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"


async def test_a_client_that_leaves_before_the_answer_causes_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A killed client is not a fault of the server."""
    async with embedded_server() as api:
        await asyncio.gather(*(_send_request_and_disconnect(api) for _ in range(20)))
        answer = await api.call("GET", "/api/v1/pods")
    assert answer.code == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def _send_request_and_disconnect(api: EmbeddedServer) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(urlsplit(api.url).hostname, urlsplit(api.url).port, ssl=trusting)
    writer.write(WATCH.encode())
    await writer.drain()
    writer.close()
