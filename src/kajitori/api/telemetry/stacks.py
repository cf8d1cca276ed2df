"""Route for the stacks of a run's processes, asked from the nodes of its ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rendering.runs import phase_of
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.telemetry.live import questions_of
from kajitori.api.views.stacks import (
    FrameView,
    MemberStacksView,
    ProcessView,
    RunStacks,
    StackGroupView,
    ThreadView,
)
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of, nodes_and_addresses
from kajitori.core.formats.node_lists import compress, compress_ranks
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.gang import MemberState
from kajitori.core.telemetry.hangs import native
from kajitori.core.telemetry.hangs.evidence import Evidence, Reading, read
from kajitori.core.telemetry.hangs.stacks import Detail, MemberStacks, ProcessStacks, ThreadStack
from kajitori.errors import KajitoriError, NotFound, WrongState
from kajitori.kube.resources import PODS

router = APIRouter(tags=["telemetry"])

MAX_RANKS = 4096
"""Most ranks that one answer is about."""


class StacksParameters(Parameters):
    rank: list[Annotated[int, Field(ge=0, le=99_999)]] = Field(default_factory=list, max_length=MAX_RANKS)
    """Only these ranks; else all, at most the first 4,096."""
    native: bool = False
    """Take calls in native code as well: of the ranks in `rank` if these are at most eight, else of one or two of each
    group. A process is stopped for half a second or more for that."""
    attempt: int | None = Field(default=None, ge=1)
    """Answer with the newest stacks that were kept of this attempt, instead of a look at its processes."""


@router.get(
    "/v1/runs/{namespace}/{name}/stacks", responses=describes(RunStacks), summary="Show stacks of a run's processes"
)
async def run_stacks(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, query: Annotated[StacksParameters, Query()]
) -> Response:
    """Stacks of the processes of each rank, taken by the agents on their nodes, and the ranks grouped by them: the odd
    ones first. With `attempt`, those that were kept of it, also of a run that has ended or was removed. Needs the right
    to run programs in the members (`create pods/exec`), because stacks show code."""
    run = await find_run_or_record(api, user, namespace, name)
    await user.require("create", run.metadata.namespace, resource=PODS, subresource="exec")
    about = f"run {run.metadata.name}"
    api.audit.note(request.scope, user.name, "read stacks", namespace=run.metadata.namespace, object=about)
    if query.attempt is not None:
        return answer(await _kept(api, run, query.attempt, query.rank))
    pods = running_members(api, run)
    if not pods:
        message = f"{run.metadata.name} is {phase_of(run).value}: none of its members is running"
        raise WrongState(message, hint=f"for details: kaji describe {run.metadata.name}")
    missing = next((rank for rank in query.rank if rank not in pods), None)
    if missing is not None:
        hint = f"see kaji describe {run.metadata.name}"
        raise NotFound(f"{run.metadata.name} has no running member of rank {missing} now", hint=hint)
    chosen = {rank: pods[rank] for rank in sorted(set(query.rank) or pods)[:MAX_RANKS]}
    nodes, addresses = nodes_and_addresses(chosen)
    taken = await take_stacks(api, chosen)
    if query.native:
        await add_native(api, chosen, taken, chosen=query.rank)
    view = RunStacks(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        attempt=run.status.attempts if run.status is not None else 0,
        at=format_time(api.now()),
        groups=group_views(read(taken.ranks, nodes, addresses), nodes),
        ranks=[_member(rank, nodes[rank], each) for rank, each in sorted(taken.ranks.items())],
        silent=sorted(set(chosen) - set(taken.ranks)),
        trouble=taken.trouble,
    )
    return answer(view)


async def _kept(api: Api, run: RunObject, attempt: int, ranks: Sequence[int]) -> RunStacks:
    """Return the newest stacks that were kept of an attempt. Raises NotFound if there are none, or none of a rank."""
    kept = (await kept_evidence(api, run, attempt))[-1]
    missing = next((rank for rank in ranks if rank not in kept.ranks), None)
    if missing is not None:
        hint = f"ranks with stacks: {compress_ranks(sorted(kept.ranks))}"
        raise NotFound(f"no stacks of rank {missing} in attempt {attempt} were kept", hint=hint)
    shown = sorted(set(ranks) or kept.ranks)[:MAX_RANKS]
    return RunStacks(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        attempt=attempt,
        at=format_time(time_at(kept.at)),
        groups=group_views(read({rank: kept.ranks[rank] for rank in shown}, kept.nodes, kept.addresses), kept.nodes),
        ranks=[_member(rank, kept.nodes.get(rank, ""), kept.ranks[rank]) for rank in shown],
        silent=[] if ranks else sorted(set(kept.nodes) - set(kept.ranks)),
        trouble="",
    )


async def kept_attempts(api: Api, run: RunObject) -> list[int]:
    """Return the attempts of which stacks are kept."""
    meta = run.metadata
    return await api.stores.logs.stacks.attempts(meta.namespace, meta.uid) if api.stores.logs is not None else []


async def kept_evidence(api: Api, run: RunObject, attempt: int) -> list[Evidence]:
    """Return the stacks that were kept of an attempt, the oldest first. Raises NotFound if there are none."""
    meta = run.metadata
    kept = [] if api.stores.logs is None else await api.stores.logs.stacks.read(meta.namespace, meta.uid, attempt)
    if not kept:
        others = compress_ranks(await kept_attempts(api, run))
        hint = f"attempts with stacks: {others}" if others else "stacks are kept of attempts that hang or fail"
        raise NotFound(f"no stacks of attempt {attempt} of {meta.name} were kept", hint=hint)
    return kept


def running_members(api: Api, run: RunObject) -> dict[int, Pod]:
    """Return the Pods of the members that run, by rank."""
    running = {}
    for rank, pod in newest_pods(api.mirror.pods_of_run(run)).items():
        member = member_of(pod, api.mirror.nodes)
        if member is not None and member.state is MemberState.RUNNING and pod.spec.node_name:
            running[rank] = pod
    return running


@dataclass
class Taken:
    """The stacks of the ranks on nodes that answered."""

    ranks: dict[int, MemberStacks] = field(default_factory=dict)
    trouble: str = ""
    """Why one of the others has none."""


async def add_native(api: Api, pods: Mapping[int, Pod], taken: Taken, chosen: Sequence[int] = ()) -> None:
    """Add calls in native code: of the chosen ranks if these are few, else of representatives of the groups."""
    if not 0 < len(set(chosen)) <= native.MAX_RANKS:
        chosen = native.representatives(read(taken.ranks, *nodes_and_addresses(pods)).groups)
    more = await take_stacks(api, {rank: pods[rank] for rank in chosen}, Detail.NATIVE)
    taken.ranks = native.added(taken.ranks, more.ranks)


async def take_stacks(api: Api, pods: Mapping[int, Pod], detail: Detail = Detail.PLAIN) -> Taken:
    """Ask the nodes of these ranks, all at the same time."""
    taken = Taken()

    async def ask(node: str, ranks: Mapping[str, int]) -> None:
        try:
            reply = await api.telemetry.ask(node, tuple(ranks), 0.0, fresh=False, stacks=True, detail=detail)
        except KajitoriError as error:
            taken.trouble = error.message
            return
        taken.ranks |= {ranks[each.uid]: each for each in reply.stacks if each.uid in ranks}
        if not reply.stacks:
            taken.trouble = f"the agent of node {node} has no stacks of these members, or is too old to take them"

    await asyncio.gather(*(ask(node, ranks) for node, ranks in questions_of(pods)))
    return taken


def group_views(reading: Reading, nodes: Mapping[int, str]) -> list[StackGroupView]:
    """Return the ranks by the places of their processes, with their nodes."""
    pairs = zip(reading.groups, reading.places, strict=True)
    return [
        StackGroupView(list(group.ranks), group.odd, words, _nodes_of(group.ranks, nodes)) for group, words in pairs
    ]


def _nodes_of(ranks: Sequence[int], nodes: Mapping[int, str]) -> str:
    return compress(dict.fromkeys(nodes[rank] for rank in ranks if nodes.get(rank)))


def _member(rank: int, node: str, stacks: MemberStacks) -> MemberStacksView:
    at = format_time(time_at(stacks.at))
    return MemberStacksView(rank, node, at, [_process(each) for each in stacks.processes], stacks.left_out)


def _process(process: ProcessStacks) -> ProcessView:
    threads, calls = ([_thread(thread) for thread in stacks] for stacks in (process.threads, process.native))
    return ProcessView(
        process.pid,
        process.command,
        process.state,
        threads,
        process.waits_in,
        process.trouble,
        calls,
        process.native_trouble,
    )


def _thread(thread: ThreadStack) -> ThreadView:
    return ThreadView(
        thread.name, thread.active, [FrameView(frame.function, frame.file, frame.line) for frame in thread.frames]
    )
