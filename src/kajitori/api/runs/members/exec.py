"""Run a program inside a member, or attach to its own program, over a WebSocket that passes through the channels of
`v5.channel.k8s.io`.

The API server decides whether the caller may do so (`create pods/exec`, `create pods/attach`), by the caller's own
token.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec
from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketState

from kajitori.api.answers.paging import Parameters
from kajitori.api.answers.problems import parameter_faults, problem_of
from kajitori.api.context import Api
from kajitori.api.lookup import find_run
from kajitori.api.rights import User
from kajitori.api.runs.members.streams import (
    check_protocol,
    parameters,
    pass_through,
    running_pod,
    serve_member_stream,
    while_allowed,
)
from kajitori.api.runs.members.terminal_notices import TerminalNotices
from kajitori.api.streams.attachments import Attached, Attachment
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.core.spec.reading.stored import read_stored
from kajitori.errors import InvalidInput, KajitoriError, NotFound, WrongState
from kajitori.kube.resources import PODS
from kajitori.kube.streams import EXEC_PROTOCOL, Channel, ExecStream

router = APIRouter()

MAX_TERMINAL_SIZE = 65_535
MAX_WORDS = 32_768
WORDS_SECONDS = 15.0
"""Time within which the message with the words of a command arrives."""

Word: TypeAlias = Annotated[str, Field(max_length=131_071)]
"""A word that Linux passes on to a program (MAX_ARG_STRLEN)."""
_WORDS = TypeAdapter(Annotated[list[Word], Field(min_length=1, max_length=MAX_WORDS)])


class ExecParameters(Parameters):
    command: list[Word] = Field(default=[], max_length=MAX_WORDS)
    """The program and its arguments; repeat the parameter for each."""
    words_in_message: bool = Field(default=False, alias="wordsInMessage")
    """The program and its arguments are no parameters, but the first message, in text: a list in JSON. This is for
    commands that proxies would refuse in an address."""
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""
    stdin: bool = False
    """The caller sends standard input on channel 0."""
    tty: bool = False
    """Allocate a terminal; the caller sends its size on channel 4."""
    explain: bool = False
    """The caller is a browser, which can't read the answer to a refused handshake: accept it, and say on channel 3 why
    the program can't run."""
    session: str = Field(default="", max_length=64)
    """The header `Kaji-Session` of an earlier answer, instead of a program: go on there after the connection to a
    program with a terminal broke. It is refused if the program has ended, or if this server no longer has what is
    missing; no program is started then."""
    position: int = Field(default=0, ge=0)
    """With `session`: the number of bytes that have arrived on channel 1 since the program began."""


@router.websocket("/v1/runs/{namespace}/{name}/exec")
async def exec_in_member(socket: WebSocket, namespace: str, name: str) -> None:
    """Run a program in a member. A request that cannot be served is refused with a problem before the handshake, or
    after it if the caller asks to `explain`.

    If the program has a terminal, the header `Kaji-Session` of the answer names its session. The program waits a minute
    for a caller whose connection broke.
    """

    async def serve(api: Api, user: User) -> None:
        query = parameters(socket, ExecParameters, repeated=["command"])
        if bool(query.command) + query.words_in_message + bool(query.session) != 1:
            raise InvalidInput.one("command", "must name a program, here or in the first message (wordsInMessage)")
        check_protocol(socket, EXEC_PROTOCOL)
        if query.session:
            await go_on(api, user, query)
            return
        try:
            run, program = await start(api, user, query)
        except KajitoriError as error:
            if not (query.explain or _is_accepted(socket)):
                raise
            await _refuse(socket, error)
            return
        if query.tty:
            attachment = api.runs.attachments.add(_command(user, run, query), program)
            await _serve_attachment(socket, api, user, run, attachment, 0, has_tty=True)
            return
        async with program:
            await _serve_program(socket, api, user, run, program)

    async def start(api: Api, user: User, query: ExecParameters) -> tuple[RunObject, ExecStream]:
        run = await find_run(api, user, namespace, name)
        pod = await running_pod(api, user, run, query.rank)
        await user.may("create", namespace, resource=PODS, subresource="exec")  # a recorded right is checked again
        words = await _words_in_message(socket) if query.words_in_message else query.command
        return run, await _open(user, pod, query, words)

    async def go_on(api: Api, user: User, query: ExecParameters) -> None:
        run = await find_run(api, user, namespace, name)
        await user.require("create", namespace, resource=PODS, subresource="exec")
        attachment = api.runs.attachments.find(query.session, query.position, _command(user, run, query))
        if attachment is None:
            raise NotFound("this server has no such session of a command", hint="start the command again")
        await _serve_attachment(socket, api, user, run, attachment, query.position, has_tty=True)

    await serve_member_stream(socket, serve)


