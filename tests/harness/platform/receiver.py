"""A local webhook that receives messages about runs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from aiohttp import web
from tests.harness.cluster import Cluster

from kajitori.core.messages.channels import Channel, Recipient
from kajitori.core.naming import names
from kajitori.errors import AlreadyExists
from kajitori.kube.resources import NAMESPACES, SECRETS
from kajitori.messages.webhook import new_key

RECEIVED = {"schemes": ["webhook", "http"], "networks": ["127.0.0.1/32"]}
"""`notifications` of a policy that allows messages to a receiver."""


TITLES = {
    "failed": ("has failed",),
    "started": ("has started",),
    "ended": ("has succeeded", "was stopped", "was parked", "restarts, because"),
    "preempted": ("was preempted", "is preempted"),
    "drained": ("leaves a node",),
    "time-limit": ("reaches its time limit",),
    "idle": ("that nothing uses", "will be parked", "had idle GPUs"),
}
"""Words in the titles of each kind. A digest lists titles only."""


class Receiver:
    """A webhook that records its requests."""

    def __init__(self, chance: random.Random | None = None) -> None:
        """With `chance` it fails and waits at random."""
        self.url = ""
        self.got: list[tuple[str, dict[str, Any]]] = []
        """Identifier and content of each request, in order."""
        self._chance = chance

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self._chance is not None and self._chance.random() < 0.2:
            return web.Response(status=503)
        self.got.append((request.headers["webhook-id"], body))
        if self._chance is not None:  # the sender may be killed before it learns of the delivery
            await asyncio.sleep(self._chance.random() * 0.3)
        return web.Response(status=204)

    def told(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield id, run, kind and text of every message. A digest yields one for each of its lines, with the id of the
        digest."""
        for one, body in self.got:
            if body["type"] != "run.digest":
                yield one, body["run"], body["type"].removeprefix("run."), f"{body['title']}\n{body['text']}"
                continue
            for line in body["text"].splitlines():
                found = [kind for kind, words in TITLES.items() if any(each in line for each in words)]
                if found:
                    yield one, line.partition("/")[2].split()[0], found[0], line

    def about(self, kind: str) -> dict[str, str]:
        """Return the ids of messages of a kind, by run. Lines of a digest count like messages."""
        return {run: one for one, run, told, _ in self.told() if told == kind}

    def texts(self) -> dict[tuple[str, str], str]:
        """Return the text of the last message by run and kind."""
        return {(run, kind): text for _, run, kind, text in self.told()}


@contextlib.asynccontextmanager
async def receiving(chance: random.Random | None = None) -> AsyncIterator[Receiver]:
    """Run a receiver on this machine. Policy has to allow it: `RECEIVED`."""
    found = Receiver(chance)
    app = web.Application()
    app.router.add_post("/hook/s3cr3t", found.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook/s3cr3t"
    try:
        yield found
    finally:
        await runner.cleanup()


async def add_channel(cluster: Cluster, recipient: Recipient, url: str, kinds: tuple[str, ...]) -> None:
    """Store a channel as the Web API does."""
    space = names.messages_namespace()
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(NAMESPACES, {"metadata": {"name": space}})
    channel = Channel(url=url, key=new_key(), kinds=kinds)
    metadata = {
        "name": recipient.secret,
        "labels": {names.LABEL_MESSAGES: names.MESSAGE_CHANNELS},
        "annotations": {names.ANNOTATION_RECIPIENT: f"{recipient.kind}/{recipient.name}"},
    }
    data = {"hook": base64.b64encode(msgspec.json.encode(channel)).decode()}
    await cluster.client.create(SECRETS, {"metadata": metadata, "data": data}, space)
