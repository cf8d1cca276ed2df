"""The key of tickets: one for a cluster, created by the first process."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.cluster.platform.ticket_key import TicketReader, ensure_ticket_key
from kajitori.core.pods.tickets import KEY_BYTES, Ticket, sign
from kajitori.errors import Unavailable
from kajitori.kube.client import KubeClient

PATH = "/api/v1/namespaces/kajitori/secrets"
TICKET = Ticket("vision", "bert", "u-1", 1, 4)


class Secrets:
    """A server that keeps Secrets by name."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.reads = 0

    async def get(self, request: web.Request) -> web.Response:
        self.reads += 1
        found = self.kept.get(request.match_info["name"])
        if found is None:
            return web.json_response(status_of(404, "none", "NotFound"), status=404)
        return web.json_response(found)

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = body["metadata"]["name"]
        if name in self.kept:
            return web.json_response(status_of(409, "there is one", "AlreadyExists"), status=409)
        self.kept[name] = body
        return web.json_response(body, status=201)


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Secrets, KubeClient]]:
    secrets = Secrets()
    app = web.Application()
    app.router.add_get(PATH + "/{name}", secrets.get)
    app.router.add_post(PATH, secrets.create)
    async with serving(app) as url, client_of(url) as client:
        yield secrets, client


async def test_the_key_is_created_once() -> None:
    """Controllers that start together get the same key, and so do later ones."""
    async with cluster() as (secrets, client):
        keys = await asyncio.gather(*(ensure_ticket_key(client, "kajitori") for _ in range(5)))
        assert {len(key) for key in keys} == {KEY_BYTES}
        assert {*keys, await ensure_ticket_key(client, "kajitori")} == {keys[0]}
        assert list(secrets.kept) == ["kajitori-tickets"]


async def test_a_reader_reads_the_key_once() -> None:
    """For any number of tickets and concurrent readers."""
    async with cluster() as (secrets, client):
        text = sign(TICKET, await ensure_ticket_key(client, "kajitori"))
        secrets.reads = 0
        reader = TicketReader(client, "kajitori", clock=lambda: 0.0)
        assert await asyncio.gather(*(reader.read(text) for _ in range(20))) == [TICKET] * 20
        assert secrets.reads == 1


async def test_the_key_is_not_read_for_text_that_is_no_ticket() -> None:
    async with cluster() as (secrets, client):
        reader = TicketReader(client, "kajitori")
        assert await reader.read("a token of somebody's") is None
        assert secrets.reads == 0


async def test_without_the_secret_no_ticket_is_valid() -> None:
    async with cluster() as (_, client):
        assert await TicketReader(client, "kajitori").read(sign(TICKET, bytes(KEY_BYTES))) is None


@pytest.mark.parametrize("key", ["", "c2hvcnQ=", "no base64!"])
async def test_an_invalid_secret_is_an_error_with_a_hint(key: str) -> None:
    """It shows nothing of the Secret's content."""
    async with cluster() as (secrets, client):
        meta = {"name": "kajitori-tickets", "namespace": "kajitori"}
        secrets.kept["kajitori-tickets"] = {"metadata": meta, "data": {"key": key}}
        with pytest.raises(Unavailable, match="kajitori/kajitori-tickets holds no key of 32 bytes") as caught:
            await ensure_ticket_key(client, "kajitori")
        assert "delete it" in caught.value.hint
        assert not key or key not in caught.value.message


async def test_the_repr_of_a_reader_does_not_show_the_key() -> None:
    """Neither as bytes nor as text."""
    async with cluster() as (_, client):
        key = await ensure_ticket_key(client, "kajitori")
        reader = TicketReader(client, "kajitori")
        await reader.read(sign(TICKET, key))
        assert base64.b64encode(key).decode() not in repr(reader) and repr(key) not in repr(reader)