class AttachParameters(Parameters):
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""
    stdin: bool = False
    """The caller sends standard input on channel 0. Needs a run with `stdin`."""
    session: str = Field(default="", max_length=64)
    """The header `Kaji-Session` of an earlier answer, for a caller whose connection broke: go on there, if this server
    still has what is missing. The answer has the same session then, and else a new one."""
    position: int = Field(default=0, ge=0)
    """With `session`: the number of bytes of output that have arrived since the session began."""


@router.websocket("/v1/runs/{namespace}/{name}/attach")
async def attach_to_member(socket: WebSocket, namespace: str, name: str) -> None:
    """Attach to the program of a member: its output from now on, its input, and its terminal if it has one.

    A caller that hangs up leaves the program running. The exit code at the end is 0 if the program has ended; the run's
    status has its real one. The header `Kaji-Session` of the answer names the session.
    """

    async def serve(api: Api, user: User) -> None:
        query = parameters(socket, AttachParameters)
        run = await find_run(api, user, namespace, name)
        spec = read_stored(run.spec)
        if query.stdin and not spec.has_stdin:
            hint = f"start it with kaji run -i, or run a program beside it: kaji exec -it {run.metadata.name} sh"
            raise WrongState(f"{run.metadata.name} has no standard input", hint=hint)
        about = Attached(user.name, run.metadata.uid, _attempt_of(run), query.rank, query.stdin)
        kept = api.runs.attachments
        if query.session:  # before `find`, from which on a kept connection no longer ends by itself
            check_protocol(socket, EXEC_PROTOCOL)
            await user.require("create", namespace, resource=PODS, subresource="attach")
        attachment, position = kept.find(query.session, query.position, about), query.position
        if attachment is None:
            position = 0
            pod = await running_pod(api, user, run, query.rank)
            check_protocol(socket, EXEC_PROTOCOL)
            # A recorded right is checked again.
            await user.may("create", namespace, resource=PODS, subresource="attach")
            program = await user.client.open_attach(
                pod.metadata.namespace,
                pod.metadata.name,
                container=names.MEMBER_CONTAINER,
                stdin=query.stdin,
                tty=spec.has_tty,
            )
            attachment = kept.add(about, program)
        await _serve_attachment(socket, api, user, run, attachment, position, has_tty=spec.has_tty)

    await serve_member_stream(socket, serve)


def _command(user: User, run: RunObject, query: ExecParameters) -> Attached:
    """Return the caller and the program of an exec with a terminal."""
    return Attached(user.name, run.metadata.uid, _attempt_of(run), query.rank, query.stdin, is_command=True)


def _attempt_of(run: RunObject) -> int:
    return run.status.attempt.number if run.status is not None and run.status.attempt is not None else 0


async def _serve_attachment(
    socket: WebSocket,
    api: Api,
    user: User,
    run: RunObject,
    attachment: Attachment,
    position: int,
    *,
    has_tty: bool,
) -> None:
    """Serve a program to its caller. If the caller's connection breaks, keep the one to the program."""
    notices = _notices(socket, api, user, run, attachment.about.rank) if has_tty else None
    caller = attachment.begin(position)
    # After a first message with words it is too late to name a session, so the caller can't come back.
    kept, has_left = api.runs.attachments, _is_accepted(socket)
    try:
        if not _is_accepted(socket):
            await socket.accept(subprotocol=EXEC_PROTOCOL, headers=[(b"kaji-session", attachment.id.encode())])
        _note(api, socket, user, run, "exec in run" if attachment.about.is_command else "attach to run")
        leaving = _Leaving()
        with while_allowed(api, socket, user) as revoked:
            async with notices.shown() if notices is not None else nullcontext():
                listening = _listen(socket, attachment.program, notices, leaving)
                await pass_through(socket, revoked, listening, _talk_to(socket, attachment, caller, notices))
        has_left = has_left or revoked.done() or leaving.is_meant
    finally:
        if attachment.leave(caller):
            is_over = attachment.is_told or attachment.failure is not None
            if not has_left and not is_over:
                kept.keep(attachment)
            if attachment.about.stdin and notices is None and not is_over:  # the input of a pipe ends with its caller
                with suppress(KajitoriError):
                    await attachment.program.close_stdin()
            if has_left or is_over:
                await kept.drop(attachment)


