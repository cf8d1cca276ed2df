"""Routes for names of runs, and for reading and watching one run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run, require_definition
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import HEARTBEAT_SECONDS, NDJSON, Chunks
from kajitori.api.views.runs import RunNames, RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming.run_names import branches
from kajitori.core.spec.reasons import Phase

router = APIRouter(tags=["runs"])

WATCH_INTERVAL_SECONDS = 0.2
"""Shortest time between two views of a run in a watch."""

REVIEWS_AT_ONCE = 16

MOST_NAMES = 60
"""Largest number of names that a shell is offered as completions."""


class NamesParameters(Parameters):
    beginning: str = Field(default="", max_length=253)
    """Beginning of the names."""
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    phase: list[Phase] = Field(default_factory=list, max_length=16)
    """Only runs in one of these phases."""
    started: bool = False
    """Only runs whose members were started at least once."""
    sweep: bool = False
    """Only sweeps."""

    def fits(self, run: RunObject) -> bool:
        """Whether the run matches these parameters."""
        status = run.status
        return (
            (not self.phase or phase_of(run) in self.phase)
            and (not self.started or (status is not None and status.attempts > 0))
            and (not self.sweep or (status is not None and status.sweep is not None))
        )


@router.get("/v1/run-names", responses=describes(RunNames), summary="Names of runs that begin with a text")
async def run_names(api: Shared, user: Caller, query: Annotated[NamesParameters, Query()]) -> Response:
    """Completions for a shell: the caller's own runs, or those of all users if none of the caller's match."""
    readable = await readable_namespaces(api, user, query.namespace)
    fitting = [
        run
        for run in api.mirror.runs.values()
        if run.metadata.name.startswith(query.beginning)
        and (readable is None or run.metadata.namespace in readable)
        and query.fits(run)
    ]
    own = [run for run in fitting if run.owner == user.name]
    names, beginnings = branches((run.metadata.name for run in own or fitting), MOST_NAMES)
    return answer(RunNames(names=names, beginnings=beginnings))


async def readable_namespaces(
    api: Api, user: User, namespace: str, others: Iterable[str] = ()
) -> frozenset[str] | None:
    """Return the namespaces whose runs the user may list, among those with runs and `others`; None means all.

    Raises Forbidden if `namespace` is given and the user may not list its runs, and Unsupported while the cluster has
    no definition of runs.
    """
    require_definition(api)
    if namespace:
        await user.require("list", namespace)
        return frozenset((namespace,))
    if await user.may("list", ""):
        return None
    several = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def may_list(candidate: str) -> bool:
        async with several:
            return await user.may("list", candidate)

    candidates = sorted({where for where, _ in api.mirror.runs}.union(others))
    verdicts = await asyncio.gather(*(may_list(candidate) for candidate in candidates))
    return frozenset(candidate for candidate, allowed in zip(candidates, verdicts, strict=True) if allowed)


@router.get("/v1/runs/{namespace}/{name}", responses=describes(RunView), summary="One run")
async def get_run(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """`name` is the run's name, or a prefix that only one run of the namespace has."""
    return answer(api.runs.renderer.render(await find_run(api, user, namespace, name)))


@router.get(
    "/v1/runs/{namespace}/{name}/watch",
    responses=describes(RunView, media_type=NDJSON),
    summary="A run, now and at each change",
)
async def watch_run(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """One view on each line until the run is final or deleted: at most five a second, and one for each phase and each
    restart. An empty line is a heartbeat."""
    run = await find_run(api, user, namespace, name)
    return api.streams.stream(_changes(api, user, run), kind="watch", media_type=NDJSON)


async def _changes(api: Api, user: User, run: RunObject) -> Chunks:
    shown: msgspec.Raw | None = None
    with RunTracker(api, user, run, restarts=True) as tracker:
        while not tracker.gone:
            news = b""
            for run_then in (*tracker.take_restarts(), tracker.run):
                view = api.runs.renderer.render(run_then)
                if view is not shown:
                    shown = view
                    news += bytes(view) + b"\n"
            if news:
                yield news
                if tracker.is_over:
                    return
                if await tracker.phase_changed(WATCH_INTERVAL_SECONDS):
                    continue
            if not await tracker.changed(HEARTBEAT_SECONDS):
                yield b"\n"
            tracker.look()
