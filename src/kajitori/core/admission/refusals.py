"""Why policy, or the cluster as it is, says no: every reason, each with the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from kajitori.core.admission.resolve import PASSING_TAINTS, Facts
from kajitori.core.placement.planner import MemberRequest, eligible_nodes, largest_gang
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, NodeTable
from kajitori.core.pods.reach import reach_faults
from kajitori.core.pods.resolved import Resolved, RunIdentity
from kajitori.core.pods.template import begins_with_step
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import PUT_INTO_FILES, RunSpec, name_fault, stored_bytes, to_document
from kajitori.core.words.quantities import format_cores, format_cpu, format_duration, memory_needed, memory_there
from kajitori.core.words.suggestions import did_you_mean
from kajitori.core.words.taints import Taint
from kajitori.errors import Fault

_Check = tuple[str, int | None, int | None, Callable[[int], str]]
"""Field, what is asked for, the ceiling, and how to write such an amount."""

_ASK = "ask the operators of the cluster"

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
"""By the code of a refusal: other fields that it follows from. Where one of them is wrong, it may not hold at all. What
can only grow worse with what was not read (a ceiling on all members, say) is not among them."""


def refusals(
    spec: RunSpec, policy: Policy, facts: Facts, resolved: Resolved, member: MemberRequest, run: RunIdentity
) -> Iterator[Fault]:
    """Everything that is against it; nothing if the run may be."""
    wrong_name = name_fault(run.name, "metadata.name")
    if wrong_name is not None:
        yield wrong_name
    yield from _rights(spec, policy, resolved)
    yield from _ceilings(spec, policy, resolved)
    yield from _injection(spec, policy)
    yield from _volumes(spec, policy, facts)
    yield from _secrets(spec, policy, facts)
    yield from _checkpoint(spec, policy, run)
    yield from _code(spec, policy)
    yield from reach_faults(
        spec.network, policy, host_network=spec.host_network, first_step=begins_with_step(spec, policy)
    )
    if spec.launcher == "mpi" and policy.start.image is None:
        message = "members cannot be given keys and hostfile here: policy names neither start.image nor start.server"
        yield Fault("spec.launcher", message, "mpi", _ASK, "NoFirstStep")
    if _limits_size(facts, policy, member):
        assert facts.table is not None
        yield from _cluster(spec, facts.table, resolved, member, grows=bool(policy.node_pools))
    elif spec.resources.gpu_type is not None and not resolved.gpus:
        hint = "say how many with resources.gpu"
        yield Fault("spec.resources.gpu", "how many GPUs a whole node has is not known yet", hint=hint, code="Unknown")


def _rights(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    security = policy.security
    reason = policy.images.refusal(spec.image)
    if reason:
        allowed = policy.images.allow
        hint = f"allowed: {', '.join(allowed[:20])}" if allowed else _ASK
        yield Fault("spec.image", f"{spec.image} may not run: {reason}", spec.image, hint, "ImageRefused")
    if spec.privileged and not security.allow_privileged:
        yield Fault("spec.privileged", "privileged programs are not allowed", "true", "leave it out", "Privileged")
    if spec.host_network and not security.allow_host_network:
        message = "the network of the node is not allowed"
        yield Fault(
            "spec.hostNetwork", message, "true", "leave it out; members reach each other by name", "HostNetwork"
        )
    if spec.user is not None and int(spec.user.split(":")[0]) == 0 and not security.allow_root:
        yield Fault("spec.user", "programs may not run as root", spec.user, "name another uid, such as 1000", "Root")
    for index, toleration in enumerate(spec.tolerations):
        key = toleration.key
        refused = next((each for each in security.refuse_tolerations if not key or fnmatchcase(key, each)), None)
        if refused is not None:
            message = f"the taint {key} is not to be tolerated" if key else "not every taint is to be tolerated"
            hint = "leave it out" if key else f"name the taints; {refused} stays refused"
            yield Fault(f"spec.tolerations[{index}].key", message, key, hint, "TolerationRefused")
    if spec.qos == "burstable" and not policy.allow_burstable:
        message = "what a run may use has to be reserved for it"
        yield Fault("spec.qos", message, "burstable", "leave qos, cpuRequest and memoryRequest out", "Burstable")
    if resolved.memory_unknown:
        message = "a memory limit is required, so that a run cannot harm its neighbours"
        yield Fault(
            "spec.resources.memory", message, hint="name one, such as 16Gi (-m 16g)", code="MemoryLimitRequired"
        )
    elif resolved.memory_limit_bytes is None and spec.type == "service":
        message = "a service is kept running however often it fails, so it needs a memory limit"
        yield Fault(
            "spec.resources.memory", message, hint="name one, such as 16Gi (-m 16g)", code="MemoryLimitRequired"
        )


def _code(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    if spec.code is not None and policy.start.image is None:
        message = "code cannot get to members here: policy names neither start.image nor start.server"
        hint = f"make it part of the image, or put it on a volume; or {_ASK}"
        yield Fault("spec.code", message, spec.code.digest, hint, "NoFirstStep")


def _ceilings(spec: RunSpec, policy: Policy, resolved: Resolved) -> Iterator[Fault]:
    member, run, count = policy.ceilings.member, policy.ceilings.run, spec.members_at_once
    cpu = resolved.cpu_limit_millis or resolved.cpu_request_millis
    memory = resolved.memory_limit_bytes
    each: tuple[_Check, ...] = (
        ("resources.cpu", cpu, member.cpu_millis, format_cpu),
        ("resources.memory", memory, member.memory_bytes, memory_there),
        ("resources.gpu", resolved.gpus, member.gpus, str),
        ("resources.shm", resolved.shm_bytes, member.shm_bytes, memory_there),
    )
    shm = resolved.shm_bytes
    if shm is not None and memory is not None and shm > memory and spec.resources.memory_bytes is None:
        message = f"/dev/shm of {memory_needed(shm)} is taken from memory, which is {memory_there(memory)} by default"
        yield Fault("spec.resources.shm", message, memory_needed(shm), "set resources.memory as well", "ShmAboveMemory")
    for field, amount, limit, shown in each:
        if limit is None:
            continue
        if amount is None and field == "resources.memory" and not resolved.memory_unknown:
            message = f"no limit, but one member may have {shown(limit)}"
            yield Fault(f"spec.{field}", message, hint=f"ask for at most {shown(limit)}", code="AboveCeiling")
        if amount is not None and amount > limit:
            wanted = _wanted(amount, shown)
            message = f"{wanted} for a member is above the ceiling of {shown(limit)}"
            yield Fault(f"spec.{field}", message, wanted, f"ask for at most {shown(limit)}", "AboveCeiling")
    memory_of_all = (memory or resolved.memory_request_bytes) * count
    size = resolved.checkpoint_size_bytes if spec.checkpoint and policy.checkpoint.kind == "claim" else None
    whole: tuple[_Check, ...] = (
        ("array" if spec.array is not None else "replicas", count, run.replicas, str),
        ("resources.cpu", cpu * count, run.cpu_millis, format_cpu),
        ("resources.memory", memory_of_all, run.memory_bytes, memory_there),
        ("resources.gpu", resolved.gpus * count, run.gpus, str),
        ("restarts", resolved.restarts, run.restarts, str),
        ("timeLimit", resolved.time_limit_seconds, run.time_limit_seconds, format_duration),
        ("grace", resolved.grace_seconds, run.grace_seconds, format_duration),
        ("stopGrace", spec.stop_grace_seconds, run.grace_seconds, format_duration),
        ("checkpoint.size", size, run.checkpoint_size_bytes, memory_there),
    )
    for field, amount, limit, shown in whole:
        if amount is not None and limit is not None and amount > limit:
            together = " of all members together" if field.startswith("resources.") else ""
            wanted = _wanted(amount, shown)
            message = f"{wanted}{together} is above the ceiling of {shown(limit)}"
            hint = f"ask for at most {shown(limit)}"
            if spec.array is not None and amount and (together or field == "array"):
                hint = f"let fewer be there at once: {spec.array.partition('%')[0]}%{max(1, count * limit // amount)}"
            yield Fault(f"spec.{field}", message, wanted, hint, "AboveCeiling")
    text, most = stored_bytes(to_document(spec)), run.pod_text_bytes
    if most is not None and text * count > most:
        message = f"its words take {text} bytes in each Pod, {memory_needed(text * count)} in those of {count} members"
        message += f"; the ceiling is {memory_there(most)}"
        hint = f"{PUT_INTO_FILES}; or use fewer members"
        yield Fault("spec", message, str(text * count), hint, "AboveCeiling")
    if spec.array is not None and spec.members > policy.sweeps.members:
        message = f"{spec.members} members are above the ceiling of {policy.sweeps.members} for a sweep"
        yield Fault("spec.array", message, spec.array[:80], "make several runs of it", "AboveCeiling")


def _wanted(amount: int, shown: Callable[[int], str]) -> str:
    """An amount that is too much, in the words of the limit. A size is rounded up where the limit is rounded down, so
    that the two never look the same."""
    return memory_needed(amount) if shown is memory_there else shown(amount)


def _injection(spec: RunSpec, policy: Policy) -> Iterator[Fault]:
    for key, value in policy.inject.node_selector.items():
        if spec.node_selector.get(key, value) != value:
            message = f"policy places runs on nodes with {key}={value}"
            field = f"spec.nodeSelector[{key!r}]"
            yield Fault(field, message, spec.node_selector[key], "leave it out", "NodeSelectorFixed")


def _volumes(spec: RunSpec, policy: Policy, facts: Facts) -> Iterator[Fault]:
    for index, use in enumerate(spec.volumes):
        field = f"spec.volumes[{index}]"
        if use.host_path is not None:
            yield from _host_path(f"{field}.hostPath", use.host_path, use.path, policy)
            continue
        name = use.name or ""
        volume = policy.volumes.get(name)
        if volume is None:
            message = f"there is no volume {name!r}"
            hint = did_you_mean(name, policy.volumes) or f"the policy offers no volumes; {_ASK}"
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
                message = f"volume {name} is the {kind} {wanted}, which this namespace does not have"
                yield Fault(f"{field}.name", message, name, did_you_mean(wanted, present) or _ASK, f"{kind}NotFound")


def _host_path(field: str, folder: str, path: str, policy: Policy) -> Iterator[Fault]:
    allowed = policy.mounts.host_paths
    if not any(PurePosixPath(folder).is_relative_to(root) for root in allowed):
        folders = ", ".join(_outermost(allowed))
        hint = f"allowed are {folders} and what lies below" if allowed else "use a volume of the policy"
        yield Fault(field, f"the folder {folder} may not be mounted", folder, hint, "HostPathRefused")
    elif policy.mounts.own_path_only and folder != path:
        yield _cannot_mount(field, path, f"-v {folder}:{folder}")


def _outermost(folders: Sequence[str]) -> list[str]:
    """Those that lie below no other of them."""
    paths = list(dict.fromkeys(map(PurePosixPath, folders)))
    return [str(path) for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]


def _cannot_mount(field: str, path: str, instead: str) -> Fault:
    message = f"nothing can be mounted at {path} here: this machine's processes have no mounts of their own"
    hint = "a folder works at its own path" + (f": {instead}" if instead else " (-v $PWD:$PWD -w $PWD)")
    return Fault(field, message, path, hint, "MountsUnavailable")


def _secrets(spec: RunSpec, policy: Policy, facts: Facts) -> Iterator[Fault]:
    for index, use in enumerate(spec.secrets):
        field = f"spec.secrets[{index}]"
        if not any(fnmatchcase(use.name, pattern) for pattern in policy.security.allow_secrets):
            message = f"runs may not use the Secret {use.name}"
            hint = f"allowed: {', '.join(policy.security.allow_secrets) or 'none'}"
            yield Fault(f"{field}.name", message, use.name, hint, "SecretRefused")
        elif facts.secrets is not None and use.name not in facts.secrets:
            message = f"this namespace has no Secret {use.name}"
            hint = did_you_mean(use.name, facts.secrets) or f"make it: kaji secret create {use.name} KEY"
            yield Fault(f"{field}.name", message, use.name, hint, "SecretNotFound")
        if use.path is not None and policy.mounts.own_path_only:
            message = f"nothing can be mounted at {use.path} here: this machine's processes have no mounts of their own"
            yield Fault(f"{field}.path", message, use.path, "take it as environment variables", "MountsUnavailable")


def _checkpoint(spec: RunSpec, policy: Policy, run: RunIdentity) -> Iterator[Fault]:
    if spec.checkpoint is None:
        return
    rules = policy.checkpoint
    if rules.kind == "none":
        yield Fault("spec.checkpoint", "there are no checkpoints here", spec.checkpoint.path, _ASK, "NoCheckpoints")
    if rules.kind == "claim" and rules.access_mode == "ReadWriteOncePod" and spec.members > 1:
        message = "checkpoints here can be mounted by one member only"
        yield Fault("spec.checkpoint", message, spec.checkpoint.path, "use replicas: 1", "CheckpointOfOne")
    if rules.kind == "claim" and policy.mounts.own_path_only:
        yield _cannot_mount("spec.checkpoint.path", spec.checkpoint.path, "")


def _limits_size(facts: Facts, policy: Policy, member: MemberRequest) -> bool:
    """Whether the nodes say how large a run can be at most. A cluster that grows by itself does not, nor one that has
    no node for runs yet, or one that has just joined and not said what it has: the run waits then."""
    table = facts.table
    if table is None or facts.admitted or policy.nodes_on_demand:
        return False
    patterns = tuple(policy.security.refuse_tolerations)
    tolerated = member.tolerations + PASSING_TAINTS

    def is_barred(taint: Taint) -> bool:
        """Whether no run may tolerate the taint, such as that of a control plane."""
        if taint.effect == "PreferNoSchedule" or any(each.tolerates(taint) for each in tolerated):
            return False
        return any(fnmatchcase(taint.key, pattern) for pattern in patterns)

    def is_known() -> bool:
        of_runs = [node for node in table.nodes if not any(map(is_barred, node.taints))]
        return bool(of_runs) and all(node.cpu_millis or node.memory_bytes for node in of_runs)

    return table.once((_limits_size, patterns, tolerated), is_known)


def _cluster(
    spec: RunSpec, table: NodeTable, resolved: Resolved, member: MemberRequest, *, grows: bool
) -> Iterator[Fault]:
    """What the cluster could not hold even if it were empty and every node of it in order. With pools that can grow
    the table holds what may come, too."""
    anywhere = replace(member, tolerations=member.tolerations + PASSING_TAINTS)
    written = spec.resources.gpu_type
    if written is not None and not bool((table.type_mask(resolved.gpu_type) & table.has_gpu).any()):
        known = sorted({node.gpu_type for node in table.nodes if node.gpus and node.gpu_type})
        message = f"no node has GPUs of type {written!r}"
        hint = did_you_mean(written, known) or "this cluster has no GPUs"
        if known and "known" not in hint:
            hint += f" (known: {', '.join(known)})"
        yield Fault("spec.resources.gpuType", message, written, hint, "UnknownGpuType")
        return
    like = replace(anywhere, cpu_millis=0, memory_bytes=0, gpus=min(member.gpus, 1))
    suiting = table.total[eligible_nodes(table, like)]
    kind = f"{resolved.gpu_type} " if resolved.gpu_type else ""
    if not len(suiting):
        yield _no_node(table, anywhere, kind)
        return
    most = suiting.max(axis=0)
    short = False
    of_member = (
        ("gpu", "GPUs", member.gpus, int(most[GPU]), str),
        ("cpu", "cores", member.cpu_millis, int(most[CPU]), format_cpu),
        ("memory", "of memory", member.memory_bytes, int(most[MEMORY]), memory_there),
    )
    for field, unit, asked, available, shown in of_member:
        if asked > available:
            short = True
            wanted = _wanted(asked, shown)
            message = f"{wanted} {unit} for a member, but no {kind}node has more than {shown(available)}"
            hint = f"ask for at most {shown(available)} a member, and for more members with replicas"
            yield Fault(f"spec.resources.{field}", message, wanted, hint, "LargerThanAnyNode")
    if short:
        return
    room = largest_gang(table, anywhere)
    least = 1 if spec.array is not None else spec.fewest or spec.replicas
    if room < least:
        grown = ", with all nodes that its pools may get" if grows else ""
        field = "replicas" if spec.fewest is None else "minReplicas"
        message = f"{least} members, but the whole cluster could hold {room} such members at most{grown}"
        yield Fault(f"spec.{field}", message, str(least), _smaller(room, member, field), "LargerThanTheCluster")


def _smaller(room: int, member: MemberRequest, field: str) -> str:
    if room:
        return f"use at most {room} {field}, or ask for less per member"
    what = f"{member.gpus} GPUs, " if member.gpus else ""
    amounts = f"{what}{format_cores(member.cpu_millis)} and {memory_needed(member.memory_bytes)}"
    return f"no single node has {amounts} together; ask for less per member"


def _no_node(table: NodeTable, member: MemberRequest, kind: str) -> Fault:
    if member.gpus and not bool(table.has_gpu.any()):
        return Fault("spec.resources.gpu", "this cluster has no GPUs", str(member.gpus), _ASK, "NoGpus")
    if member.node_selector:
        wanted = ", ".join(f"{key}={value}" for key, value in member.node_selector)
        missing = [key for key, value in member.node_selector if not bool(table.label_mask(key, value).any())]
        labels = f"no {kind}node has the labels {wanted}" + (f"; none has that {missing[0]}" if missing else "")
        return Fault("spec.nodeSelector", labels, wanted, "see `kaji nodes -o wide`", "NoSuchNode")
    if not member.gpus and bool(table.has_gpu.all()):
        message = "all nodes have GPUs, and policy keeps those free of runs without GPUs"
        return Fault("spec.resources.gpu", message, "0", _ASK, "NoCpuNodes")
    message = f"every {kind}node has taints that the run does not tolerate"
    return Fault("spec.tolerations", message, hint="see `kaji nodes -o wide`", code="NotTolerated")
