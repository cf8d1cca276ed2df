"""The Web API as an application: its routes and its OpenAPI document."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute
from starlette.types import Lifespan

from kajitori import __version__
from kajitori.api import channels, health, web_page
from kajitori.api.answers import problems
from kajitori.api.answers.paging import Parameters
from kajitori.api.comparison import routes as comparison
from kajitori.api.context import Api
from kajitori.api.history import board_usage, lost_time
from kajitori.api.history import routes as history
from kajitori.api.identity import browser_routes, robots
from kajitori.api.identity import routes as identity
from kajitori.api.logs import routes as logs
from kajitori.api.logs.ranges import routes as log_ranges
from kajitori.api.namespaces import code, quotas, secrets, volumes
from kajitori.api.nodes import board, images
from kajitori.api.nodes import health as node_health
from kajitori.api.nodes import lists as node_lists
from kajitori.api.nodes import routes as nodes
from kajitori.api.policy import routes as policy
from kajitori.api.proxy import notebooks
from kajitori.api.proxy.gate import Programs
from kajitori.api.queue import lists as queue_lists
from kajitori.api.queue import routes as queue
from kajitori.api.queue import waiting
from kajitori.api.requests.middleware import Guard
from kajitori.api.runs import calls, events, lists, results
from kajitori.api.runs import routes as runs
from kajitori.api.runs.changes import labels, lifecycle, notes, update
from kajitori.api.runs.files import routes as files
from kajitori.api.runs.members import exec, port_forward, processes
from kajitori.api.runs.members import files as member_files
from kajitori.api.runs.members import lists as members
from kajitori.api.runs.submit import command_line, submission, what_if
from kajitori.api.start import routes as discovery
from kajitori.api.start import ssh_keys
from kajitori.api.streams import host_lists
from kajitori.api.telemetry import agents as telemetry_agents
from kajitori.api.telemetry import idle, node_metrics, run_figures, stacks, why
from kajitori.api.telemetry import routes as telemetry
from kajitori.api.traffic import networks, past, recorder
from kajitori.api.traffic import routes as traffic
from kajitori.api.views import base, configuration, people, server, storage
from kajitori.api.views import calls as call_views
from kajitori.api.views import comparison as comparison_views
from kajitori.api.views import history as history_views
from kajitori.api.views import logs as log_views
from kajitori.api.views import nodes as node_views
from kajitori.api.views import queue as queue_views
from kajitori.api.views import runs as run_views
from kajitori.api.views import stacks as stacks_views
from kajitori.api.views import telemetry as telemetry_views
from kajitori.cluster.background import Work, cancel_all, start_all
from kajitori.core.documents.docstrings import describe_fields
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus

ROUTERS = tuple(
    module.router
    for module in (
        discovery,  # first: routes are matched in order, and all members of a gang call these at once
        telemetry_agents,  # two reports a minute of each node
        *(
            lists,
            runs,
            members,
            results,
            calls,
            submission,
            command_line,
            lifecycle,
            update,
            labels,
            notes,
            logs,
            log_ranges,
            events,
            exec,
            port_forward,
            notebooks,
            files,
            processes,
            member_files,
            waiting,
            what_if,
            queue_lists,
            queue,
            node_lists,  # before `nodes`, which has /v1/nodes/{name}
            nodes,
            board,
            images,
            policy,
            quotas,
            networks,
            secrets,
            channels,
            volumes,
            traffic,
            past,
            telemetry,
            node_metrics,
            run_figures,
            stacks,
            why,
            idle,
            identity,
            robots,
            browser_routes,
            comparison,
            history,
            board_usage,
            lost_time,
            health,
            code,
            web_page,
        ),
    )
)

_VIEWS = dict.fromkeys(
    kind
    for module in (
        *(base, run_views, call_views, log_views, storage, configuration, server, people, node_views, queue_views),
        *(history_views, comparison_views, stacks_views, telemetry_views),
    )
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, base.View)
)
_ANSWERS: tuple[type, ...] = (
    problems.Problem,
    RunStatus,
    host_lists.HostList,
    host_lists.HostsMissing,
    ssh_keys.AttemptKeys,
    discovery.NotebookToken,
    notebooks.NotebookAddress,
    *(code.CodeView, code.CodePart, code.CodeParts),
    *(traffic.TrafficList, traffic.RunTrafficView, past.TrafficHistory, past.AddressForecasts),
    *_VIEWS,
)
_REQUESTS: tuple[type[BaseModel], ...] = (
    RunSpec,
    submission.RunRequest,
    *(lifecycle.StopRequest, lifecycle.FilesRequest, labels.LabelRequest, notes.NoteRequest, update.UpdateRequest),
    *(processes.SignalRequest, processes.ProgramSignalRequest),
    idle.KeepRequest,
    secrets.SecretRequest,
    channels.ChannelRequest,
    robots.RobotRequest,
    node_health.TestRequest,
    nodes.DrainRequest,
    code.CompleteRequest,
    calls.CallsRequest,
    calls.WorkRequest,
)
_OPEN_TO_ALL = ("/healthz", "/readyz", "/v1/sign-in")


def create_app(api: Api) -> FastAPI:
    """Return the application. The state of its Web API is closed with the application's lifespan."""
    api.process.registry.register(health.ClusterCollector(api))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state: Api = app.state.kajitori
        tasks = start_all(_background(state))
        try:
            yield
        finally:
            await cancel_all(tasks)
            await state.close()

    app = _with_routes(lifespan)
    app.openapi = openapi_document  # type: ignore[method-assign]
    app.state.kajitori = api
    problems.install(app, web_page.missing_page)
    app.add_middleware(
        Guard,
        request_seconds=api.process.metrics.request_seconds,
        bodies=api.callers.bodies,
        body_seconds=api.callers.limits.body_seconds,
        unbounded=code.bounds_its_own_body,
        larger=calls.body_limit,
        note=api.audit.note_request,
        notice=lambda: api.leader.state().says if api.leader.state().is_absent else "",
        own_notice=api.runs.idle.words,
    )
    app.add_middleware(Programs)  # the last one added is asked first: the Guard's limits are not for programs
    return app


