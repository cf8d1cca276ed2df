"""Run a program inside a member over a WebSocket, which passes through the channels of `v5.channel.k8s.io`.

The API server decides whether the caller may do so (`create pods/exec`), by the caller's own token.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, WebSocket
from pydantic import Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from kajitori.api.auth import User, authenticated
from kajitori.api.context import Api, api_of
from kajitori.api.lookup import find_run
from kajitori.api.paging import Parameters
from kajitori.api.problems import bug_response, error_response, parameter_faults
from kajitori.api.runs.members import newest_pods
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.views.runs import phase_of
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.core.gang import MemberState
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.errors import InvalidInput, KajitoriError, NotFound, WrongState
from kajitori.kube.resources import PODS
from kajitori.kube.streams import EXEC_PROTOCOL, Channel, ExecStream

router = APIRouter()

MAX_TERMINAL_SIZE = 65_535

PODS_PATIENCE_SECONDS = 5.0
"""Time for which the Pod of a member of a running run may be missing or not running in the mirror."""

POLICY_VIOLATION = 1008
"""Close code of a WebSocket whose caller has lost its right (RFC 6455, section 7.4.1)."""


class ExecParameters(Parameters):
    command: list[Annotated[str, Field(max_length=65_536)]] = Field(min_length=1, max_length=1024)
    """The program and its arguments; repeat the parameter for each."""
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""
    stdin: bool = False
    """The caller sends standard input on channel 0."""
    tty: bool = False
    """Allocate a terminal; the caller sends its size on channel 4."""


@router.websocket("/v1/runs/{namespace}/{name}/exec")
async def exec_in_member(socket: WebSocket, namespace: str, name: str) -> None:
    """Run a program in a member. A request that cannot be served is refused with a problem before the handshake."""
    api = api_of(socket)
    try:
        async with asynccontextmanager(authenticated)(socket) as user:
            await _serve(socket, api, user, namespace, name)
    except KajitoriError as error:
        await socket.send_denial_response(error_response(error))
    except WebSocketDisconnect:
        pass
    except Exception as error:
        response = bug_response(error)
        if socket.application_state.name == "CONNECTING":
            await socket.send_denial_response(response)


async def _serve(socket: WebSocket, api: Api, user: User, namespace: str, name: str) -> None:
    query = _parameters(socket)
    run = await find_run(api, user, namespace, name)
    pod = await _running_pod(api, user, run, query.rank)
    if EXEC_PROTOCOL not in socket.scope.get("subprotocols", ()):
        raise InvalidInput.one("Sec-WebSocket-Protocol", f"must offer {EXEC_PROTOCOL}")
    await user.may("create", namespace, resource=PODS, subresource="exec")  # a recorded right is checked again
    async with await _open(user, pod, query) as program:
        await socket.accept(subprotocol=EXEC_PROTOCOL)
        about = f"run {run.metadata.name}"
        api.audit.note(socket.scope, user.name, "exec in run", namespace=namespace, object=about)
        revoked: asyncio.Future[KajitoriError] = asyncio.get_running_loop().create_future()
        with api.callers.sessions.streaming(socket.state.session, user, lambda error: _settle(revoked, error)):
            await _pass_through(socket, program, revoked)


async def _running_pod(api: Api, user: User, run: RunObject, rank: int) -> Pod:
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
        raise NotFound(f"{name} has no member of rank {rank} now", hint=f"see kaji describe {name}")
    if member.state is not MemberState.RUNNING:
        hint = "wait until it is running" if member.state is MemberState.PENDING else "resume the run first"
        raise WrongState(f"rank {rank} of {name} is {member.state.value}, not running", hint=hint)
    return pod


def _parameters(socket: WebSocket) -> ExecParameters:
    given: dict[str, Any] = {}
    for key, value in socket.query_params.multi_items():
        if key == "command":
            given.setdefault("command", []).append(value)
        else:
            given[key] = value
    try:
        return ExecParameters.model_validate(given)
    except ValidationError as error:
        errors = [{**fault, "loc": ("query", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise InvalidInput(parameter_faults(errors, ("command", "rank", "stdin", "tty"))) from None


async def _open(user: User, pod: Pod, query: ExecParameters) -> ExecStream:
    meta = pod.metadata
    return await user.client.open_exec(
        meta.namespace,
        meta.name,
        command=query.command,
        container=names.MEMBER_CONTAINER,
        stdin=query.stdin,
        tty=query.tty,
    )


def _settle(revoked: asyncio.Future[KajitoriError], error: KajitoriError) -> None:
    if not revoked.done():
        revoked.set_result(error)


async def _pass_through(socket: WebSocket, program: ExecStream, revoked: asyncio.Future[KajitoriError]) -> None:
    """Pass data in both directions until the program ends, the caller hangs up, or the caller loses its right."""
    listening = asyncio.create_task(_listen(socket, program))
    talking = asyncio.create_task(_talk(socket, program))
    try:
        ends: set[asyncio.Future[Any]] = {listening, talking, revoked}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, talking):
            task.cancel()
        results = await asyncio.gather(listening, talking, return_exceptions=True)
    failure = next((r for r in results if isinstance(r, Exception) and not isinstance(r, WebSocketDisconnect)), None)
    if revoked.done():
        failure = revoked.result()
    try:
        if failure is None:
            await socket.close(1000)
        else:
            reason = failure.message if isinstance(failure, KajitoriError) else "this is a bug in Kajitori"
            await socket.close(
                POLICY_VIOLATION if revoked.done() else 1011, reason.encode()[:120].decode(errors="ignore")
            )
    except (RuntimeError, WebSocketDisconnect):
        pass  # the caller has hung up
    if failure is not None and not isinstance(failure, KajitoriError):
        bug_response(failure)


async def _talk(socket: WebSocket, program: ExecStream) -> None:
    async for channel, payload in program:
        await socket.send_bytes(bytes((channel,)) + payload)
    end = msgspec.json.encode(end_status(program.exit_code, program.message))
    await socket.send_bytes(bytes((Channel.ERROR,)) + end)


async def _listen(socket: WebSocket, program: ExecStream) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes") or (message.get("text") or "").encode()
        if not data:
            continue
        channel, payload = data[0], data[1:]
        if channel == Channel.STDIN and payload:
            await program.write(payload)
        elif channel == Channel.RESIZE:
            size = _size(payload)
            if size is not None:
                await program.resize(*size)
        elif channel == Channel.CLOSE and payload[:1] == bytes((Channel.STDIN,)):
            await program.close_stdin()


def _size(payload: bytes) -> tuple[int, int] | None:
    """Return the columns and rows of a resize message; None if they are no valid size."""
    try:
        size = msgspec.json.decode(payload, type=_Size)
    except (msgspec.MsgspecError, RecursionError):
        return None
    fits = 0 < size.Width <= MAX_TERMINAL_SIZE and 0 < size.Height <= MAX_TERMINAL_SIZE
    return (size.Width, size.Height) if fits else None


class _Size(msgspec.Struct):
    Width: int
    Height: int


def end_status(exit_code: int | None, message: str) -> dict[str, Any]:
    """Return the Status that ends an exec, in the API server's format."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    status: dict[str, Any] = {"metadata": {}, "status": "Failure", "message": message}
    if exit_code is None:
        return status | {"reason": "InternalError", "code": 500}
    causes = [{"reason": "ExitCode", "message": str(exit_code)}]
    return status | {"reason": "NonZeroExitCode", "details": {"causes": causes}}
