"""An API server that fails: controller and Web API survive it, say so, and go on where they were.

The same on the embedded server and on a real one. Between it and us stands a proxy that fails on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.helpers.faulty_proxy import FaultyProxy
from tests.helpers.stage import Stage, staged

from kajitori.core.reasons import Phase

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("bad-apiserver")]

SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "2s",
}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real)]
)
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One cluster for all tests of this module; controller and Web API reach it through a proxy."""
    async with staged(tmp_path_factory.mktemp("stage"), real=request.param == "real", policy={}, faulty=True) as there:
        yield there


def proxy_of(stage: Stage) -> FaultyProxy:
    assert stage.proxy is not None
    return stage.proxy


async def test_watches_that_break_in_the_middle_lose_nothing(stage: Stage) -> None:
    """Cut again and again in the middle of a line, while members fail: each failure is seen once."""
    proxy = proxy_of(stage)
    await stage.submit("cut", SPEC | {"replicas": 3, "restarts": 5})
    for attempt in (1, 2, 3):
        await stage.world.reaches("cut", Phase.RUNNING, attempt=attempt)
        assert proxy.break_watches() >= 3
        if attempt < 3:
            await stage.world.behave(f"cut-{attempt}-1", exit_code="1")
            await asyncio.sleep(0.05)
            proxy.break_watches()
    await stage.world.succeed("cut")
    status = await stage.world.reaches("cut", Phase.SUCCEEDED)
    assert (status.restarts, status.attempts) == (2, 3)


async def test_an_outage_of_every_kind_is_survived_and_waited_out(stage: Stage) -> None:
    """While nothing comes but errors (0: hung up on), requests get typed answers; then everything converges."""
    proxy = proxy_of(stage)
    await stage.submit("outage", SPEC | {"replicas": 2, "restarts": 5})
    await stage.world.reaches("outage", Phase.RUNNING)
    before = proxy.writes
    try:
        for status, wanted in ((500, {503}), (429, {429}), (401, {401, 503}), (0, {503})):
            proxy.status, proxy.accepts = status, bool(status)
            proxy.break_watches()
            if status == 500:
                await stage.world.behave("outage-1-1", exit_code="1")  # straight at the server: the proxy is not asked
            answers = await _ask_meanwhile(stage)
            assert (answers["/healthz"], answers["/metrics"], answers["/readyz"]) == (200, 200, 503), status
            assert answers["/v1/runs"] in wanted, (status, answers)
    finally:
        proxy.status, proxy.accepts = 0, True
    assert proxy.writes - before < 100, "nobody hammers a server that is down"
    await stage.world.reaches("outage", Phase.RUNNING, attempt=2)
    assert stage.world.status("outage").restarts == 1
    await stage.submit("after", SPEC)
    await stage.world.reaches("after", Phase.RUNNING)
    ready = await stage.http.get("/readyz")
    assert ready.status_code == 200, ready.text


async def _ask_meanwhile(stage: Stage) -> dict[str, int]:
    """What the Web API answers during an outage: within bounds, and a problem document where it is no success."""

    async def ask(method: str, path: str) -> int:
        body = {"json": {"name": "never", "spec": SPEC}} if method == "POST" else {}
        answer: httpx2.Response = await stage.http.request(method, path, **body)  # type: ignore[arg-type]
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] != "Internal", answer.text
        return answer.status_code

    asked = {"/healthz": "GET", "/readyz": "GET", "/metrics": "GET", "/v1/runs": "POST"}
    answers = await asyncio.gather(*(ask(method, path) for path, method in asked.items()))
    return dict(zip(asked, answers, strict=True))


async def test_an_unreachable_web_api_is_named(stage: Stage) -> None:
    """Exit code 125, with the address and what to do."""
    result = await stage.kaji("ps", KAJI_SERVER="http://127.0.0.1:1")
    assert result.code == 125 and "127.0.0.1:1" in result.err and "Traceback" not in result.err
