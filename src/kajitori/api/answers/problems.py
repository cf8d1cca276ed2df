"""Errors as `application/problem+json` (RFC 9457): the one place that maps Kajitori's errors to HTTP."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kajitori.core.documents.faults import path_of, show
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault, Forbidden, InvalidInput, KajitoriError, StorageFull, Unauthenticated, Unavailable
from kajitori.kube.errors import ApiError, TooManyRequestsError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2


class Problem(msgspec.Struct, kw_only=True):
    """Why a request failed. `faults` lists everything that is wrong with the request at once."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str = ""
    faults: list[Fault] = []


def own_failure(error: KajitoriError) -> KajitoriError:
    """Return the error for a failed request that the server made with its own credentials.

    If the API server refuses those, the caller gets Unavailable, not a 401 or 403.
    """
    if not isinstance(error, Unauthenticated | Forbidden):
        return error
    hint = "its operators have to give it valid credentials and its rights"
    return Unavailable(f"the API server refuses this server: {error.message}", hint=hint)


def problem_of(error: KajitoriError) -> Problem:
    """Return the problem for one of Kajitori's errors."""
    status = error.http_status
    if isinstance(error, TooManyRequestsError):
        status = 429  # nothing was done, so the caller may safely repeat the request
    if isinstance(error, ApiError) and status == 500:
        status = 502  # an error of the API server that has no type of its own
    faults = list(error.faults) if isinstance(error, InvalidInput) else []
    return _problem(status, error.code, error.message, error.hint, faults)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that carries a problem."""
    return Response(msgspec.json.encode(problem), problem.status, dict(headers or {}), MEDIA_TYPE)


def error_response(error: KajitoriError) -> Response:
    """Return the answer to a request that failed with one of Kajitori's errors."""
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable) and not isinstance(error, StorageFull):
        after = getattr(error, "retry_after_seconds", None)
        headers["Retry-After"] = str(max(1, round(after))) if after is not None else str(RETRY_AFTER_SECONDS)
    return problem_response(problem_of(error), headers)


def bug_response(error: BaseException) -> Response:
    """Return the answer to a request that met a bug: the log has the traceback, the caller a number to quote."""
    number = secrets.token_hex(4)
    log.error("bug %s", number, exc_info=error)
    detail = f"this is a bug in Kajitori; its log has it under {number}"
    return problem_response(_problem(500, "Internal", detail, "tell the people who run this server", []))


def malformed_response(head_bytes: int) -> Response:
    """Return the answer to bytes that are not a request."""
    detail = f"this is no request of HTTP/1.1, or its head has more than {head_bytes:,} bytes"
    hint = "percent-encode the path, and send long texts in the body"
    return problem_response(_problem(400, "BadRequest", detail, hint, []))


def install(app: FastAPI, missing_page: Callable[[Request], Awaitable[Response]]) -> None:
    """Make the application answer every error with a problem.

    `missing_page` returns what a browser shows at an address that does not exist.
    """

    @app.exception_handler(KajitoriError)
    async def ours(request: Request, error: KajitoriError) -> Response:
        request.state.error = error
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def parameters(request: Request, error: RequestValidationError) -> Response:
        return error_response(InvalidInput(parameter_faults(error.errors(), _known_parameters(request))))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        detail, hint = str(error.detail), ""
        if status is HTTPStatus.NOT_FOUND:
            if _is_asked_by_a_person(request):
                return await missing_page(request)
            detail, hint = f"there is nothing at {show(request.url.path)}", "/openapi.json lists what there is"
        elif status is HTTPStatus.METHOD_NOT_ALLOWED:
            detail = f"{show(request.url.path)} does not support {request.method}"
            hint = f"allowed: {(error.headers or {}).get('Allow', '')}"
        code = status.phrase.title().replace(" ", "")
        return problem_response(_problem(status.value, code, detail, hint, []), error.headers)


def _is_asked_by_a_person(request: Request) -> bool:
    """Whether a browser asks for a page to show, not a program for data."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return wants_page and request.method == "GET" and not request.url.path.startswith("/v1/")


async def without_parameters(connection: HTTPConnection) -> None:
    """Refuse query parameters for a route that takes none, as other routes refuse unknown parameters.

    Probes are exempt, since they often send `?verbose`, and so are WebSockets, which check their own. A coroutine,
    because FastAPI would run a plain function in a thread for each request.
    """
    given = connection.query_params if connection.url.path.startswith("/v1/") else {}
    if not given or not isinstance(connection, Request) or _known_parameters(connection):
        return
    hint, code = "this call takes none", "UnknownField"
    raise InvalidInput([Fault(show(name), f"there is no parameter {show(name)!r}", "", hint, code) for name in given])


def parameter_faults(errors: Sequence[Mapping[str, Any]], known: Iterable[str]) -> list[Fault]:
    """Return one fault for each wrong query or path parameter."""
    names = sorted(known)
    faults = []
    for error in errors:
        field = path_of("", tuple(error["loc"][1:])) or str(error["loc"][0])
        if error["type"] == "extra_forbidden":
            message = f"there is no parameter {show(field)!r}"
            faults.append(Fault(show(field), message, hint=did_you_mean(field, names), code="UnknownField"))
            continue
        message = str(error["msg"])
        faults.append(Fault(field, message[:1].lower() + message[1:], show(error.get("input"))))
    return faults


def _known_parameters(request: Request) -> set[str]:
    """Return the query parameters of the called route, from the OpenAPI document."""
    path = getattr(request.scope.get("route"), "path", "")
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    return {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"}


def _problem(status: int, code: str, detail: str, hint: str, faults: list[Fault]) -> Problem:
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    kind = f"tag:kajitori.dev,2026:{code}"
    return Problem(type=kind, title=title, status=status, code=code, detail=detail, hint=hint, faults=faults)
