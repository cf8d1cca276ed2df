"""Routes for listing, reading and watching runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run, require_definition
from kajitori.api.paging import PageParameters, Parameters, decode_token, encode_token
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import HEARTBEAT_SECONDS, NDJSON, Chunks
from kajitori.api.views.runs import RunList, RunNames, RunView, phase_of
from kajitori.cluster.run_object import RunObject
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.core.words.run_names import branches
from kajitori.core.words.selectors import LabelSelector, SelectorError, parse_labels
from kajitori.errors import InvalidInput

router = APIRouter(tags=["runs"])

WATCH_INTERVAL_SECONDS = 0.2
"""Shortest time between two views of a run in a watch."""

REVIEWS_AT_ONCE = 16

MOST_NAMES = 60
"""Largest number of names that a shell is offered as completions."""

Place = tuple[str, str, str, str]
"""Sort key of a run in the list: second of creation, time of submission, namespace, name."""


class ListParameters(PageParameters):
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs that this user submitted; `@me` is the caller."""
    phase: list[Phase] = Field(default_factory=list, max_length=16)
    """Only runs in one of these phases."""
    active: bool = False
    """Only runs that have not ended."""
    name: str = Field(default="", max_length=253)
    """The run with this name, or runs whose names begin with it if there is none."""
    label_selector: str = Field(default="", max_length=4096)
    """Label selector such as `team=vision,stage in (train,tune)`."""


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


@router.get("/v1/runs", responses=describes(RunList), summary="List runs, newest first")
async def list_runs(api: Shared, user: Caller, query: Annotated[ListParameters, Query()]) -> Response:
    """Pages stay consistent while runs come and go: none is shown twice, and none that stays is missed."""
    after = decode_token(query.continue_, tuple[str, str, str, str]) if query.continue_ else None
    labels = _labels(query.label_selector)
    owner = user.name if query.owner == "@me" else query.owner
    readable = await readable_namespaces(api, user, query.namespace)
    found = [
        run
        for run in api.mirror.runs.values()
        if (readable is None or run.metadata.namespace in readable)
        and run.metadata.name.startswith(query.name)
        and (not owner or run.owner == owner)
        and not (query.active and phase_of(run).is_final)
        and (not query.phase or phase_of(run) in query.phase)
        and labels.matches(run.metadata.labels)
    ]
    if query.name:
        exact = [run for run in found if run.metadata.name == query.name]
        found = exact if len(exact) == 1 else found
    page, following = _page(found, after, query.limit)
    items = [api.runs.renderer.render(run) for run in page]
    return answer({"items": items} | ({"continue": following} if following else {}))


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


def _labels(text: str) -> LabelSelector:
    try:
        return parse_labels(text)
    except SelectorError as fault:
        hint = "such as team=vision,stage in (train,tune),!debug"
        raise InvalidInput.one("labelSelector", fault.message, value=text[:80], hint=hint) from fault


def _page(found: list[RunObject], after: Place | None, limit: int) -> tuple[list[RunObject], str]:
    places = {_place(run): run for run in found}
    order = sorted(places, key=lambda place: place[2:])
    order.sort(key=lambda place: place[:2], reverse=True)  # stable: names decide among equals
    if after is not None:
        order = [key for key in order if key[:2] < after[:2] or (key[:2] == after[:2] and key[2:] > after[2:])]
    page = [places[place] for place in order[:limit]]
    return page, encode_token(order[limit - 1]) if len(order) > limit else ""


def _place(run: RunObject) -> Place:
    """Return the sort key of a run. The time of submission comes from the submitter, so it only orders runs that were
    created in the same second."""
    meta = run.metadata
    return meta.creation_timestamp, meta.annotations.get(names.ANNOTATION_SUBMITTED_AT, ""), meta.namespace, meta.name


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
    """One view on each line until the run is final or deleted: at most five a second, and one for each restart. An
    empty line is a heartbeat."""
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
                await asyncio.sleep(WATCH_INTERVAL_SECONDS)
            if not await tracker.changed(HEARTBEAT_SECONDS):
                yield b"\n"
            tracker.look()
