"""Reasons for which policy or the current cluster refuses a run, each with a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kajitori.core.admission.resolve import PASSING_TAINTS, Facts
from kajitori.core.formats.quantities import format_cores, format_cpu, format_duration, memory_needed, memory_there
from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.placement.planner import MemberRequest, eligible_nodes, largest_gang
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, NodeTable
from kajitori.core.pods.reach import reach_faults
from kajitori.core.pods.resolved import Resolved, RunIdentity
from kajitori.core.pods.template import begins_with_step
from kajitori.core.policy.model import Policy
from kajitori.core.spec.notify import KINDS
from kajitori.core.spec.reading.conflicts import PUT_INTO_FILES, stored_bytes
from kajitori.core.spec.run import RunSpec, name_fault, to_document
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault


class _Check(NamedTuple):
    """An amount that policy limits."""

    field: str
    """The field of the spec, without `spec.`."""
    amount: int | None
    """None if the run sets none."""
    ceiling: int | None
    """None if policy sets none."""
    shown: Callable[[int], str]
    """Formats such an amount."""


_GPUS = ("resources.gpu", "resources.gpuType", "resources.wholeNode")
FOLLOWS_FROM: Mapping[str, tuple[str, ...]] = {
    "LargerThanAnyNode": (*_GPUS, "tolerations"),
    "LargerThanTheCluster": ("resources", "tolerations"),
    "NoCpuNodes": _GPUS,
    "NoSuchNode": (*_GPUS, "tolerations"),
    "NotTolerated": _GPUS,
    "ShmAboveMemory": ("resources.memory",),
    "Unknown": _GPUS,
}
"""For each code of a refusal: other fields that it depends on. If one of these fields is faulty, the refusal may be
wrong and is not reported. Refusals that could only get worse with the faulty field (for example a ceiling on all
members) are not listed."""


def refusals(
    spec: RunSpec, policy: Policy, facts: Facts, resolved: Resolved, member: MemberRequest, run: RunIdentity
) -> Iterator[Fault]:
    """Yield every reason for which the run is refused; none if it is admitted."""
    wrong_name = name_fault(run.name, "metadata.name")
    if wrong_name is not None:
        yield wrong_name
    yield from _faults_of_command(spec, policy, facts)
    yield from _faults_of_rights(spec, policy, resolved)
    yield from _faults_of_ceilings(spec, policy, resolved)
    yield from _faults_of_injection(spec, policy)
    yield from _faults_of_volumes(spec, policy, facts)
    yield from _faults_of_secrets(spec, policy, facts)
    yield from _faults_of_checkpoint(spec, policy, run)
    yield from _faults_of_code(spec, policy)
    yield from _faults_of_files(spec, policy)
    yield from _faults_of_channels(spec, facts)
    yield from reach_faults(
        spec.network,
        policy,
        host_network=spec.host_network,
        first_step=begins_with_step(spec, policy),
        alone=spec.is_alone,
        internal=spec.is_internal,
    )
    if spec.launcher == "mpi" and policy.start.image is None:
        message = "this cluster cannot give members SSH keys and a hostfile: the policy has no start.image"
        yield Fault("spec.launcher", message, "mpi", policy.ask, "NoFirstStep")
    is_gang = spec.type == "batch" and spec.array is None
    if is_gang and spec.on_stuck == "restart" and spec.restarts is None and not resolved.restarts:
        message = "onStuck is restart, but this run has no restarts"
        hint = "add restarts (--restarts 3), or a checkpoint; a run without a memory limit is never restarted"
        yield Fault("spec.onStuck", message, "restart", hint, "NoRestarts")
    if _limits_size(facts, policy, member):
        assert facts.table is not None
        yield from _faults_of_size(spec, facts.table, resolved, member, policy)
    elif spec.resources.gpu_type is not None and not resolved.gpus:
        message = "the number of GPUs of a whole node is not known yet"
        yield Fault("spec.resources.gpu", message, hint="set it with resources.gpu", code="Unknown")


def _faults_of_command(spec: RunSpec, policy: Policy, facts: Facts) -> Iterator[Fault]:
    if policy.images.own_command or facts.admitted or spec.type == "notebook" or spec.command or spec.args:
        return
    message = "there is no command, and this server cannot look it up in the image: without a container engine, runs "
    message += "start the machine's own programs"
    yield Fault("spec.command", message, hint="name it after the image: IMAGE python3 train.py", code="NoCommand")


def _faults_of_rights(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    security = policy.security
    reason = policy.images.refusal(spec.image)
    if reason:
        allowed = policy.images.allow
        hint = f"allowed: {', '.join(allowed[:20])}" if allowed else policy.ask
        yield Fault("spec.image", f"{spec.image} may not run: {reason}", spec.image, hint, "ImageRefused")
    if spec.privileged and not security.allow_privileged:
        message = "the policy does not allow privileged programs"
        yield Fault("spec.privileged", message, "true", "leave it out", "Privileged")
    if spec.host_network and not security.allow_host_network:
        message = "the policy does not allow the network of the node"
        hint = "leave it out; members reach each other by name without it"
        yield Fault("spec.hostNetwork", message, "true", hint, "HostNetwork")
    if spec.user is not None and int(spec.user.split(":")[0]) == 0 and not security.allow_root:
        message = "the policy does not allow programs to run as root"
        yield Fault("spec.user", message, spec.user, "use another uid, for example 1000", "Root")
    for index, toleration in enumerate(spec.tolerations):
        key = toleration.key
        patterns = security.refuse_tolerations
        refused = next((pattern for pattern in patterns if not key or fnmatchcase(key, pattern)), None)
        if refused is not None:
            what = f"the taint {key}" if key else "all taints"
            hint = "leave it out" if key else f"list the taints by key; {refused} is refused"
            message = f"the policy does not allow runs to tolerate {what}"
            yield Fault(f"spec.tolerations[{index}].key", message, key, hint, "TolerationRefused")
    if spec.qos == "burstable" and not policy.allow_burstable:
        message = "the policy does not allow runs to reserve less than their limit"
        yield Fault("spec.qos", message, "burstable", "leave qos, cpuRequest and memoryRequest out", "Burstable")
    hint = "set one, for example 16Gi (-m 16g)"
    if resolved.memory_unknown:
        message = "a memory limit is required, so that the run cannot harm other programs on its nodes"
        yield Fault("spec.resources.memory", message, hint=hint, code="MemoryLimitRequired")
    elif resolved.memory_limit_bytes is None and spec.type == "service":
        message = "a service needs a memory limit, because it is restarted however often it fails"
        yield Fault("spec.resources.memory", message, hint=hint, code="MemoryLimitRequired")


def _faults_of_channels(spec: RunSpec, facts: Facts) -> Iterator[Fault]:
    if spec.notify is None or facts.channels is None:
        return
    for index, name in enumerate(spec.notify.channels):
        if name not in facts.channels:
            message = f"neither you nor your team has a channel {name!r}, and it is no kind of message"
            hint = f"see your channels: kaji notify ls; {did_you_mean(name, [*facts.channels, *KINDS])}"
            yield Fault(f"spec.notify.channels[{index}]", message, name, hint, "ChannelNotFound")


def _faults_of_code(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    if spec.code is not None and policy.start.image is None:
        message = "this cluster cannot deliver code to members: the policy has no start.image"
        hint = (
            "ask the operators to set start.image and start.server in the policy; functions need it, "
            "other runs may have the code in the image or on a volume instead"
        )
        yield Fault("spec.code", message, spec.code.digest, hint, "NoFirstStep")


def _faults_of_files(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    if spec.files is None:
        return
    if policy.start.image is None:
        message = "this cluster cannot deliver files to members: the policy has no start.image"
        hint = (
            "put the files into the image or on a volume; operators can set start.image and start.server in the policy"
        )
        yield Fault("spec.files", message, spec.files.digest, hint, "NoFirstStep")
    elif policy.mounts.own_path_only:
        fault = _cannot_mount("spec.files", spec.files.items[0].path, "")
        yield replace(fault, hint="copy the files while the run is running (kaji cp), or bring them along with --code")


def _faults_of_ceilings(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    yield from _faults_of_member_ceilings(spec, policy, resolved)
    yield from _faults_of_run_ceilings(spec, policy, resolved)
    yield from _faults_of_pod_texts(spec, policy)
    if spec.array is not None and spec.members > policy.sweeps.members:
        message = f"{spec.members} members exceed the policy's ceiling of {policy.sweeps.members} for a sweep"
        yield Fault("spec.array", message, spec.array[:80], "split it into several runs", "AboveCeiling")


def _faults_of_member_ceilings(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    """Yield the resources of one member that exceed a ceiling, or that have to have a limit and have none."""
    memory, shm, ceilings = resolved.memory_limit_bytes, resolved.shm_bytes, policy.ceilings.member
    if shm is not None and memory is not None and shm > memory and spec.resources.memory_bytes is None:
        message = f"/dev/shm of {memory_needed(shm)} counts against memory, which is {memory_there(memory)} by default"
        yield Fault("spec.resources.shm", message, memory_needed(shm), "set resources.memory as well", "ShmAboveMemory")
    checks = (
        _Check(
            "resources.cpu", resolved.cpu_limit_millis or resolved.cpu_request_millis, ceilings.cpu_millis, format_cpu
        ),
        _Check("resources.memory", memory, ceilings.memory_bytes, memory_there),
        _Check("resources.gpu", resolved.gpus, ceilings.gpus, str),
        _Check("resources.shm", shm, ceilings.shm_bytes, memory_there),
    )
    for field, amount, ceiling, shown in checks:
        if ceiling is None:
            continue
        if amount is None and field == "resources.memory" and not resolved.memory_unknown:
            message = f"a member may use at most {shown(ceiling)} of memory, and this run sets no limit"
            yield Fault(f"spec.{field}", message, hint=f"ask for at most {shown(ceiling)}", code="AboveCeiling")
        if amount is not None and amount > ceiling:
            wanted = _format_excess(amount, shown)
            message = f"{wanted} per member exceeds the policy's ceiling of {shown(ceiling)}"
            yield Fault(f"spec.{field}", message, wanted, f"ask for at most {shown(ceiling)}", "AboveCeiling")


def _faults_of_run_ceilings(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    """Yield what all members that run at once use together, and the times and numbers of the run, above a ceiling."""
    count, ceilings = spec.members_at_once, policy.ceilings.run
    cpu = resolved.cpu_limit_millis or resolved.cpu_request_millis
    memory = resolved.memory_limit_bytes or resolved.memory_request_bytes
    size = resolved.checkpoint_size_bytes if spec.checkpoint and policy.checkpoint.kind == "claim" else None
    checks = (
        _Check("array" if spec.array is not None else "replicas", count, ceilings.replicas, str),
        _Check("resources.cpu", cpu * count, ceilings.cpu_millis, format_cpu),
        _Check("resources.memory", memory * count, ceilings.memory_bytes, memory_there),
        _Check("resources.gpu", resolved.gpus * count, ceilings.gpus, str),
        _Check("restarts", resolved.restarts, ceilings.restarts, str),
        _Check("timeLimit", resolved.time_limit_seconds, ceilings.time_limit_seconds, format_duration),
        _Check("grace", resolved.grace_seconds, ceilings.grace_seconds, format_duration),
        _Check("stopGrace", spec.stop_grace_seconds, ceilings.grace_seconds, format_duration),
        _Check("checkpoint.size", size, ceilings.checkpoint_size_bytes, memory_there),
    )
    for field, amount, ceiling, shown in checks:
        if amount is None or ceiling is None or amount <= ceiling:
            continue
        together = " for all members together" if field.startswith("resources.") else ""
        wanted = _format_excess(amount, shown)
        message = f"{wanted}{together} exceeds the policy's ceiling of {shown(ceiling)}"
        hint = f"ask for at most {shown(ceiling)}"
        if spec.array is not None and amount and (together or field == "array"):
            at_once = max(1, count * ceiling // amount)
            hint = f"run fewer members at once: {spec.array.partition('%')[0]}%{at_once}"
        yield Fault(f"spec.{field}", message, wanted, hint, "AboveCeiling")


def _faults_of_pod_texts(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    """Yield a fault if the copies of the spec in all Pods take too much room in the API server."""
    count, ceiling = spec.members_at_once, policy.ceilings.run.pod_text_bytes
    pod_bytes = stored_bytes(to_document(spec))
    if ceiling is not None and pod_bytes * count > ceiling:
        message = (
            f"the spec takes {pod_bytes} bytes in each Pod, {memory_needed(pod_bytes * count)} for {count} members"
        )
        message += f"; the policy's ceiling is {memory_there(ceiling)}"
        hint = f"{PUT_INTO_FILES}; or use fewer members"
        yield Fault("spec", message, str(pod_bytes * count), hint, "AboveCeiling")


def _format_excess(amount: int, shown: Callable[[int], str]) -> str:
    """Format an amount that exceeds a limit. Memory is rounded up, and its limit is rounded down, so that the two texts
    always differ."""
    return memory_needed(amount) if shown is memory_there else shown(amount)


def _faults_of_injection(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    for key, value in policy.inject.node_selector.items():
        if spec.node_selector.get(key, value) != value:
            message = f"the policy places all runs on nodes with {key}={value}"
            field = f"spec.nodeSelector[{key!r}]"
            yield Fault(field, message, spec.node_selector[key], "leave it out", "NodeSelectorFixed")


def _faults_of_volumes(spec: RunSpec, policy: Policy, facts: Facts) -> Iterator[Fault]:
    for index, use in enumerate(spec.volumes):
        field = f"spec.volumes[{index}]"
        if use.host_path is not None:
            yield from _host_path(f"{field}.hostPath", use.host_path, use.path, policy)
            continue
        name = use.name or ""
        volume = policy.volumes.get(name)
        if volume is None:
            message = f"the policy has no volume {name!r}"
            hint = did_you_mean(name, policy.volumes) or f"the policy offers no volumes; {policy.ask}"
            yield Fault(f"{field}.name", message, name, hint, "UnknownVolume")
            continue
        if policy.mounts.own_path_only and volume.host_path != use.path:
            yield _cannot_mount(f"{field}.path", use.path, f"-v {volume.host_path}" if volume.host_path else "")
        lacking = (
            ("PersistentVolumeClaim", volume.claim, facts.claims),
            ("ConfigMap", volume.config_map, facts.config_maps),
            ("Secret", volume.secret, facts.secrets),
        )
        for kind, wanted, present in lacking:
            if wanted is not None and present is not None and wanted not in present:
                message = f"volume {name} needs the {kind} {wanted}, which does not exist in this namespace"
                yield Fault(
                    f"{field}.name", message, name, did_you_mean(wanted, present) or policy.ask, f"{kind}NotFound"
                )


def _host_path(field: str, folder: str, path: str, policy: Policy) -> Iterator[Fault]:
    allowed = policy.mounts.host_paths
    if not any(PurePosixPath(folder).is_relative_to(root) for root in allowed):
        folders = ", ".join(_outermost_folders(allowed))
        hint = f"allowed: {folders} and folders below" if allowed else "use a volume of the policy"
        yield Fault(field, f"the policy does not allow mounting the folder {folder}", folder, hint, "HostPathRefused")
    elif policy.mounts.own_path_only and folder != path:
        yield _cannot_mount(field, path, f"-v {folder}:{folder}")


def _outermost_folders(folders: Sequence[str]) -> list[str]:
    """Return the folders that do not lie below another folder of the list."""
    paths = list(dict.fromkeys(map(PurePosixPath, folders)))
    return [str(path) for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]


def _cannot_mount(field: str, path: str, instead: str) -> Fault:
    message = f"this cluster cannot mount anything at {path}: processes of its nodes have no mounts of their own"
    hint = "use a folder at its own path" + (f": {instead}" if instead else " (-v $PWD:$PWD -w $PWD)")
    return Fault(field, message, path, hint, "MountsUnavailable")


def _faults_of_secrets(spec: RunSpec, policy: Policy, facts: Facts) -> Iterator[Fault]:
    for index, use in enumerate(spec.secrets):
        field = f"spec.secrets[{index}]"
        if not any(fnmatchcase(use.name, pattern) for pattern in policy.security.allow_secrets):
            message = f"the policy does not allow runs to use the Secret {use.name}"
            hint = f"allowed: {', '.join(policy.security.allow_secrets) or 'none'}"
            yield Fault(f"{field}.name", message, use.name, hint, "SecretRefused")
        elif facts.secrets is not None and use.name not in facts.secrets:
            message = f"this namespace has no Secret {use.name}"
            hint = did_you_mean(use.name, facts.secrets) or f"create it: kaji secret create {use.name} KEY"
            yield Fault(f"{field}.name", message, use.name, hint, "SecretNotFound")
        if use.path is not None and policy.mounts.own_path_only:
            fault = _cannot_mount(f"{field}.path", use.path, "")
            yield replace(fault, hint="use environment variables instead")


def _faults_of_checkpoint(spec: RunSpec, policy: Policy, run: RunIdentity) -> Iterator[Fault]:
    if spec.checkpoint is None:
        return
    rules = policy.checkpoint
    if rules.kind == "none":
        message = "this cluster has no storage for checkpoints"
        yield Fault("spec.checkpoint", message, spec.checkpoint.path, policy.ask, "NoCheckpoints")
    if rules.kind == "claim" and rules.access_mode == "ReadWriteOncePod" and spec.members > 1:
        message = "on this cluster, only one member can mount a checkpoint (access mode ReadWriteOncePod)"
        yield Fault("spec.checkpoint", message, spec.checkpoint.path, "use replicas: 1", "CheckpointOfOne")
    if rules.kind == "claim" and policy.mounts.own_path_only:
        yield _cannot_mount("spec.checkpoint.path", spec.checkpoint.path, "")


def _limits_size(facts: Facts, policy: Policy, member: MemberRequest) -> bool:
    """Whether a run that is too large for the present nodes is refused. It waits instead if it was admitted before, if
    the cluster grows on demand, if there are no nodes for runs yet, or if a node that just joined has not reported its
    resources."""
    table = facts.table
    if table is None or facts.admitted or policy.nodes_on_demand:
        return False
    patterns = tuple(policy.security.refuse_tolerations)
    tolerated = member.tolerations + PASSING_TAINTS

    def is_barred(taint: Taint) -> bool:
        """Whether no run may tolerate the taint, for example the taint of a control plane."""
        if taint.effect == "PreferNoSchedule" or any(toleration.tolerates(taint) for toleration in tolerated):
            return False
        return any(fnmatchcase(taint.key, pattern) for pattern in patterns)

    def is_known() -> bool:
        """Whether there are nodes for runs, and all of them have reported their resources."""
        run_nodes = [node for node in table.nodes if not any(map(is_barred, node.taints))]
        return bool(run_nodes) and all(node.cpu_millis or node.memory_bytes for node in run_nodes)

    return table.once((_limits_size, patterns, tolerated), is_known)


def _faults_of_size(
    spec: RunSpec, table: NodeTable, resolved: Resolved, member: MemberRequest, policy: Policy
) -> Iterator[Fault]:
    """Yield a fault for everything that would not fit even if the cluster were empty and all nodes were healthy. If
    there are pools that can grow, the table includes the nodes that they may still get."""
    anywhere = replace(member, tolerations=member.tolerations + PASSING_TAINTS)
    written = spec.resources.gpu_type
    if written is not None and not bool((table.type_mask(resolved.gpu_type) & table.has_gpu).any()):
        known = sorted(table.gpu_types)
        message = f"no node has GPUs of type {written!r}"
        hint = did_you_mean(written, known) or f"{_no_gpus(table)}; {_way_without_gpus(policy)}"
        if known and "known:" not in hint:
            hint += f" (known: {', '.join(known)})"
        yield Fault("spec.resources.gpuType", message, written, hint, "UnknownGpuType")
        return
    of_kind = replace(anywhere, cpu_millis=0, memory_bytes=0, gpus=min(member.gpus, 1))
    rows = np.flatnonzero(eligible_nodes(table, of_kind))
    totals = table.total[rows]
    kind = f"{resolved.gpu_type} " if resolved.gpu_type else ""
    if not len(totals):
        yield _no_node(table, anywhere, kind, policy)
        return
    keeps_gpu_nodes_free = not member.gpus and bool(table.has_gpu.any()) and not bool(table.has_gpu[rows].any())
    without = " without GPUs" if keeps_gpu_nodes_free else ""
    largest = totals.max(axis=0)
    is_too_large = False
    amounts = (
        ("gpu", "GPUs", member.gpus, _most_gpus(table, member, rows), str),
        ("cpu", "cores", member.cpu_millis, int(largest[CPU]), format_cpu),
        ("memory", "of memory", member.memory_bytes, int(largest[MEMORY]), memory_there),
    )
    for field, unit, requested, available, shown in amounts:
        if requested > available:
            is_too_large = True
            wanted = _format_excess(requested, shown)
            message = f"{wanted} {unit} per member, but no {kind}node{without} has more than {shown(available)}"
            hint = f"ask for at most {shown(available)} per member" + (
                ", and for more members" if len(rows) > 1 else ""
            )
            yield Fault(f"spec.resources.{field}", message, wanted, hint, "LargerThanAnyNode")
    if is_too_large:
        return
    room = largest_gang(table, anywhere)
    needed = 1 if spec.array is not None else spec.fewest or spec.replicas
    if room < needed:
        grown = ", including all nodes that its pools may get" if policy.node_pools else ""
        field = "replicas" if spec.fewest is None else "minReplicas"
        message = f"{needed} members, but the whole cluster has room for at most {room} such members{grown}"
        yield Fault(
            f"spec.{field}", message, str(needed), _hint_for_smaller(room, member, field), "LargerThanTheCluster"
        )


def _most_gpus(table: NodeTable, member: MemberRequest, rows: npt.NDArray[np.int64]) -> int:
    """Return the largest number of such GPUs that one Pod can have on one of these nodes."""
    offers = (table.nodes[row].offer_of(member.gpu_type) for row in rows.tolist()) if member.gpus else ()
    return max((offer.most for offer in offers if offer is not None), default=0)


def _hint_for_smaller(room: int, member: MemberRequest, field: str) -> str:
    """Return the hint for a gang that is larger than the cluster, which has room for `room` members."""
    if room:
        few = f"use at most {room} members" if field == "replicas" else f"begin the range with at most {room} members"
        return f"{few}, or ask for less per member"
    what = f"{member.gpus} GPUs, " if member.gpus else ""
    amounts = f"{what}{format_cores(member.cpu_millis)} and {memory_needed(member.memory_bytes)}"
    return f"no single node has {amounts} together; ask for less per member"


def _no_gpus(table: NodeTable) -> str:
    """Return what a cluster without GPUs has instead."""
    if len(table) > 1:
        return f"this cluster has no GPUs: none of its {len(table)} nodes has any"
    (node,) = table.nodes
    amounts = f"{format_cores(node.cpu_millis)} and {memory_there(node.memory_bytes)} of memory"
    return f"this cluster has no GPUs: its only node is {node.name}, with {amounts}"


def _way_without_gpus(policy: Policy) -> str:
    if policy.operators:
        return f"leave GPUs out, or {policy.ask}"
    return "leave GPUs out; a node has the GPUs that nvidia-smi lists there; kaji up --nodes 4 simulates some"


_TAINTS_SHOWN = 3


def _taints_in_the_way(table: NodeTable, member: MemberRequest, policy: Policy) -> list[str]:
    """Return the taints that alone keep a member from nodes, as `--toleration` takes them. Nodes with a taint that
    policy lets no run tolerate do not count."""
    rows = np.flatnonzero(eligible_nodes(table, replace(member, tolerations=(Toleration(operator="Exists"),))))
    found: dict[str, None] = {}
    for taints in dict.fromkeys(table.nodes[row].taints for row in rows.tolist()):
        kept_out = [taint for taint in taints if not any(each.tolerates(taint) for each in member.tolerations)]
        if not any(fnmatchcase(taint.key, each) for taint in kept_out for each in policy.security.refuse_tolerations):
            found |= {f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}": None for one in kept_out}
    return list(found)


def _no_node(table: NodeTable, member: MemberRequest, kind: str, policy: Policy) -> Fault:
    """Return the reason why no node is eligible for a member."""
    if member.gpus and not member.gpu_type and table.gpu_types and not bool((table.total[:, GPU] > 0).any()):
        message = "this cluster has no whole GPUs"
        hint = f"name the type: {' or '.join(f'--gpu-type {name}' for name in sorted(table.gpu_types))}"
        return Fault("spec.resources.gpu", message, str(member.gpus), hint, "NoWholeGpus")
    if member.gpus and not bool(table.has_gpu.any()):
        return Fault("spec.resources.gpu", _no_gpus(table), str(member.gpus), _way_without_gpus(policy), "NoGpus")
    if member.node_selector:
        wanted = ", ".join(f"{key}={value}" for key, value in member.node_selector)
        if taints := _taints_in_the_way(table, member, policy):
            message = f"every {kind}node with the labels {wanted} has taints that the run does not tolerate: "
            hint = f"add --toleration {taints[0]} if the run may use such nodes"
            return Fault("spec.tolerations", message + ", ".join(taints[:_TAINTS_SHOWN]), wanted, hint, "NotTolerated")
        missing = [key for key, value in member.node_selector if not bool(table.label_mask(key, value).any())]
        labels = f"no {kind}node has the labels {wanted}"
        labels += f"; no node has this value of {missing[0]}" if missing else ""
        return Fault("spec.nodeSelector", labels, wanted, "see `kaji nodes -o wide`", "NoSuchNode")
    if not member.gpus and bool(table.has_gpu.all()):
        message = "all nodes have GPUs, and the policy does not allow runs without GPUs there"
        return Fault("spec.resources.gpu", message, "0", policy.ask, "NoCpuNodes")
    message = f"every {kind}node has taints that the run does not tolerate"
    return Fault("spec.tolerations", message, hint="see `kaji nodes -o wide`", code="NotTolerated")
