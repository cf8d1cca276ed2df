"""What becomes of a Run's spec under a policy, in a cluster: a Pod template, a request for the planner, limits and
findings; or every reason why not.

`decide` is asked when a run is submitted and again for each attempt: a Run may come from `kubectl`, and policy may
change (rule 12). It is a function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kajitori.core.admission.refusals import FOLLOWS_FROM, refusals
from kajitori.core.admission.resolve import Facts, member_request, resolve
from kajitori.core.gang.types import Limits
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.pods import manifests
from kajitori.core.pods.reach import network_rules
from kajitori.core.pods.resolved import Findings, Resolved, RunIdentity
from kajitori.core.pods.template import begins_with_step, pod_template
from kajitori.core.policy.model import Policy
from kajitori.core.spec.draft import Draft
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import Finding
from kajitori.errors import Fault, Refused

__all__ = ["Decision", "Facts", "RunIdentity", "decide", "limits_of", "objections"]


@dataclass(frozen=True, slots=True)
class Decision:
    """All that follows from a spec."""

    template: dict[str, Any]
    """`metadata` and `spec` of every member's Pod, without what differs from member to member."""
    request: MemberRequest
    limits: Limits
    findings: tuple[Finding, ...]
    """What policy changed or wants known, in the order of the spec's fields."""
    priority: int
    """Higher goes first."""
    bind_direct: bool
    """Members are bound by us, not by kube-scheduler."""
    network: dict[str, Any] | None
    """What its NetworkPolicy says of who may reach it and where it may go; None where nothing is restricted."""
    claim: dict[str, Any] | None
    """The PersistentVolumeClaim of the checkpoint, where policy keeps checkpoints in claims. It outlives the run."""


def decide(spec: RunSpec, policy: Policy, facts: Facts, *, run: RunIdentity) -> Decision:
    """What becomes of the spec. Raises Refused with every reason at once; nothing is half-decided."""
    findings = Findings()
    # 1. Fill in what the run leaves out.
    resolved = resolve(spec, policy, facts, findings)
    member = member_request(spec, policy, resolved)
    # 2. Everything that is against it.
    faults = list(refusals(spec, policy, facts, resolved, member, run))
    if faults:
        raise Refused(faults)
    # 3. What members have in common.
    template = pod_template(spec, policy, resolved, run, findings)
    return Decision(
        template=template,
        request=member,
        limits=_limits(spec, policy, resolved),
        findings=tuple(findings.found),
        priority=policy.priorities[resolved.priority].value,
        bind_direct=policy.binding.binds_directly(resolved.node_selector),
        network=network_rules(resolved.reach, policy, first_step=begins_with_step(spec, policy)),
        claim=_claim(spec, policy, resolved, run),
    )


def limits_of(spec: RunSpec, policy: Policy, facts: Facts) -> Limits:
    """The limits of a run's life, whether or not policy lets it start."""
    return _limits(spec, policy, resolve(spec, policy, facts, Findings()))


def objections(draft: Draft, policy: Policy, facts: Facts, *, run: RunIdentity) -> list[Fault]:
    """What policy and cluster have against what could be read of a faulty spec: nothing that only follows from its
    faults."""
    if draft.spec is None:
        return []
    try:
        decide(draft.spec, policy, facts, run=run)
    except Refused as error:
        return [
            fault
            for fault in map(draft.as_written, error.faults)
            if not draft.lacks(fault.field) and not any(map(draft.doubts, FOLLOWS_FROM.get(fault.code, ())))
        ]
    return []


def _limits(spec: RunSpec, policy: Policy, resolved: Resolved) -> Limits:
    start = policy.start
    kept = [each for each in (spec.remove_after_seconds, policy.ended_runs.keep_for_seconds) if each is not None]
    return Limits(
        restarts=resolved.restarts,
        memory_limited=resolved.memory_limit_bytes is not None,
        grace_seconds=resolved.grace_seconds,
        restart_grace_seconds=min(start.restart_grace_seconds, resolved.grace_seconds),
        start_deadline_seconds=start.deadline_seconds,
        time_limit_seconds=resolved.time_limit_seconds,
        start_pause_seconds=start.pause_seconds,
        start_pause_max_seconds=max(start.longest_pause_seconds, start.pause_seconds),
        stop_grace_seconds=spec.stop_grace_seconds,
        remove_after_seconds=min(kept, default=None),
    )


def _claim(spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity) -> dict[str, Any] | None:
    rules = policy.checkpoint
    if spec.checkpoint is None or rules.kind != "claim":
        return None
    return manifests.checkpoint_claim(
        run_name=run.name,
        namespace=run.namespace,
        size_bytes=resolved.checkpoint_size_bytes,
        access_mode=rules.access_mode,
        storage_class=rules.storage_class,
    )