async def _talk_to(socket: WebSocket, attachment: Attachment, caller: int, notices: TerminalNotices | None) -> None:
    async for channel, payload in attachment.pieces(caller):
        if notices is not None:
            notices.note_output(payload)
        await socket.send_bytes(bytes((channel,)) + payload)
    if attachment.failure is not None:
        raise attachment.failure
    if attachment.is_over:
        await _send_end(socket, attachment.program)
        attachment.is_told = True


def _notices(socket: WebSocket, api: Api, user: User, run: RunObject, rank: int) -> TerminalNotices:
    async def send(data: bytes) -> None:
        await socket.send_bytes(bytes((Channel.STDERR,)) + data)

    return TerminalNotices(api, user, run, rank, send)


async def _serve_program(socket: WebSocket, api: Api, user: User, run: RunObject, program: ExecStream) -> None:
    """Serve a program without a terminal until it ends or the caller leaves."""
    if not _is_accepted(socket):
        await socket.accept(subprotocol=EXEC_PROTOCOL)
    _note(api, socket, user, run, "exec in run")
    with while_allowed(api, socket, user) as revoked:
        await pass_through(socket, revoked, _listen(socket, program, None, _Leaving()), _talk(socket, program))


def _note(api: Api, socket: WebSocket, user: User, run: RunObject, action: str) -> None:
    meta = run.metadata
    api.audit.note(socket.scope, user.name, action, namespace=meta.namespace, object=f"run {meta.name}")


def _is_accepted(socket: WebSocket) -> bool:
    return socket.application_state is WebSocketState.CONNECTED


async def _words_in_message(socket: WebSocket) -> list[str]:
    """Accept the WebSocket, and return the words of the command that its first message has. Raises InvalidInput."""
    await socket.accept(subprotocol=EXEC_PROTOCOL)
    try:
        async with asyncio.timeout(WORDS_SECONDS):
            return _WORDS.validate_json(await socket.receive_text())
    except TimeoutError:
        raise InvalidInput.one("command", f"no words arrived within {WORDS_SECONDS:g} s") from None
    except KeyError:
        raise InvalidInput.one("command", "the first message must be text", hint="send a list in JSON") from None
    except ValidationError as error:
        faults = [{**fault, "loc": ("message", "command", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise InvalidInput(parameter_faults(faults, ())) from None


async def _refuse(socket: WebSocket, error: KajitoriError) -> None:
    if not _is_accepted(socket):
        await socket.accept(subprotocol=EXEC_PROTOCOL)
    await socket.send_bytes(bytes((Channel.ERROR,)) + msgspec.json.encode(refusal_status(error)))
    await socket.close()


async def _open(user: User, pod: Pod, query: ExecParameters, words: list[str]) -> ExecStream:
    meta = pod.metadata
    return await user.client.open_exec(
        meta.namespace,
        meta.name,
        command=words,
        container=names.MEMBER_CONTAINER,
        stdin=query.stdin,
        tty=query.tty,
    )


async def _talk(socket: WebSocket, program: ExecStream) -> None:
    async for channel, payload in program:
        await socket.send_bytes(bytes((channel,)) + payload)
    await _send_end(socket, program)


async def _send_end(socket: WebSocket, program: ExecStream) -> None:
    end = msgspec.json.encode(end_status(program.exit_code, program.message))
    await socket.send_bytes(bytes((Channel.ERROR,)) + end)


@dataclass
class _Leaving:
    """How a caller left."""

    code: int = 0
    """The close code of its WebSocket; 0 while it is there."""

    @property
    def is_meant(self) -> bool:
        """Whether the caller closed the connection; else it broke."""
        return self.code in (1000, 1001)


async def _listen(socket: WebSocket, program: ExecStream, notices: TerminalNotices | None, leaving: _Leaving) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            leaving.code = int(message.get("code") or 1006)
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
                if notices is not None:
                    notices.note_columns(size[0])
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


def refusal_status(error: KajitoriError) -> dict[str, Any]:
    """Return the Status that refuses an exec after the handshake, in the API server's format."""
    problem = problem_of(error)
    status: dict[str, Any] = {"metadata": {}, "status": "Failure", "message": problem.detail, "code": problem.status}
    if problem.hint:
        status["details"] = {"causes": [{"reason": "Hint", "message": problem.hint}]}
    return status | {"reason": problem.code}
