"""Route that answers whether a run is stuck or slow, and for which rank the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.api.telemetry.routes import intervals_of
from kajitori.api.telemetry.stacks import (
    MAX_RANKS,
    add_native,
    group_views,
    kept_attempts,
    kept_evidence,
    running_members,
    take_stacks,
)
from kajitori.api.views.stacks import RunReason
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import nodes_and_addresses
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.policy.idle import Use, use_of
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.telemetry import stragglers
from kajitori.core.telemetry.hangs.evidence import Occasion, read
from kajitori.core.telemetry.hangs.stacks import ProcessStacks
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stuck import Finding, Verdict, describe, judge, stood_still
from kajitori.errors import KajitoriError
from kajitori.kube.resources import PODS

router = APIRouter(tags=["telemetry"])

JUDGED_SECONDS = 24 * 3600
"""Time of a run that is looked at to learn its rhythm."""
BETWEEN_SECONDS = 1.0
"""Time between two looks at the same processes."""
_STILL = (
    "None of its processes moved between two looks, but what was measured is up to two minutes old: it may have gone "
    "on since. Ask again in a minute."
)
_NOT_JUDGED = {
    Use.BATCH: "Its progress is not judged: the policy has no limits for batch runs (stuck.batch).",
    Use.NOTEBOOK: "Its progress is not judged: it listens on ports, as a notebook does.",
    Use.SERVICE: "Its progress is not judged: it is a service.",
}
_NOT_JUDGED_SWEEP = "Its progress is not judged: it is a sweep, whose members do not depend on each other."
_NO_RIGHT = "Where its processes are is shown to those who may run programs in its members (create pods/exec)."


class WhyParameters(Parameters):
    look: bool = True
    """Take stacks; else the answer says only what was measured."""
    attempt: int | None = Field(default=None, ge=1)
    """Answer with the stacks that were kept of this attempt: when it was suspected to be stuck, and before its members
    were ended because one had failed."""


@router.get(
    "/v1/runs/{namespace}/{name}/why",
    responses=describes(RunReason),
    summary="Explain whether a run is stuck, and which rank slows it",
)
async def why(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[WhyParameters, Query()]
) -> Response:
    """A batch run is suspected to be stuck after a quiet time that is learned from its own rhythm. Then the stacks of
    its processes are taken twice. It is stuck if none of them moved, and the controller has confirmed it: the run made
    no progress up to a look of the controller. Stacks need the right `create pods/exec`. A rank or
    GPU that has been slower than its peers for most of the last 15 minutes is named as well."""
    run = await find_run_or_record(api, user, namespace, name)
    if query.attempt is not None:
        await user.require("create", run.metadata.namespace, resource=PODS, subresource="exec")
        return answer(await _reason_from_kept_stacks(api, run, query.attempt))
    pods = running_members(api, run)
    return answer(
        await (_reason_of_running(api, user, run, pods, look=query.look) if pods else _reason_without_members(api, run))
    )


def _answer_about(run: RunObject, attempt: int) -> RunReason:
    """Return an answer without words."""
    meta = run.metadata
    return RunReason(
        run=meta.name,
        namespace=meta.namespace,
        attempt=attempt,
        phase=phase_of(run).value,
        verdict=Verdict.UNKNOWN.value,
        words=[],
    )


async def _reason_without_members(api: Api, run: RunObject) -> RunReason:
    """Return the answer for a run of which no member is running."""
    reason = _answer_about(run, run.current_status.attempts)
    reason.words = [f"{reason.run} is {reason.phase}: none of its members is running."]
    if message := run.current_status.message.removesuffix("."):
        reason.words.append(f"{message[:1].upper()}{message[1:]}.")
    if kept := await kept_attempts(api, run):
        reason.kept_attempts = kept
        reason.words.append(f"Stacks were kept of attempt {kept[-1]}: kaji why --attempt {kept[-1]} {reason.run}")
    return reason


async def _reason_of_running(api: Api, user: User, run: RunObject, pods: Mapping[int, Pod], *, look: bool) -> RunReason:
    """Return the answer for the running attempt, with a look at its processes if that is wanted."""
    now, attempt, spec = api.now().timestamp(), run.current_status.attempts, read_stored(run.spec)
    reason = _answer_about(run, attempt)
    use = use_of(spec.type, has_ports=spec.has_ports)
    patience = api.policy.current().policy.stuck.patience(use, spec.stuck_after_seconds)
    is_judged = patience is not None and not spec.is_sweep  # members of a sweep are independent
    intervals: list[Interval] = []
    if is_judged or spec.is_gang:
        all_intervals = await intervals_of(api, run, now - JUDGED_SECONDS, now)
        intervals = [each for each in all_intervals if each.attempt == attempt]
    finding = judge(intervals if is_judged else (), now, patience, run.current_status.members.left)
    reason.verdict = finding.verdict.value
    if finding.since:
        reason.since = format_time(time_at(finding.since))
    is_still = await _add_places(api, user, pods, reason, twice=finding.verdict is Verdict.SUSPECTED) if look else None
    if is_still and _is_confirmed(run, attempt):
        reason.verdict = Verdict.STUCK.value
    if is_judged:
        words = list(_about_progress(run, finding, is_still=is_still, is_stuck=reason.verdict == Verdict.STUCK))
    else:
        words = [_NOT_JUDGED_SWEEP if spec.is_sweep else _NOT_JUDGED[use]]
    if spec.is_gang:
        slow = stragglers.find(intervals, {rank: pod.spec.node_name for rank, pod in pods.items()}, now)
        words += [stragglers.describe_straggler(slow)] if slow is not None else []
    reason.words[:0] = words
    with suppress(KajitoriError):  # the rest of the answer does not need the storage of logs
        reason.kept_attempts = await kept_attempts(api, run)
    return reason


def _about_progress(run: RunObject, finding: Finding, *, is_still: bool | None, is_stuck: bool) -> Iterator[str]:
    """Yield sentences about the measurements, and about the controller's finding if it knows more than this look
    shows."""
    if is_still and not is_stuck:
        yield describe(finding, is_still=None)
        yield _STILL
        return
    yield describe(finding, is_still=is_still)
    stuck = run.current_status.stuck
    if finding.verdict is Verdict.SUSPECTED and is_still is False and stuck is not None:
        yield f"At {stuck.looked_at or stuck.since}: {stuck.message}"


def _is_confirmed(run: RunObject, attempt: int) -> bool:
    """Whether the controller found this attempt stuck: it made no progress up to a look at its processes."""
    stuck = run.status.stuck if run.status is not None else None
    return stuck is not None and stuck.attempt == attempt and stuck.verdict == Verdict.STUCK


async def _reason_from_kept_stacks(api: Api, run: RunObject, attempt: int) -> RunReason:
    """Return the stored evidence about an attempt. Raises NotFound if there is none."""
    kept = await kept_evidence(api, run, attempt)
    reason = _answer_about(run, attempt)
    reason.kept_attempts = await kept_attempts(api, run)
    for evidence in kept:
        reading = read(evidence.ranks, evidence.nodes, evidence.addresses)
        at = format_time(time_at(evidence.at))
        when = "before its members were ended" if evidence.occasion == Occasion.END else "when it was quiet for long"
        silent = len(evidence.nodes) - len(evidence.ranks)
        reason.words += [f"Attempt {attempt} at {at}, {when}: {evidence.told.removesuffix('.')}.", *reading.words()]
        if silent:
            reason.words.append(f"The agents of {silent:,} ranks did not answer.")
        reason.groups = group_views(reading, evidence.nodes)
        reason.late = list(reading.late_ranks)
        reason.at = at
    return reason


async def _add_places(
    api: Api, user: User, running: Mapping[int, Pod], reason: RunReason, *, twice: bool
) -> bool | None:
    """Add the places of the processes in their programs to the answer.

    Returns whether the processes stood still between two looks; None if it looked once or not at all.
    """
    if not await user.may("create", reason.namespace, resource=PODS, subresource="exec"):
        reason.words.append(_NO_RIGHT)
        return None
    pods = dict(sorted(running.items())[:MAX_RANKS])
    taken = await take_stacks(api, pods)
    if not taken.ranks:
        reason.words.append(f"Where its processes are is not known: {taken.trouble}.")
        return None
    if twice:
        await asyncio.sleep(BETWEEN_SECONDS)
        again = await take_stacks(api, pods)
        first = dict(taken.ranks)
        await add_native(api, pods, taken)
    nodes, addresses = nodes_and_addresses(pods)
    reading = read(taken.ranks, nodes, addresses)
    reason.groups, reason.late = group_views(reading, nodes), list(reading.late_ranks)
    reason.words += reading.words()
    if not twice:
        return None
    looks: list[dict[int, tuple[ProcessStacks, ...]]] = [
        {rank: each.processes for rank, each in look.items()} for look in (first, again.ranks)
    ]
    return stood_still(looks, pods)
