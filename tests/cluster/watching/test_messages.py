"""Messages about runs, from a failure to a real HTTP server, while controllers are killed at random moments."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.harness.cluster import Cluster

from kajitori.cluster.run_object import RUNS
from kajitori.core.messages import outbox
from kajitori.core.messages.channels import Channel, Recipient, team
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.errors import AlreadyExists
from kajitori.kube.resources import NAMESPACES, SECRETS
from kajitori.messages.webhook import new_key

SPACE = names.messages_namespace()
SEED = int(os.environ.get("KAJI_TEST_MESSAGES_SEED", "0")) or random.randrange(1, 1_000_000)
KILLS = 5
COUNT = 8


class Receiver:
    """A webhook that records its requests. It fails sometimes, also after it has taken a request."""

    def __init__(self, chance: random.Random) -> None:
        self.url = ""
        self.got: list[tuple[str, dict[str, Any]]] = []
        """Identifier and content of each request, in order."""
        self._chance = chance

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self._chance.random() < 0.2:
            return web.Response(status=503)
        self.got.append((request.headers["webhook-id"], body))
        await asyncio.sleep(self._chance.random() * 0.3)  # a controller may be killed before it learns of the delivery
        return web.Response(status=204)

    def about(self, kind: str) -> dict[str, str]:
        """Return the ids of messages of a kind, by run. Lines of a digest count like messages."""
        found = {}
        for one, body in self.got:
            if body["type"] == f"run.{kind}":
                found[body["run"]] = one
            elif body["type"] == "run.digest":
                for line in body["text"].splitlines():
                    if f"has {kind}" in line:
                        found[line.split("/")[1].split()[0]] = one
        return found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver(random.Random(SEED))
    app = web.Application()
    app.router.add_post("/hook/s3cr3t", found.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook/s3cr3t"
    yield found
    await runner.cleanup()


async def add_channel(cluster: Cluster, recipient: Recipient, url: str, kinds: tuple[str, ...]) -> None:
    """Store a channel as the Web API does."""
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(NAMESPACES, {"metadata": {"name": SPACE}})
    channel = Channel(url=url, key=new_key(), kinds=kinds)
    metadata = {
        "name": recipient.secret,
        "labels": {names.LABEL_MESSAGES: names.MESSAGE_CHANNELS},
        "annotations": {names.ANNOTATION_RECIPIENT: f"{recipient.kind}/{recipient.name}"},
    }
    data = {"hook": base64.b64encode(msgspec.json.encode(channel)).decode()}
    await cluster.client.create(SECRETS, {"metadata": metadata, "data": data}, SPACE)


async def test_no_message_is_lost_however_often_controllers_are_killed(
    cluster: Cluster, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every failed run is reported, also one that is deleted at once. A repeated message has the same identifier and
    content. No Run contains any part of the URL."""
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(outbox, "SPACING_SECONDS", 0.2)
    cluster.use_policy(notifications={"schemes": ["webhook", "http"], "networks": ["127.0.0.1/32"]})
    await add_channel(cluster, team(cluster.namespace), receiver.url, ("failed",))
    chance = random.Random(SEED)
    controller = cluster.start_controller()
    names_of_runs = [f"run-{number}" for number in range(COUNT)]

    async def fail(name: str) -> None:
        await cluster.submit(name, restarts=0)
        await cluster.reaches(name, Phase.RUNNING)
        await cluster.behave(f"{name}-1-0", exit_code="1")

    failing = asyncio.gather(*map(fail, names_of_runs))
    for _ in range(KILLS):
        await asyncio.sleep(chance.random() * 1.2)
        await cluster.kill_controller(controller)
        controller = cluster.start_controller()
    await failing
    for name in names_of_runs:
        await cluster.reaches(name, Phase.FAILED)
    await cluster.submit("brief", restarts=0)
    await cluster.reaches("brief", Phase.RUNNING)
    await cluster.behave("brief-1-0", exit_code="1")
    await cluster.reaches("brief", Phase.FAILED)
    await cluster.client.delete(RUNS, "brief", cluster.namespace)
    wanted = {*names_of_runs, "brief"}
    await cluster.until(
        lambda: receiver.about("failed").keys() >= wanted,
        f"all are told (KAJI_TEST_MESSAGES_SEED={SEED}; {sorted(receiver.about('failed'))})",
    )
    contents: dict[str, dict[str, Any]] = {}
    for one, body in receiver.got:
        assert contents.setdefault(one, body) == body, "one id stands for one content"
    told = [one for one, body in contents.items() if body["type"] != "run.digest"]
    assert len(receiver.got) - len(contents) <= KILLS, "at most what was under way at a kill is repeated"
    assert len({contents[one]["run"] for one in told}) == len(told), "no run has two messages"
    assert "s3cr3t" not in json.dumps(
        [await cluster.client.get(RUNS, name, cluster.namespace) for name in names_of_runs]
    )
