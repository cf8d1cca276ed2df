"""The processes of members: list them, and send one a signal, or the programs of a run.

The API server decides whether the caller may do so (`create pods/exec`), by the caller's own credentials.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.rendering.runs import phase_of
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.rights import User
from kajitori.api.runs.changes.compare_and_swap import Expected, other_run, uid_of
from kajitori.api.runs.members.commands import Container, member_container, output_of
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.runs.members.ranks import ranks_of
from kajitori.api.runs.members.streams import running_pod
from kajitori.api.views.runs import ProcessList, RunningProcess, Signalled, SignalledProgram, SignalledPrograms
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.core.documents.faults import Document
from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.gang import MemberState
from kajitori.core.naming import names
from kajitori.core.telemetry.processes import LOOK, Process, program_of, read_processes
from kajitori.errors import InvalidInput, KajitoriError, Unavailable, WrongState
from kajitori.kube.resources import PODS

router = APIRouter(tags=["runs"])

SignalName = Literal["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"]
_AT_ONCE = 32
"""Members to which signals are sent at the same time."""
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


class ProgramSignalRequest(Document):
    """A signal for the programs of a run's members."""

    signal: SignalName
    """Name of the signal, without SIG."""
    ranks: Annotated[str, Field(max_length=1000)] = ""
    """Ranks as ranges, for example `0-3,7`; empty: all members that run."""


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


@router.post(
    "/v1/runs/{namespace}/{name}/signal-programs",
    responses=describes(SignalledPrograms),
    openapi_extra=takes(ProgramSignalRequest),
    summary="Send the programs of a run's members a signal",
)
async def signal_programs(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Each member's first process gets it, not what that started. The run goes on: what a program does then is its own
    end, or none. Needs the right to run programs in members, and /bin/sh and head in the image. The answer has each
    member, and what kept its program from getting the signal."""
    wanted = await body_of(request, ProgramSignalRequest)
    run = await find_run(api, user, namespace, name)
    if run.metadata.uid != (uid_of(expected) or run.metadata.uid):
        raise other_run(name)
    await user.require("create", namespace, resource=PODS, subresource="exec")
    ranks = _ranks(run, wanted.ranks) or [
        rank
        for rank, pod in sorted(newest_pods(api.mirror.pods_of_run(run)).items())
        if (member := member_of(pod, api.mirror.nodes)) is not None and member.state is MemberState.RUNNING
    ]
    if not ranks:
        message = f"{name} is {phase_of(run).value}: none of its members is running"
        raise WrongState(message, hint=f"for details: kaji describe {name}")
    request.state.reason = f"{wanted.signal} to the programs of {wanted.ranks or 'all ranks'}"  # for the audit trail
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def send(rank: int) -> SignalledProgram:
        async with at_once:
            try:
                return await _signal_program(api, user, run, rank, wanted.signal)
            except KajitoriError as error:
                return SignalledProgram(rank=rank, error=str(error))

    items = await asyncio.gather(*map(send, ranks))
    return answer(SignalledPrograms(signal=wanted.signal, items=items))


def _ranks(run: RunObject, text: str) -> list[int]:
    """Return the ranks that a text names. Raises InvalidInput if it is no list, or for members that the run lacks."""
    try:
        ranks = sorted(set(expand_ranks(text, limit=100_000)))
    except ValueError as error:
        raise InvalidInput.one("ranks", str(error), value=text, hint="write ranks as 3, 0-3 or 0-3,7") from None
    try:
        return ranks_of(run, ranks) if ranks else []
    except InvalidInput as error:
        raise error.renamed({"rank": "ranks"}) from None


async def _signal_program(api: Api, user: User, run: RunObject, rank: int, signal: str) -> SignalledProgram:
    whose = f"rank {rank} of {run.metadata.name}"
    container = Container(user.client, await running_pod(api, user, run, rank), names.MEMBER_CONTAINER)
    program = program_of(await _processes_of(container, whose))
    if program is None:
        raise WrongState(f"{whose} has no process now")
    if program.ignores(signal):
        return SignalledProgram(rank=rank, pid=program.pid, ignored=True)
    output = await output_of(container, (*_SEND, signal, str(program.pid)))
    if output.exit_code != 0:
        raise WrongState(f"the program of {whose} did not get {signal}: {output.why}")
    return SignalledProgram(rank=rank, pid=program.pid)


async def _processes_of(container: Container, whose: str) -> list[Process]:
    output = await output_of(container, ("/bin/sh", "-c", LOOK))
    processes = read_processes(output.text.decode("utf-8", "replace"))
    if not processes:
        hint = "this needs /bin/sh and head in the image"
        raise Unavailable(f"the processes of {whose} can't be read: {output.why}", hint=hint)
    return processes
