"""The processes of a member: list them, and send one a signal.

The API server decides whether the caller may do so (`create pods/exec`), by the caller's own credentials.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.runs.members.commands import Container, member_container, output_of
from kajitori.api.views.runs import ProcessList, RunningProcess, Signalled
from kajitori.core.documents.faults import Document
from kajitori.core.telemetry.processes import LOOK, Process, read_processes
from kajitori.errors import Unavailable, WrongState

router = APIRouter(tags=["runs"])

SignalName = Literal["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"]
_SEND = ("/bin/sh", "-c", 'kill -s "$1" "$2"', "sh")


class MemberParameters(Parameters):
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""


class SignalRequest(Document):
    """A signal for one process of a member."""

    signal: SignalName
    """Name of the signal, without SIG."""
    pid: int = Field(ge=1, le=2**31 - 1)
    """The process, as `GET …/processes` names it."""
    rank: int = Field(default=0, ge=0, le=99_999)
    """The rank of the member."""


@router.get(
    "/v1/runs/{namespace}/{name}/processes", responses=describes(ProcessList), summary="List the processes of a member"
)
async def list_processes(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[MemberParameters, Query()]
) -> Response:
    """Each with its processor time, memory and age, read from /proc inside the member. Needs the right to run programs
    in members, and /bin/sh and head in the image."""
    container = await member_container(api, user, namespace, name, query.rank)
    items = [
        RunningProcess(
            pid=one.pid,
            ppid=one.parent,
            cpu_seconds=one.cpu_seconds,
            memory_bytes=one.memory_bytes,
            age_seconds=one.age_seconds,
            command=one.command,
        )
        for one in await _processes_of(container, f"rank {query.rank} of {name}")
    ]
    return answer(ProcessList(rank=query.rank, node=container.pod.spec.node_name, items=items))


@router.post(
    "/v1/runs/{namespace}/{name}/signal",
    responses=describes(Signalled),
    openapi_extra=takes(SignalRequest),
    summary="Send a process of a member a signal",
)
async def send_signal(api: Shared, user: Caller, request: Request, namespace: str, name: str) -> Response:
    """Only this process gets it. To end a whole run, stop it. Needs the right to run programs in members."""
    wanted = await body_of(request, SignalRequest)
    whose, hint = f"rank {wanted.rank} of {name}", f"see what runs there: kaji top --rank {wanted.rank} {name}"
    container = await member_container(api, user, namespace, name, wanted.rank)
    # A member without PIDs of its own could reach other processes of its machine.
    if wanted.pid not in {process.pid for process in await _processes_of(container, whose)}:
        raise WrongState(f"{whose} has no process {wanted.pid} now", hint=hint)
    request.state.reason = f"{wanted.signal} to process {wanted.pid} of {whose}"  # for the audit trail
    output = await output_of(container, (*_SEND, wanted.signal, str(wanted.pid)))
    if output.exit_code != 0:
        message = f"process {wanted.pid} of {whose} did not get {wanted.signal}: {output.why}"
        raise WrongState(message, hint=hint)
    return answer(Signalled(rank=wanted.rank, pid=wanted.pid, signal=wanted.signal))


async def _processes_of(container: Container, whose: str) -> list[Process]:
    output = await output_of(container, ("/bin/sh", "-c", LOOK))
    processes = read_processes(output.text.decode("utf-8", "replace"))
    if not processes:
        hint = "this needs /bin/sh and head in the image"
        raise Unavailable(f"the processes of {whose} can't be read: {output.why}", hint=hint)
    return processes
