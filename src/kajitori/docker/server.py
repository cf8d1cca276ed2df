"""The Engine API as an application."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from kajitori.docker.engine import ENGINE, Engine, json_answer, sentence
from kajitori.docker.hijack import answered
from kajitori.docker.routes import (
    absent,
    attaching,
    commands,
    containers,
    files,
    images,
    networks,
    system,
    volumes,
    watching,
)
from kajitori.docker.routes.system import LEAST_API, MOST_API
from kajitori.errors import InvalidInput, KajitoriError

log = logging.getLogger(__name__)

MOST_BODY_BYTES = 16 << 20

_IS_ANSWERED = web.RequestKey("is_answered", bool)
"""Whether the answer to a request has begun."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(engine: Engine) -> web.Application:
    """Return the application. Each route exists with and without a version, such as /v1.44/containers/json."""
    app = web.Application(middlewares=[_answers], client_max_size=MOST_BODY_BYTES)
    app.on_response_prepare.append(_note_answer)
    app[ENGINE] = engine
    for table in (containers, attaching, commands, watching, files, system, images, volumes, networks, absent):
        for route in table.routes:
            assert isinstance(route, web.RouteDef)
            for path in (route.path, r"/v{version:\d+\.\d+}" + route.path):
                web.RouteDef(route.method, path, route.handler, route.kwargs).register(app.router)
    return app


async def _note_answer(request: web.Request, _response: web.StreamResponse) -> None:
    request[_IS_ANSWERED] = True


@web.middleware
async def _answers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the version that the client speaks, and turn errors into Docker's."""
    version = request.match_info.get("version")
    response: web.StreamResponse
    try:
        if version is not None:
            check_version(version)
        response = await handler(request)
    except KajitoriError as error:
        if request.get(_IS_ANSWERED):  # the client has to see that the answer is not complete
            log.warning("%s %s: %s", request.method, request.path, error)
            return answered()
        response = error_answer(error)
    except web.HTTPNotFound:
        response = json_answer({"message": "page not found"}, status=404)
    except web.HTTPException:
        raise
    except ConnectionError as error:  # the client is gone, or has to see that the answer is not complete
        log.info("%s %s: %s", request.method, request.path, error)
        return answered()
    except Exception:
        log.exception("%s %s", request.method, request.path)
        if request.get(_IS_ANSWERED):
            return answered()
        response = json_answer({"message": "this is a bug in kaji docker; its log has the details"}, status=500)
    if not response.prepared:
        response.headers.update({"Api-Version": MOST_API, "Ostype": "linux", "Server": "kajitori (linux)"})
        response.headers.update({"Docker-Experimental": "false", "Swarm": "inactive", "Builder-Version": "1"})
    return response


def error_answer(error: KajitoriError) -> web.Response:
    """Return the answer that carries an error."""
    status = 400 if isinstance(error, InvalidInput) else error.http_status
    return json_answer({"message": sentence(error)}, status=status)


def check_version(version: str) -> None:
    """Raise InvalidInput for a version of the Engine API that is not spoken, in the daemon's words."""
    if _number(version) > _number(MOST_API):
        message = f"client version {version} is too new. Maximum supported API version is {MOST_API}"
        raise InvalidInput.one("", message)
    if _number(version) < _number(LEAST_API):
        message = f"client version {version} is too old. Minimum supported API version is {LEAST_API}, please upgrade"
        raise InvalidInput.one("", f"{message} your client to a newer version")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
