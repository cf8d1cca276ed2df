"""Every error as `application/problem+json` (RFC 9457): the one place where the error tree meets HTTP."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kajitori.core.documents.faults import path_of, show
from kajitori.core.words.suggestions import did_you_mean
from kajitori.errors import Fault, Forbidden, InvalidInput, KajitoriError, StorageFull, Unauthenticated, Unavailable
from kajitori.kube.errors import ApiError, TooManyRequestsError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2


class Problem(msgspec.Struct, kw_only=True):
    """Why a request was not done. `faults` names everything that is wrong with what was sent, at once."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str = ""
    faults: list[Fault] = []


def of_this_server(error: KajitoriError) -> KajitoriError:
    """What went wrong with the server's own requests. That it is refused is no fault of whoever called it."""
    if not isinstance(error, Unauthenticated | Forbidden):
        return error
    hint = "whoever runs it has to give it valid credentials and its rights"
    return Unavailable(f"the API server refuses this server: {error.message}", hint=hint)


def problem_of(error: KajitoriError) -> Problem:
    """The problem that an error of ours is."""
    status = error.http_status
    if isinstance(error, TooManyRequestsError):
        status = 429  # nothing was done: whoever asked may safely ask again
    if isinstance(error, ApiError) and status == 500:
        status = 502  # the API server said something that has no meaning of its own here
    faults = list(error.faults) if isinstance(error, InvalidInput) else []
    return _problem(status, error.code, error.message, error.hint, faults)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that carries a problem."""
    return Response(msgspec.json.encode(problem), problem.status, dict(headers or {}), MEDIA_TYPE)


def error_response(error: KajitoriError) -> Response:
    """The answer to a request that ended in an error of ours."""
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable) and not isinstance(error, StorageFull):
        after = getattr(error, "retry_after_seconds", None)
        headers["Retry-After"] = str(max(1, round(after))) if after is not None else str(RETRY_AFTER_SECONDS)
    return problem_response(problem_of(error), headers)


def bug_response(error: BaseException) -> Response:
    """The answer to a request that met a bug of ours: the log has the traceback, the caller a number to name."""
    number = secrets.token_hex(4)
    log.error("bug %s", number, exc_info=error)
    detail = f"this is a bug in Kajitori; its log has it under {number}"
    return problem_response(_problem(500, "Internal", detail, "tell the people who run this server", []))


def install(app: FastAPI) -> None:
    """Lets every error leave the application as a problem."""

    @app.exception_handler(KajitoriError)
    async def ours(request: Request, error: KajitoriError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def parameters(request: Request, error: RequestValidationError) -> Response:
        return error_response(InvalidInput(parameter_faults(error.errors(), _known_parameters(request))))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        detail, hint = str(error.detail), ""
        if status is HTTPStatus.NOT_FOUND:
            detail, hint = f"there is nothing at {show(request.url.path)}", "/openapi.json lists what there is"
        elif status is HTTPStatus.METHOD_NOT_ALLOWED:
            detail = f"{show(request.url.path)} knows no {request.method}"
            hint = f"allowed: {(error.headers or {}).get('Allow', '')}"
        code = status.phrase.title().replace(" ", "")
        return problem_response(_problem(status.value, code, detail, hint, []), error.headers)


async def without_parameters(connection: HTTPConnection) -> None:
    """Refuse parameters that a route without any was given, as other routes refuse unknown ones.

    Probes are exempt, since they like to say `?verbose`, and so are WebSockets, which check their own. A coroutine,
    because FastAPI would run a plain function in a thread for each request.
    """
    asked = connection.query_params if connection.url.path.startswith("/v1/") else {}
    if not asked or not isinstance(connection, Request) or _known_parameters(connection):
        return
    hint, code = "this call takes none", "UnknownField"
    raise InvalidInput([Fault(show(each), f"there is no parameter {show(each)!r}", "", hint, code) for each in asked])


def parameter_faults(errors: Sequence[Mapping[str, Any]], known: Iterable[str]) -> list[Fault]:
    """One fault for each parameter of a query or a path that is wrong."""
    names = sorted(known)
    faults = []
    for each in errors:
        field = path_of("", tuple(each["loc"][1:])) or str(each["loc"][0])
        if each["type"] == "extra_forbidden":
            message = f"there is no parameter {show(field)!r}"
            faults.append(Fault(show(field), message, hint=did_you_mean(field, names), code="UnknownField"))
            continue
        message = str(each["msg"])
        faults.append(Fault(field, message[:1].lower() + message[1:], show(each.get("input"))))
    return faults


def _known_parameters(request: Request) -> set[str]:
    """The query parameters that the called route has, out of the application's own description."""
    path = getattr(request.scope.get("route"), "path", "")
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    return {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}


def _problem(status: int, code: str, detail: str, hint: str, faults: list[Fault]) -> Problem:
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    kind = f"tag:kajitori.dev,2026:{code}"
    return Problem(type=kind, title=title, status=status, code=code, detail=detail, hint=hint, faults=faults)
