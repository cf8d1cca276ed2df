"""Routes for the output, the resource use and the events of containers: logs, top, stats and events."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from aiohttp import web

from kajitori.core.formats.quantities import round_memory
from kajitori.core.telemetry.processes import processor_time
from kajitori.docker.engine import Engine, engine_of, json_answer, sentence
from kajitori.docker.events import EVENT_FILTERS, passes
from kajitori.docker.hijack import MULTIPLEXED, RAW, SYSTEM_ERROR, frame
from kajitori.docker.output import LogQuery, flag, moment, read_output
from kajitori.docker.platform import run_path
from kajitori.docker.routes.containers import container_of
from kajitori.docker.translation.container import Container, seconds_of
from kajitori.docker.translation.filters import parse_filters
from kajitori.docker.translation.stats import Meter
from kajitori.errors import KajitoriError, NotFound, WrongState

STATS_SECONDS = 1.0

routes = web.RouteTableDef()


@routes.get("/containers/{id}/logs")
async def logs(request: web.Request) -> web.StreamResponse:
    container = await container_of(request)
    query = LogQuery.of(request.query)
    engine = engine_of(request)
    is_raw = container.has_terminal
    response = web.StreamResponse(headers={"Content-Type": RAW if is_raw else MULTIPLEXED})
    await response.prepare(request)
    with engine.reading(container):
        try:
            async with aclosing(read_output(engine.platform, container, query)) as pieces:
                async for stream, data in pieces:
                    await response.write(data if is_raw else frame(stream, data))
        except KajitoriError as error:
            if is_raw:
                raise
            await response.write(frame(SYSTEM_ERROR, sentence(error).encode()))
    await response.write_eof()
    return response


@routes.get("/containers/{id}/top")
async def top(request: web.Request) -> web.Response:
    engine, container = engine_of(request), await container_of(request)
    if container.state != "running":
        raise WrongState(f"container {container.name} is not running")
    answer = await engine.platform.get(run_path(container, "/processes"), {"rank": container.rank})
    rows = [
        [
            str(one["pid"]),
            str(one["ppid"]),
            processor_time(one["cpuSeconds"]),
            round_memory(one["memoryBytes"]),
            one["command"],
        ]
        for one in answer["items"]
    ]
    return json_answer({"Titles": ["PID", "PPID", "TIME", "RSS", "CMD"], "Processes": rows})


@routes.get("/containers/{id}/stats")
async def stats(request: web.Request) -> web.StreamResponse:
    engine, container = engine_of(request), await container_of(request)
    meter = Meter(container)
    if not flag({"stream": request.query.get("stream", "true")}, "stream"):
        meter.add(await _sample(engine, container), engine.now())
        return json_answer(meter.document())
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        try:
            meter.add(await _sample(engine, container), engine.now())
        except NotFound:
            break
        await response.write(json.dumps(meter.document()).encode() + b"\n")
        await asyncio.sleep(STATS_SECONDS)
    return response


async def _sample(engine: Engine, container: Container) -> list[dict[str, Any]]:
    """Return the latest values of the container's ranks, or of the one that the client named."""
    which = {"rank": container.rank} if container.is_member else {"limit": 1000}
    answer = await engine.platform.get(run_path(container, "/stats"), which)
    ranks: list[dict[str, Any]] = answer["ranks"]
    return ranks


@routes.get("/events")
async def events(request: web.Request) -> web.StreamResponse:
    engine = engine_of(request)
    filters = parse_filters(request.query.get("filters", ""), EVENT_FILTERS)
    since, until = moment(request.query.get("since", ""), "since"), moment(request.query.get("until", ""), "until")
    begin = seconds_of(since[:26] + "Z") if since else engine.now()
    end = seconds_of(until[:26] + "Z") if until else None
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b"")
    async with aclosing(engine.events.follow(begin, end)) as stream:
        async for event in stream:
            if passes(event, filters):
                await response.write(json.dumps(event).encode() + b"\n")
    await response.write_eof()
    return response
