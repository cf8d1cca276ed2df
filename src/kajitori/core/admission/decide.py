"""Admission of a run: from its spec, the policy and the cluster to a Pod template, a planner request, limits and
findings, or to all reasons for a refusal.

`decide` runs when a run is submitted and again for each attempt, because a Run may come from `kubectl`, and the policy
may change (rule 12). It depends on its arguments only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kajitori.core.admission.notebooks import written_out
from kajitori.core.admission.refusals import FOLLOWS_FROM, refusals
from kajitori.core.admission.resolve import Facts, member_request, resolve
from kajitori.core.gang.types import Limits
from kajitori.core.placement.planner import MemberRequest, eligible_nodes
from kajitori.core.pods import manifests
from kajitori.core.pods.reach import network_rules
from kajitori.core.pods.resolved import Findings, Resolved, RunIdentity
from kajitori.core.pods.template import begins_with_step, pod_template
from kajitori.core.policy.model import Policy
from kajitori.core.spec.reading.draft import Draft
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import Finding
from kajitori.errors import Fault, Refused

__all__ = ["Decision", "Facts", "RunIdentity", "decide", "limits_of", "objections"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of admitting a spec."""

    template: dict[str, Any]
    """`metadata` and `spec` of all members' Pods, without the parts that differ between members."""
    request: MemberRequest
    limits: Limits
    findings: tuple[Finding, ...]
    """Changes by the policy and warnings, in the order of the spec's fields."""
    priority: int
    """Runs with a higher value go first."""
    bind_direct: bool
    """Whether Kajitori binds the members itself, without kube-scheduler."""
    network: dict[str, Any] | None
    """Rules of the run's NetworkPolicy; None if its network access is not restricted."""
    claim: dict[str, Any] | None
    """The PersistentVolumeClaim of the checkpoint, if the policy keeps checkpoints in claims. It outlives the run."""


def decide(spec: RunSpec, policy: Policy, facts: Facts, *, run: RunIdentity) -> Decision:
    """Admit a spec. Raises Refused with all reasons at once."""
    findings = Findings()
    spec = written_out(spec, policy, run, findings)
    # 1. Fill in the fields that the spec leaves out.
    resolved = resolve(spec, policy, facts, findings)
    member = member_request(spec, policy, resolved)
    # 2. Collect all reasons for a refusal.
    faults = list(refusals(spec, policy, facts, resolved, member, run))
    if faults:
        raise Refused(faults)
    # 3. Build what all members have in common.
    template = pod_template(spec, policy, resolved, run, findings, facts.dns)
    return Decision(
        template=template,
        request=member,
        limits=_resolve_limits(spec, policy, resolved),
        findings=tuple(findings.found),
        priority=policy.priorities[resolved.priority].value,
        bind_direct=policy.binding.binds_directly(resolved.node_selector) and not _needs_scheduler(member, facts),
        network=network_rules(resolved.reach, policy, first_step=begins_with_step(spec, policy)),
        claim=_checkpoint_claim(spec, policy, resolved, run),
    )


def _needs_scheduler(member: MemberRequest, facts: Facts) -> bool:
    """Whether only the scheduler can give members their GPUs, because these are devices, or are devices on some of the
    nodes.
    """
    if not member.gpus or facts.table is None:
        return False
    return bool((eligible_nodes(facts.table, member) & facts.table.by_devices).any())


def limits_of(spec: RunSpec, policy: Policy, facts: Facts) -> Limits:
    """Return the time limits and restart limits of a run, even if the policy refuses it."""
    return _resolve_limits(spec, policy, resolve(spec, policy, facts, Findings()))


def objections(draft: Draft, policy: Policy, facts: Facts, *, run: RunIdentity) -> list[Fault]:
    """Return the reasons for which policy and cluster refuse the readable part of a faulty spec.

    Reasons that only follow from the spec's own faults are left out.
    """
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


def _resolve_limits(spec: RunSpec, policy: Policy, resolved: Resolved) -> Limits:
    start = policy.start
    own, default = spec.remove_after_seconds, policy.ended_runs.keep_for_seconds
    return Limits(
        restarts=resolved.restarts,
        memory_limited=resolved.memory_limit_bytes is not None,
        grace_seconds=resolved.grace_seconds,
        restart_grace_seconds=min(start.restart_grace_seconds, resolved.grace_seconds),
        start_deadline_seconds=start.deadline_seconds,
        time_limit_seconds=resolved.time_limit_seconds,
        start_pause_seconds=start.pause_seconds,
        start_pause_max_seconds=max(start.longest_pause_seconds, start.pause_seconds),
        held_members=max(1, policy.logs.members),
        restarts_stuck=(spec.on_stuck or policy.stuck.action) == "restart" and resolved.restarts > 0,
        stop_grace_seconds=spec.stop_grace_seconds,
        remove_created_after_seconds=own,
        remove_after_seconds=min((seconds for seconds in (own, default) if seconds is not None), default=None),
    )


def _checkpoint_claim(spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity) -> dict[str, Any] | None:
    rules = policy.checkpoint
    if spec.checkpoint is None or rules.kind != "claim":
        return None
    return manifests.checkpoint_claim(
        run_name=run.name,
        namespace=run.namespace,
        size_bytes=resolved.checkpoint_size_bytes,
        access_mode=rules.access_mode_for(spec.members),
        storage_class=rules.storage_class,
    )
