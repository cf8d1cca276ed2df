"""Resolution of a spec: policy fills in everything that it leaves out, and a finding reports each such default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kajitori.core.admission.notebooks import notebook_time_limit
from kajitori.core.formats.quantities import format_cores, format_duration, memory_needed, memory_there
from kajitori.core.gang.memory import EarlierRun, add_earlier_peaks
from kajitori.core.gpus.offers import BY_CLAIM, GpuWay
from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.placement.planner import MemberRequest, eligible_nodes
from kajitori.core.placement.snapshot import CPU, MEMORY, NodeTable
from kajitori.core.pods.networks import UNKNOWN_DNS, ClusterDns
from kajitori.core.pods.reach import Reach, is_isolated, reach_of
from kajitori.core.pods.resolved import DEAD_NODE_TAINTS, Findings, Resolved
from kajitori.core.policy.model import Policy
from kajitori.core.spec.network_access import NetworkAccess
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import Finding

_NODE_STATE_TAINTS = (
    *DEAD_NODE_TAINTS,
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
)
PASSING_TAINTS = tuple(Toleration(key, "Exists") for key in _NODE_STATE_TAINTS)
"""Tolerations of taints for the current state of a node, as opposed to its purpose. A node with such a taint may run
the run's members later."""

_MEBIBYTE = 2**20

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Variable that turns off Python's output buffering. Python buffers up to 8 KiB of output to a pipe, so that logs would
stay empty for minutes, and lose their end when the program is killed. The run's env and the policy's defaults.env
override it; an empty value turns buffering on."""


@dataclass(frozen=True, slots=True)
class Facts:
    """State of the cluster and of the run, as far as the caller knows it."""

    table: NodeTable | None = None
    """All nodes; None if unknown."""
    admitted: bool = False
    """Whether the run was admitted before with its present spec. If so, resources that the cluster lacks now are a
    reason to wait, not to refuse."""
    secrets: frozenset[str] | None = None
    """Names of the Secrets in the run's namespace; None if unknown."""
    config_maps: frozenset[str] | None = None
    """Names of the ConfigMaps in the run's namespace; None if unknown."""
    claims: frozenset[str] | None = None
    """Names of the PersistentVolumeClaims in the run's namespace; None if unknown."""
    channels: frozenset[str] | None = None
    """Names of the channels for messages of the run's owner and team; None if unknown."""
    promised_restarts: int = 0
    """Number of default restarts that the findings in the run's status promise."""
    earlier: tuple[EarlierRun, ...] = ()
    """Earlier runs of the same kind with a known memory peak, newest first."""
    dns: ClusterDns = UNKNOWN_DNS
    """The cluster's DNS, for runs in networks."""


def resolve(spec: RunSpec, policy: Policy, facts: Facts, findings: Findings) -> Resolved:
    """Return the spec with the policy's defaults. Never refuses.

    Each default that was used becomes a finding. Its code ends in `Defaulted`, and its message is the value alone
    (`2Gi memory`), so that one line can list several of them.
    """
    # 1. The nodes that members may run on.
    defaults = policy.defaults
    node_selector = {**spec.node_selector, **policy.inject.node_selector}
    tolerations = _resolve_tolerations(spec, policy)
    gpu_type = _known_type(spec.resources.gpu_type or "", policy, facts.table)
    like = MemberRequest(
        0,
        0,
        gpus=spec.resources.gpus or (1 if gpu_type else 0),
        gpu_type=gpu_type,
        node_selector=tuple(sorted(node_selector.items())),
        tolerations=tolerations + PASSING_TAINTS,
        cpu_runs_on_gpu_nodes=policy.gpu.cpu_runs_on_gpu_nodes,
    )
    smallest = _smallest_node(facts.table, like) if spec.resources.whole_node else None

    # 2. The amounts of a member.
    gpus = _resolve_gpus(spec, policy, facts, gpu_type, smallest, findings)
    amounts = _resolve_amounts(spec, policy, smallest, findings)
    if not amounts.memory_unknown:
        asked = spec.resources.memory_bytes is not None
        add_earlier_peaks(facts.earlier, amounts.memory_limit_bytes, findings.add, asked=asked)

    # 3. Everything else. The order of these calls is that of the findings.
    time_limit_seconds = _resolve_time_limit(spec, policy, findings)
    user = _resolve_user(spec, policy, findings)
    env = _resolve_env(spec, policy, findings)
    checkpoint_size_bytes = _resolve_checkpoint_size(spec, policy, findings)
    resolved = Resolved(
        **amounts._asdict(),
        gpus=gpus,
        gpu_type=gpu_type,
        gpu_way=_gpu_way(replace(like, gpus=gpus), facts.table) if gpus else GpuWay(),
        restarts=_restarts_of(spec, policy, facts, findings),
        grace_seconds=_or_default(spec.grace_seconds, defaults.grace_seconds, "grace", _format_grace, findings),
        time_limit_seconds=time_limit_seconds,
        priority=_or_default(spec.priority, defaults.priority, "priority", _format_priority, findings),
        checkpoint_size_bytes=checkpoint_size_bytes,
        user=user,
        env=env,
        node_selector=node_selector,
        tolerations=tolerations,
        reach=_resolve_reach(spec, policy, findings),
    )
    _add_preemption_findings(spec, policy, resolved, findings)
    _add_elastic_finding(spec, resolved, findings)
    return _without_restarts_if_unlimited(spec, resolved, findings)


def _resolve_tolerations(spec: RunSpec, policy: Policy) -> tuple[Toleration, ...]:
    wants_gpus = bool(spec.resources.gpus) or spec.resources.gpu_type is not None
    wanted = [*spec.tolerations, *policy.inject.tolerations, *(policy.gpu.tolerations if wants_gpus else ())]
    return tuple(
        Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
        for toleration in dict.fromkeys(wanted)
    )


def _resolve_gpus(spec: RunSpec, policy: Policy, facts: Facts, gpu_type: str, smallest: Any, findings: Findings) -> int:
    """Return the number of GPUs of a member. A run that names only a type asks for all GPUs of a node."""
    if spec.resources.gpus or not gpu_type or facts.table is None:
        return spec.resources.gpus
    if smallest is not None:
        gpus = int(smallest[facts.table.gpu_column(gpu_type)])
        findings.add("WholeNodeGpus", f"a whole {gpu_type} node has {gpus} GPUs", "spec.resources.gpu")
        return gpus
    if policy.nodes_on_demand:
        return 0
    message = f"the number of GPUs of a whole {gpu_type} node is known once the cluster has one"
    findings.add("WholeNodeGpus", message, "spec.resources.gpu")
    return 1  # the run waits for a node of that type, and is resolved again when one joins


def _resolve_time_limit(spec: RunSpec, policy: Policy, findings: Findings) -> int | None:
    if spec.time_limit_seconds is not None:
        return spec.time_limit_seconds
    seconds = notebook_time_limit(spec, policy) or policy.default_time_limit_seconds
    if seconds is not None:
        findings.add("TimeLimitDefaulted", f"{format_duration(seconds)} at most", "spec.timeLimit")
    return seconds


def _resolve_user(spec: RunSpec, policy: Policy, findings: Findings) -> str:
    user = spec.user or policy.security.default_user or ""
    if user and spec.user is None:
        findings.add("UserDefaulted", f"user {user}", "spec.user")
    return user


def _resolve_env(spec: RunSpec, policy: Policy, findings: Findings) -> dict[str, str]:
    default_env = UNBUFFERED | policy.defaults.env
    if default_env.keys() - spec.env.keys():
        names = ", ".join(sorted(default_env.keys() - spec.env.keys()))
        findings.add("EnvDefaulted", f"env {names}", "spec.env")
    return default_env | spec.env


def _resolve_checkpoint_size(spec: RunSpec, policy: Policy, findings: Findings) -> int:
    default_bytes = policy.defaults.checkpoint_size_bytes
    if spec.checkpoint is not None and spec.checkpoint.size_bytes is None and policy.checkpoint.kind == "claim":
        findings.add(
            "CheckpointSizeDefaulted", f"{memory_needed(default_bytes)} for the checkpoint", "spec.checkpoint.size"
        )
    return (spec.checkpoint and spec.checkpoint.size_bytes) or default_bytes


def _resolve_reach(spec: RunSpec, policy: Policy, findings: Findings) -> Reach:
    reach = reach_of(spec.network, policy, internal=spec.is_internal)
    if reach.is_open:
        return reach
    if spec.host_network:
        message = "the run uses the network of its nodes, where its network access cannot be restricted"
        findings.add("NetworkOfTheNode", message, "spec.hostNetwork")
        return Reach()
    asked = spec.network or NetworkAccess()
    defaulted = (asked.sources is None and reach.sources is not None) or (
        asked.targets is None and reach.targets is not None
    )
    if spec.is_internal:
        findings.add("NetworkRestricted", f"{reach}, since its networks are internal", "spec.networks")
    else:
        findings.add("NetworkDefaulted" if defaulted else "NetworkRestricted", str(reach), "spec.network")
    if not policy.network.enforced and not is_isolated(reach, policy, alone=spec.is_alone):
        message = "these restrictions have no effect: this cluster has no network plugin that enforces them"
        findings.add("NetworkNotEnforced", message, "spec.network")
    return reach


def _add_preemption_findings(spec: RunSpec, policy: Policy, resolved: Resolved, findings: Findings) -> None:
    """Tell the user if the run may be preempted, and what happens then."""
    if not policy.preemption.enabled:
        return
    minimum, grace = policy.preemption.minimum_run_seconds, resolved.grace_seconds
    then = f"its members get SIGTERM and {format_duration(grace)} to write a checkpoint, and it goes back to the queue"
    if spec.is_interactive and policy.notebooks.notice_seconds:
        notice = format_duration(policy.notebooks.notice_seconds)
        kept = " its files are kept," if spec.type == "notebook" else ""
        then = f"its owner is told {notice} before it is stopped,{kept} and it goes back to the queue"
    if resolved.priority == "low":
        begins = spec.type == "batch" and spec.checkpoint is None
        tail = "; without a checkpoint (--checkpoint) it then starts from the beginning" if begins else ""
        runs = f"once it has run for {format_duration(minimum)}"
        message = f"runs of higher priority may preempt it {runs}: {then}{tail}"
        findings.add("MayBePreempted", message, "spec.priority")
        return
    alone = spec.resources.whole_node or resolved.memory_limit_bytes is None
    if any(guarantee.covers(gpus=resolved.gpus, alone=alone) for guarantee in policy.guarantees):
        what = "GPUs" if resolved.gpus else "nodes"
        message = f"a team with a guarantee may preempt it to get {what} that its own team is not guaranteed: {then}"
        findings.add("MayGiveBack", message, "spec.resources.gpu" if resolved.gpus else "spec.resources")


def _add_elastic_finding(spec: RunSpec, resolved: Resolved, findings: Findings) -> None:
    if spec.fewest is None:
        return
    tail = (
        "" if spec.checkpoint is not None else "; without a checkpoint (--checkpoint) it then starts from the beginning"
    )
    message = (
        f"it starts with as many members as fit, {spec.fewest} to {spec.replicas}, and is restarted to grow or to "
    )
    message += f"shrink: members get SIGTERM and {format_duration(resolved.grace_seconds)} to write a checkpoint{tail}"
    findings.add("MayChangeSize", message, "spec.minReplicas")


def member_request(spec: RunSpec, policy: Policy, resolved: Resolved) -> MemberRequest:
    """Return the planner's request for one member."""
    return MemberRequest(
        cpu_millis=resolved.cpu_request_millis,
        memory_bytes=resolved.memory_request_bytes,
        gpus=resolved.gpus,
        gpu_type=resolved.gpu_type if resolved.gpus else "",
        gpu_way=resolved.gpu_way.way if resolved.gpus else None,
        whole_node=spec.resources.whole_node,
        unlimited=resolved.memory_limit_bytes is None,
        node_selector=tuple(sorted(resolved.node_selector.items())),
        tolerations=resolved.tolerations,
        cpu_runs_on_gpu_nodes=policy.gpu.cpu_runs_on_gpu_nodes,
    )


class _Amounts(NamedTuple):
    """The resources of a member, under the names of `Resolved`."""

    cpu_request_millis: int
    cpu_limit_millis: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    shm_bytes: int | None
    memory_unknown: bool


def _resolve_amounts(spec: RunSpec, policy: Policy, smallest: Any, findings: Findings) -> _Amounts:
    """Return the processors and the memory of a member. `smallest` has the amounts of the smallest suitable node, if
    members take whole nodes; else it is None."""
    asked, defaults = spec.resources, policy.defaults
    cpu = _resolve_cpu(spec, policy, smallest, findings)
    memory = _resolve_memory(spec, policy, smallest, findings)
    shm = asked.shm_bytes
    if shm is None and defaults.shm_bytes is not None:
        shm = min(defaults.shm_bytes, memory or defaults.shm_bytes)
        findings.add("ShmDefaulted", f"{memory_there(shm)} of that for /dev/shm", "spec.resources.shm")
    amounts = _Amounts(
        cpu_request_millis=asked.cpu_request_millis or cpu or defaults.cpu_millis,
        cpu_limit_millis=cpu,
        memory_request_bytes=asked.memory_request_bytes or memory or defaults.memory_bytes,
        memory_limit_bytes=memory,
        shm_bytes=shm,
        memory_unknown=memory is None and policy.memory_without_limit == "refuse",
    )
    _add_qos_finding(spec, amounts, findings)
    return amounts


def _resolve_cpu(spec: RunSpec, policy: Policy, smallest: Any, findings: Findings) -> int | None:
    """Return the limit of a member's processors in milli-cores; None for no limit."""
    asked, share = spec.resources, policy.defaults.whole_node_percent
    if asked.cpu_millis is not None or asked.cpu_request_millis is not None:
        return asked.cpu_millis
    if smallest is None:
        findings.add("CpuDefaulted", format_cores(policy.defaults.cpu_millis), "spec.resources.cpu")
        return policy.defaults.cpu_millis
    cpu = int(smallest[CPU]) * share // 100
    message = f"each member gets {format_cores(cpu)}, {share} % of the smallest suitable node"
    findings.add("WholeNodeCpu", message, "spec.resources.cpu")
    return cpu


def _resolve_memory(spec: RunSpec, policy: Policy, smallest: Any, findings: Findings) -> int | None:
    """Return the limit of a member's memory in bytes; None for no limit."""
    asked, defaults = spec.resources, policy.defaults
    if asked.memory_bytes is not None:
        return asked.memory_bytes
    if smallest is not None:
        share = defaults.whole_node_percent
        whole_mebibytes = int(smallest[MEMORY]) * share // 100 // _MEBIBYTE * _MEBIBYTE
        memory = max(whole_mebibytes, asked.memory_request_bytes or 0)
        message = f"each member gets {memory_there(memory)} of memory, {share} % of the smallest suitable node"
        findings.add("WholeNodeMemory", message, "spec.resources.memory")
        return memory
    if policy.memory_without_limit != "default":
        return None
    memory = max(defaults.memory_bytes, asked.memory_request_bytes or 0)
    findings.add("MemoryDefaulted", f"{memory_there(memory)} memory", "spec.resources.memory")
    return memory


def _add_qos_finding(spec: RunSpec, amounts: _Amounts, findings: Findings) -> None:
    """Add what the kubelet reserves for a member, and what that means when a node runs short."""
    cpu, memory = format_cores(amounts.cpu_request_millis), memory_needed(amounts.memory_request_bytes)
    who = "the notebook has" if spec.type == "notebook" else "each member has"
    limited = amounts.memory_limit_bytes is not None and amounts.cpu_limit_millis is not None
    if spec.qos == "guaranteed" and limited:
        message = f"{who} {cpu} and {memory} of memory reserved, which are also its limits"
        findings.add("QosGuaranteed", message, "spec.resources")
    else:
        message = (
            f"{who} only {cpu} and {memory} of memory reserved: if its node runs short, "
            "it is slowed down, or killed before guaranteed members"
        )
        findings.add("BurstableRisk", message, "spec.qos")


def _without_restarts_if_unlimited(spec: RunSpec, resolved: Resolved, findings: Findings) -> Resolved:
    """Return the run without restarts if it has no memory limit: a program that exhausted the memory of one node would
    exhaust the next one's. The planner keeps such runs apart from others (`MemberRequest.unlimited`)."""
    if resolved.memory_limit_bytes is not None:
        return resolved
    message = (
        "without a memory limit, the run is not restarted after a failure, and shares no node with other runs; "
        "set resources.memory"
    )
    findings.add("RestartsForcedToZero", message, "spec.restarts")
    return replace(resolved, restarts=0)


def _or_default(value: Any, default: Any, name: str, shown: Any, findings: Findings) -> Any:
    if value is not None:
        return value
    findings.add(f"{name.capitalize()}Defaulted", shown(default), f"spec.{name}")
    return default


def _restarts_of(spec: RunSpec, policy: Policy, facts: Facts, findings: Findings) -> int:
    """Return how often the run is restarted after its program failed. The number is not used for services."""
    if spec.restarts is not None or spec.type == "service":
        return spec.restarts or 0
    if spec.checkpoint is not None:
        count, tail = policy.defaults.restarts, ""
    else:
        promised = min(facts.promised_restarts, policy.defaults.restarts)
        count, tail = max(policy.defaults.restarts_without_checkpoint, promised), " without a checkpoint"
    words = "1 restart" if count == 1 else f"{count or 'no'} restarts"
    findings.add("RestartsDefaulted", words + tail, "spec.restarts")
    return count


def promised_restarts(findings: Iterable[Finding]) -> int:
    """Return the number of default restarts that a run's findings promise; 0 if they promise none.

    Earlier versions gave restarts to runs without a checkpoint as well. Such a run keeps its number.
    """
    promise = next((finding.message for finding in findings if finding.code == "RestartsDefaulted"), "")
    number = promise.partition(" ")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 8 else 0


def _format_grace(seconds: int) -> str:
    return f"{format_duration(seconds)} grace"


def _format_priority(word: str) -> str:
    return f"{word} priority"


def _known_type(written: str, policy: Policy, table: NodeTable | None) -> str:
    """Return the GPU type as nodes and policy spell it; an unknown type is returned as written.

    Users may write the type's name in the policy or the exact value of a node's label. The patterns of the policy are
    not used here: they are meant for labels, and would take `h1000` for an h100.
    """
    if not written or table is None or bool(table.type_mask(written).any()):
        return written
    for node in table.nodes:
        known = {node.labels.get(label, "").lower() for label in policy.gpu.type_labels} | {node.gpu_type.lower()}
        if node.gpu_type and written.lower() in known:
            return node.gpu_type
    return next((name for name in sorted(table.gpu_types) if name.lower() == written.lower()), written)


def _gpu_way(like: MemberRequest, table: NodeTable | None) -> GpuWay:
    """Return how such members ask for their GPUs: the way with which most members would fit if nothing else ran.

    All members of a run use the same way. Among equals an extended resource is preferred to a claim, since all tools
    understand it.
    """
    if table is None:
        return GpuWay()
    return table.once((_gpu_way, like), lambda: _best_way(like, table))


def _best_way(like: MemberRequest, table: NodeTable) -> GpuWay:
    members: dict[str, int] = {}
    selectors: dict[str, set[str]] = {}
    # Any node of the kind counts: `refusals` checks whether one has enough GPUs.
    for row in np.flatnonzero(eligible_nodes(table, replace(like, gpus=1))).tolist():
        offer = table.nodes[row].offer_of(like.gpu_type)
        if offer is None:
            continue
        for way in offer.ways:
            members[way] = members.get(way, 0) + offer.count // like.gpus
            selectors.setdefault(way, set()).add(offer.selector)
    if not members:
        return GpuWay()
    best = min(members, key=lambda way: (-members[way], way.startswith(BY_CLAIM), way))
    return GpuWay(best, tuple(sorted(selectors[best])) if best.startswith(BY_CLAIM) else ())


def _smallest_node(table: NodeTable | None, like: MemberRequest) -> Any:
    """Return the minimum of each resource over all eligible nodes, as an array of shape (4,); None if there are no
    such nodes or the nodes are unknown."""
    if table is None:
        return None
    rows = table.total[eligible_nodes(table, like)]
    return rows.min(axis=0) if len(rows) else None
