"""WebSockets to members of runs: who may open one, to which Pod it leads, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from kajitori.api.answers.paging import Parameters
from kajitori.api.answers.problems import bug_response, error_response, parameter_faults
from kajitori.api.auth import authenticated
from kajitori.api.context import Api, api_of
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.runs.tracking import RunTracker
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.gang import MemberState
from kajitori.core.spec.reasons import Phase
from kajitori.errors import InvalidInput, KajitoriError, NotFound, WrongState
from kajitori.kube.errors import PortUnreachable

PODS_PATIENCE_SECONDS = 5.0
"""Time for which the Pod of a member of a running run may be missing or not running in the mirror."""

POLICY_VIOLATION = 1008
"""Close code of a WebSocket whose caller has lost its right (RFC 6455, section 7.4.1)."""
INTERNAL_ERROR = 1011
BAD_GATEWAY = 1014
"""Close code of a WebSocket if nothing listens on the port that it leads to (IANA's registry of close codes)."""

P = TypeVar("P", bound=Parameters)


async def serve_member_stream(socket: WebSocket, serve: Callable[[Api, User], Awaitable[None]]) -> None:
    """Authenticate the caller, then run `serve`, which accepts the WebSocket. Refuse a request that cannot be served
    with a problem before the handshake."""
    api = api_of(socket)
    try:
        async with asynccontextmanager(authenticated)(socket) as user:
            await serve(api, user)
    except KajitoriError as error:
        await socket.send_denial_response(error_response(error))
    except WebSocketDisconnect:
        pass
    except Exception as error:
        response = bug_response(error)
        if socket.application_state.name == "CONNECTING":
            await socket.send_denial_response(response)


def parameters(socket: WebSocket, model: type[P], *, repeated: Sequence[str] = ()) -> P:
    """Return the query parameters; those that may be `repeated` as lists. Raises InvalidInput."""
    given: dict[str, Any] = {}
    for key, value in socket.query_params.multi_items():
        if key in repeated:
            given.setdefault(key, []).append(value)
        else:
            given[key] = value
    try:
        return model.model_validate(given)
    except ValidationError as error:
        errors = [{**fault, "loc": ("query", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise InvalidInput(parameter_faults(errors, tuple(model.model_fields))) from None


def check_protocol(socket: WebSocket, protocol: str) -> None:
    """Raise InvalidInput unless the caller offers this protocol."""
    if protocol not in socket.scope.get("subprotocols", ()):
        raise InvalidInput.one("Sec-WebSocket-Protocol", f"must offer {protocol}")


async def running_pod(api: Api, user: User, run: RunObject, rank: int) -> Pod:
    """Return the Pod of a member that is running. A new status of a run may be in the mirror before those of its Pods,
    so a run that is Running is looked at again as it changes."""
    until = time.monotonic() + PODS_PATIENCE_SECONDS
    with RunTracker(api, user, run, pods=True) as tracker:
        while True:
            try:
                return _pod_of(api, tracker.look(), rank)
            except (WrongState, NotFound):
                left_seconds = until - time.monotonic()
                if tracker.gone or phase_of(tracker.run) is not Phase.RUNNING or left_seconds <= 0:
                    raise
            await tracker.changed(left_seconds)


def _pod_of(api: Api, run: RunObject, rank: int) -> Pod:
    """Return the Pod of a member that is running. Raises WrongState if it is not, NotFound if there is no Pod."""
    name = run.metadata.name
    pods = newest_pods(api.mirror.pods_of_run(run))
    pod = pods.get(rank)
    member = member_of(pod, api.mirror.nodes) if pod is not None else None
    if not pods:
        message = f"{name} is {phase_of(run).value}: none of its members is running"
        raise WrongState(message, hint=f"for details: kaji describe {name}")
    if pod is None or member is None:
        hint = f"its members now: {compress_ranks(sorted(pods))}; for details: kaji describe {name}"
        raise NotFound(f"{name} has no member of rank {rank} now", hint=hint)
    if member.state is not MemberState.RUNNING:
        is_pending = member.state is MemberState.PENDING
        hint = "wait until it is running" if is_pending else f"start it again: kaji resume {name}"
        raise WrongState(f"rank {rank} of {name} is {member.state.value}, not running", hint=hint)
    return pod


@contextlib.contextmanager
def while_allowed(api: Api, socket: WebSocket, user: User) -> Iterator[asyncio.Future[KajitoriError]]:
    """Yield a future that holds an error once the caller has lost a right that was checked before."""
    revoked: asyncio.Future[KajitoriError] = asyncio.get_running_loop().create_future()

    def end(error: KajitoriError) -> None:
        if not revoked.done():
            revoked.set_result(error)

    with api.callers.sessions.streaming(socket.state.session, user, end):
        yield revoked


async def pass_through(
    socket: WebSocket,
    revoked: asyncio.Future[KajitoriError],
    listening: Coroutine[Any, Any, None],
    talking: Coroutine[Any, Any, None],
) -> None:
    """Pass data in both directions until either coroutine ends or the caller loses its right; then close the WebSocket
    with a code and a reason."""
    tasks = [asyncio.create_task(listening), asyncio.create_task(talking)]
    try:
        ends: set[asyncio.Future[Any]] = {*tasks, revoked}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    failure = next((r for r in results if isinstance(r, Exception) and not isinstance(r, WebSocketDisconnect)), None)
    if revoked.done():
        failure = revoked.result()
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the caller has hung up
        await socket.close(*_end(failure, revoked.done()))
    if failure is not None and not isinstance(failure, KajitoriError):
        bug_response(failure)


def _end(failure: Exception | None, is_revoked: bool) -> tuple[int, str]:
    """Return code and reason with which the WebSocket is closed."""
    if failure is None:
        return 1000, ""
    code = INTERNAL_ERROR
    if is_revoked:
        code = POLICY_VIOLATION
    elif isinstance(failure, PortUnreachable):
        code = BAD_GATEWAY
    reason = failure.message if isinstance(failure, KajitoriError) else "this is a bug in Kajitori"
    return code, reason.encode()[:120].decode(errors="ignore")