def _background(api: Api) -> tuple[Work, ...]:
    """Return the work that goes on beside requests until it is cancelled."""
    return (
        api.traffic.keeper.run,
        partial(recorder.follow, api),
        api.telemetry.run,
        partial(telemetry_agents.follow_places, api),
        api.leader.follow,
        api.audit.write_forever,
        api.stores.history_lag.follow,
        api.start.tickets.follow,
        partial(api.callers.sessions.recheck_all, api.callers.limits.recheck_seconds),
    )


def _with_routes(lifespan: Lifespan[FastAPI] | None) -> FastAPI:
    app = FastAPI(
        title="Kajitori",
        version=__version__,
        summary="Trainings on Kubernetes for people who know Docker",
        docs_url=None,  # both pages load scripts from other servers
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.router.routes.extend(_routes())
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return the routes, which the applications of a process share: FastAPI takes 20 ms to find out what each needs."""
    together = APIRouter()
    for router in ROUTERS:
        together.include_router(router, dependencies=[Depends(problems.without_parameters)])
    return tuple(together.routes)


_BUILDING = threading.Lock()


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document. Needs no cluster, since the reference in the docs is generated from it.

    It is built when it is first asked for, which takes a sixth of the start of a Web API otherwise.
    """
    with _BUILDING:  # FastAPI's builder fails if two threads run it at once
        return _built_document()


@cache
def _built_document() -> dict[str, Any]:
    describe_fields(Parameters)
    app = _with_routes(None)
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        summary=app.summary,
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | _schemas()
    components["schemas"].pop("HTTPValidationError", None)
    components["schemas"].pop("ValidationError", None)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "ticket": {"type": "http", "scheme": "bearer", "description": "The ticket in a starting member's Pod."},
    }
    document["security"] = [{"token": []}]
    for path in _OPEN_TO_ALL:
        for operation in document["paths"][path].values():
            operation["security"] = []
    for path in ("/v1/board", "/v1/board/usage"):
        document["paths"][path]["get"]["security"] = [{}, {"token": []}]  # as policy says
    return document


def _schemas() -> dict[str, Any]:
    """Return the schemas of answers, from the types that are encoded, and of requests, from the models that read."""
    _, answers = msgspec.json.schema_components(_ANSWERS, ref_template="#/components/schemas/{name}")
    _, requests = models_json_schema(
        [(model, "validation") for model in _REQUESTS], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Any] = {**msgspec.json.decode(msgspec.json.encode(answers)), **requests.get("$defs", {})}
    schemas["RunRequest"]["properties"]["spec"] = {"$ref": "#/components/schemas/RunSpec"}
    schemas["RunRequest"]["required"] = sorted({*schemas["RunRequest"].get("required", ()), "spec"})
    return schemas


def operations(document: dict[str, Any]) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and description of every operation of an OpenAPI document."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation
