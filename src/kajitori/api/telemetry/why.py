"""Route that tells whether a run is stuck, and for which rank the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.paging import Parameters
from kajitori.api.telemetry.routes import intervals_of
from kajitori.api.telemetry.stacks import MAX_RANKS, grouped, running_members, take_stacks
from kajitori.api.views.runs import phase_of
from kajitori.api.views.stacks import RunReason
from kajitori.cluster.objects import Pod
from kajitori.core.spec.stored import read_stored
from kajitori.core.telemetry.flight import compare
from kajitori.core.telemetry.stacks import ProcessStacks
from kajitori.core.telemetry.stuck import Verdict, judge, stood_still, told
from kajitori.core.words.times import format_time, time_at
from kajitori.kube.resources import PODS

router = APIRouter(tags=["telemetry"])

JUDGED_SECONDS = 24 * 3600
"""Time of a run that is looked at to learn its rhythm."""
BETWEEN_SECONDS = 1.0
"""Time between two looks at the same processes."""
MAX_LATE = 8
"""Most process groups about which the flight recorder is quoted."""
_NO_RIGHT = "Where its processes are is shown to those who may run programs in its members (create pods/exec)."


class WhyParameters(Parameters):
    look: bool = True
    """Take stacks; else the answer says only what was measured."""


@router.get("/v1/runs/{namespace}/{name}/why", responses=describes(RunReason), summary="Explain whether a run is stuck")
async def why(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[WhyParameters, Query()]
) -> Response:
    """A batch run is suspected to be stuck after a quiet time that is learned from its own rhythm. Then the stacks of
    its processes are taken twice; if none of them moved, it is stuck. Stacks need the right `create pods/exec`."""
    run = await find_run(api, user, namespace, name)
    now = api.now().timestamp()
    pods = running_members(api, run)
    attempt = run.status.attempts if run.status is not None else 0
    found = RunReason(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        attempt=attempt,
        phase=phase_of(run).value,
        verdict=Verdict.UNKNOWN.value,
        words=[],
    )
    if not pods:
        message = run.status.message if run.status is not None else ""
        found.words = [
            f"{run.metadata.name} is {found.phase}: none of its members is running.",
            *filter(None, [message]),
        ]
        return answer(found)
    spec = read_stored(run.spec)
    patience = api.policy.current().policy.stuck.patience(spec.type, spec.stuck_after_seconds)
    judged = []
    if patience is not None and not spec.is_sweep:  # members of a sweep are independent
        judged = await intervals_of(api, run, now - JUDGED_SECONDS, now)
    finding = judge((each for each in judged if each.attempt == attempt), now, patience)
    found.verdict = finding.verdict.value
    if finding.quiet_seconds:
        found.since = format_time(time_at(now - finding.quiet_seconds))
    is_suspected = finding.verdict is Verdict.SUSPECTED
    is_still = await _look(api, user, pods, found, twice=is_suspected) if query.look else None
    if is_still:
        found.verdict = "stuck"
    found.words.insert(0, told(finding, is_still=is_still))
    return answer(found)


async def _look(api: Api, user: User, running: Mapping[int, Pod], found: RunReason, *, twice: bool) -> bool | None:
    """Add the places of the processes in their programs to the answer.

    Returns whether the processes stood still between two looks; None if it looked once or not at all.
    """
    if not await user.may("create", found.namespace, resource=PODS, subresource="exec"):
        found.words.append(_NO_RIGHT)
        return None
    pods = dict(sorted(running.items())[:MAX_RANKS])
    taken = await take_stacks(api, pods)
    if not taken.ranks:
        found.words.append(f"Where its processes are is not known: {taken.trouble}.")
        return None
    groups = grouped(taken, pods)
    found.groups = groups
    found.words += [f"{each.words[:1].upper()}{each.words[1:]}." for each in groups]
    nodes = {rank: pod.spec.node_name for rank, pod in pods.items()}
    late = compare({rank: each.flights for rank, each in taken.ranks.items()}, nodes)
    found.words += [f"PyTorch's flight recorder: {each.text}." for each in late[:MAX_LATE]]
    found.late = sorted({rank for each in late for rank in each.members})
    if not twice:
        return None
    await asyncio.sleep(BETWEEN_SECONDS)
    again = await take_stacks(api, pods)
    first: dict[int, tuple[ProcessStacks, ...]] = {rank: each.processes for rank, each in taken.ranks.items()}
    second = {rank: each.processes for rank, each in again.ranks.items()}
    return stood_still(first, second)
