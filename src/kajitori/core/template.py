"""The Pod template of a run: what all its members have in common, as it is stored with an attempt."""

from __future__ import annotations

from typing import Any

from kajitori.core import first_step, mpi, names
from kajitori.core.array import Array
from kajitori.core.image_policy import full_image_name
from kajitori.core.manifests import CHECKPOINT_ENV
from kajitori.core.mount_policy import Volume
from kajitori.core.policy_model import Policy
from kajitori.core.quantity import format_cpu, format_memory, parse_cpu_millis
from kajitori.core.resolve import DEAD_NODE_TAINTS, Findings, Resolved, RunIdentity
from kajitori.core.run import SHM_PATH, RunSpec, SecretUse
from kajitori.core.snapshot import Toleration

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
"""Kubernetes' default."""
_SECRET_LOOKING = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL")

Manifest = dict[str, Any]


def pod_template(spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity, findings: Findings) -> Manifest:
    """`metadata` and `spec` of every member's Pod, without what differs from member to member.

    What policy adds or changes becomes a finding.
    """
    inject = policy.inject
    mounts = _Mounts()
    checkpoint_path = _mount_everything(mounts, spec, policy, resolved, run, findings)
    by_mpi = spec.launcher == "mpi"
    meets_others, has_first_step = _meets_others(spec), begins_with_step(spec, policy)
    if has_first_step:
        _mount_what_the_step_makes(mounts, spec, policy, resolved, meets_others=meets_others)
    container: Manifest = {
        "name": names.MEMBER_CONTAINER,
        "image": spec.image,
        "env": _env(spec, policy, resolved, checkpoint_path, findings),
        "resources": _resources(policy, resolved, findings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    words = [literal(word) for word in (*spec.command, *spec.args)]
    _put(container, "command", mpi.started_by(words) if by_mpi else words[: len(spec.command)])
    _put(container, "args", None if by_mpi else words[len(spec.command) :])
    _put(container, "workingDir", spec.working_dir or (spec.code.path if spec.code is not None else None))
    _put(container, "envFrom", [{"secretRef": {"name": use.name}} for use in spec.secrets if _is_whole_env(use)])
    _put(container, "imagePullPolicy", policy.images.pull_policy)
    _put(container, "ports", [{"containerPort": port} for port in spec.ports])
    _put(container, "volumeMounts", mounts.mounts)
    _put(container, "securityContext", _security_context(spec, policy, resolved, findings))

    pod: Manifest = {
        "restartPolicy": "Always" if spec.type == "service" else "Never",
        "terminationGracePeriodSeconds": resolved.grace_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "preemptionPolicy": "Never",
        "priorityClassName": policy.priorities[resolved.priority].class_name,
        "tolerations": [*(_toleration(each) for each in resolved.tolerations), *_node_loss_is_ours()],
        "containers": [container],
    }
    _put(pod, "nodeSelector", dict(sorted(resolved.node_selector.items())))
    _put(pod, "volumes", mounts.volumes)
    if has_first_step:
        told = {first_step.HOSTS_ENV: f"{first_step.FOLDER}/{first_step.HOSTS_FILE}"} if meets_others else {}
        if by_mpi:
            told |= mpi.told(policy.start.deadline_seconds)
        if spec.code is not None:
            told[first_step.CODE_DIR_ENV] = spec.code.path
        container["env"] += [{"name": name, "value": value} for name, value in told.items()]
        step = _first_step(container, spec, policy, resolved, meets_others=meets_others)
        pod["initContainers"] = [step, mpi.image_step(container, step)] if by_mpi else [step]
    _put(pod, "imagePullSecrets", [{"name": name} for name in policy.images.pull_secrets])
    _put(pod, "runtimeClassName", inject.runtime_class)
    _put(pod, "schedulerName", inject.scheduler_name)
    if policy.security.fs_group is not None:
        pod["securityContext"] = {"fsGroup": policy.security.fs_group}
    if spec.sweep is not None:
        container["env"] += [{"name": name, "value": value} for name, value in sweep_env(spec.sweep).items()]
        _put(pod, "activeDeadlineSeconds", resolved.time_limit_seconds)
    if spec.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    _tell_additions(policy, resolved, findings)
    _tell_about_image(spec, findings)
    if by_mpi:
        mpi.tell(spec, policy, resolved, findings)

    metadata: Manifest = {"labels": {**spec.labels, **inject.labels}}
    if spec.resources.whole_node:
        metadata["labels"][names.LABEL_WHOLE_NODE] = "true"
    ours = {first_step.ANNOTATION_OWN_FOLDERS: first_step.VOLUME} if has_first_step else {}
    if run.owner:
        ours[names.ANNOTATION_OWNER] = run.owner
    if not resolved.reach.is_open:
        ours[names.ANNOTATION_NETWORK] = str(resolved.reach)
    _put(metadata, "annotations", inject.annotations | ours)
    return {"metadata": metadata, "spec": pod}


def begins_with_step(spec: RunSpec, policy: Policy) -> bool:
    """Whether members have a first step, in which they ask the Web API."""
    return policy.start.image is not None and (_meets_others(spec) or spec.code is not None)


def _meets_others(spec: RunSpec) -> bool:
    return spec.type == "batch" and (spec.replicas > 1 or spec.launcher == "mpi")


def literal(text: str) -> str:
    """The text as Kubernetes has to be told it, so that a program gets it unchanged.

    Kubernetes replaces `$(NAME)` in commands, arguments and values, and reads `$$` as one `$`; Docker does neither.
    """
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def checkpoint_folder(policy: Policy, run: RunIdentity) -> str:
    """Where a run's checkpoint lies, for policies that keep them in folders."""
    return f"{(policy.checkpoint.root or '').rstrip('/')}/{run.namespace}/{run.name}"


def slots(gpus: int) -> int:
    """Processes that belong on one member: one for each GPU, or one."""
    return max(1, gpus)


def sweep_env(sweep: Array) -> dict[str, str]:
    """What all members of a sweep are told alike. KAJI_RESULT is where Kubernetes looks for what a container says last:
    what a member writes there is its result."""
    return {
        "KAJI_ARRAY_COUNT": str(len(sweep.indices)),
        "KAJI_ARRAY_MIN": str(sweep.indices[0]),
        "KAJI_ARRAY_MAX": str(sweep.indices[-1]),
        "KAJI_RESULT": TERMINATION_MESSAGE_PATH,
    }


def torchrun_env(gpus: int) -> dict[str, str]:
    """What torchrun and its kin are told in every attempt alike: one process for each GPU, or one.

    torchrun takes its options from variables that begin with PET_, so that `torchrun train.py` is all one has to write.
    """
    processes = str(slots(gpus))
    return {"NPROC_PER_NODE": processes, "PET_NPROC_PER_NODE": processes}


def _mount_what_the_step_makes(
    mounts: _Mounts, spec: RunSpec, policy: Policy, resolved: Resolved, *, meets_others: bool
) -> None:
    """The folder that the step fills; out of it the program's /etc/hosts and the run's code, which it may write to."""
    by_mpi = spec.launcher == "mpi"
    mounts.add(first_step.VOLUME, first_step.FOLDER, {"emptyDir": {}}, read_only=not by_mpi)
    if by_mpi and mpi.brings_passwd(policy, resolved):
        users: Manifest = {"name": first_step.VOLUME, "mountPath": first_step.ETC_PASSWD, "readOnly": True}
        mounts.mounts.append(users | {"subPath": first_step.PASSWD_FILE})
    if meets_others and not any(mount["mountPath"] == first_step.ETC_HOSTS for mount in mounts.mounts):
        names_of_members: Manifest = {"name": first_step.VOLUME, "mountPath": first_step.ETC_HOSTS, "readOnly": True}
        mounts.mounts.append(names_of_members | {"subPath": first_step.ETC_HOSTS_FILE})
    if spec.code is not None:
        code: Manifest = {"name": first_step.VOLUME, "mountPath": spec.code.path, "subPath": first_step.CODE_FOLDER}
        mounts.mounts.append(code)


def _first_step(member: Manifest, spec: RunSpec, policy: Policy, resolved: Resolved, *, meets_others: bool) -> Manifest:
    """The init container that members begin with; what differs from attempt to attempt comes with the Pod."""
    start = policy.start
    env = {
        first_step.SERVER_ENV: start.server,
        first_step.FOLDER_ENV: first_step.FOLDER,
        first_step.SLOTS_ENV: str(slots(resolved.gpus)),
        first_step.DEADLINE_ENV: str(max(1, int(start.deadline_seconds * first_step.DEADLINE_SHARE))),
    }
    if start.server_ca:
        env[first_step.CA_ENV] = start.server_ca
    if spec.code is not None:
        env[first_step.CODE_ENV] = spec.code.digest
    if not meets_others:
        env[first_step.ALONE_ENV] = "1"
    step: Manifest = {
        "name": first_step.CONTAINER,
        "image": start.image,
        "command": ["python3", "-P", "-m", first_step.PROGRAM],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": _resources_of_step(member["resources"]),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": first_step.VOLUME, "mountPath": first_step.FOLDER}],
    }
    _put(step, "imagePullPolicy", policy.images.pull_policy)
    _put(step, "securityContext", _security_of_step(member.get("securityContext", {})))
    return step


def _resources_of_step(member: Manifest) -> Manifest:
    """Cores and memory of the member itself: the Pod needs no more with the step than without it, its class stays what
    it is, and a namespace's LimitRange that takes the one takes the other.

    But never whole cores: a node that gives those away for good (the static policy of its CPU manager) would choose
    them for the step, before it knows the GPUs that the program gets.
    """
    step: Manifest = {
        kind: {name: amounts[name] for name in ("cpu", "memory") if name in amounts} for kind, amounts in member.items()
    }
    cpu = step["requests"].get("cpu", "")
    if cpu and cpu == step["limits"].get("cpu") and parse_cpu_millis(cpu) % 1000 == 0:
        step["requests"]["cpu"] = step["limits"]["cpu"] = format_cpu(parse_cpu_millis(cpu) - 1)
    return step


def _security_of_step(member: Manifest) -> Manifest:
    """As the member's, so that a namespace that takes the one takes the other; without the rights that it has no use
    for."""
    step = {name: value for name, value in member.items() if name not in ("privileged", "capabilities")}
    if member.get("privileged"):
        step["allowPrivilegeEscalation"] = False
    dropped = member.get("capabilities", {}).get("drop")
    _put(step, "capabilities", {"drop": dropped} if dropped else None)
    return step


def _is_whole_env(use: SecretUse) -> bool:
    return use.path is None and use.env is None


def _put(target: Manifest, key: str, value: Any) -> None:
    if value:
        target[key] = value


class _Mounts:
    """Volumes and where they are mounted; one volume for each mount."""

    def __init__(self) -> None:
        self.volumes: list[Manifest] = []
        self.mounts: list[Manifest] = []

    def add(
        self, name: str, path: str, source: Manifest, *, read_only: bool = False, sub_path: str | None = None
    ) -> None:
        mount: Manifest = {"name": name, "mountPath": path}
        _put(mount, "readOnly", read_only)
        _put(mount, "subPath", sub_path)
        self.volumes.append({"name": name, **source})
        self.mounts.append(mount)


def _mount_everything(
    mounts: _Mounts, spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity, findings: Findings
) -> str:
    """Adds all mounts; answers where members find the checkpoint, or nothing."""
    if resolved.shm_bytes:
        limit = format_memory(resolved.shm_bytes)
        mounts.add("shm", SHM_PATH, {"emptyDir": {"medium": "Memory", "sizeLimit": limit}})
        if policy.mounts.own_path_only:
            message = f"{SHM_PATH} is this machine's own: its size is not limited"
            findings.add("ShmOfTheMachine", message, "spec.resources.shm")
    checkpoint_path = _mount_checkpoint(mounts, spec, policy, run, findings)
    for index, use in enumerate(spec.volumes):
        field = f"spec.volumes[{index}]"
        read_only = use.read_only
        sub_path = None
        if use.host_path is not None:
            source: Manifest = {"hostPath": {"path": use.host_path}}
        else:
            volume = policy.volumes[use.name or ""]
            source, sub_path = _source(volume), volume.sub_path
            if volume.read_only and not use.read_only:
                read_only = True
                findings.add("VolumeReadOnly", f"the volume {use.name} can only be read", f"{field}.readOnly")
        if read_only and policy.mounts.own_path_only:
            message = f"{use.path} is the folder itself on this machine: nothing keeps programs from writing it"
            findings.add("ReadOnlyNotEnforced", message, f"{field}.readOnly")
        mounts.add(f"volume-{index}", use.path, source, read_only=read_only, sub_path=sub_path)
    for index, secret in enumerate(spec.secrets):
        if secret.path is not None:
            source = {"secret": {"secretName": secret.name}}
            mounts.add(f"secret-{index}", secret.path, source, read_only=True)
    return checkpoint_path


def _mount_checkpoint(mounts: _Mounts, spec: RunSpec, policy: Policy, run: RunIdentity, findings: Findings) -> str:
    if spec.checkpoint is None:
        return ""
    path, rules = spec.checkpoint.path, policy.checkpoint
    if rules.kind == "claim":
        source: Manifest = {"persistentVolumeClaim": {"claimName": names.checkpoint_claim(run.name)}}
        if rules.access_mode == "ReadWriteOnce" and spec.members > 1:
            message = "the claim can be mounted on one node at a time: all members have to fit on one"
            findings.add("CheckpointOnOneNode", message, "spec.checkpoint")
    else:
        folder = checkpoint_folder(policy, run)
        source = {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
        if policy.mounts.own_path_only and folder != path:
            path = folder
            message = (
                f"the checkpoint lies at {folder}, not at {spec.checkpoint.path}; programs find it by {CHECKPOINT_ENV}"
            )
            findings.add("CheckpointAtOwnPath", message, "spec.checkpoint.path")
        if spec.checkpoint.size_bytes is not None:
            message = "checkpoints are folders here, so the size is not used"
            findings.add("CheckpointSizeUnused", message, "spec.checkpoint.size")
    mounts.add("checkpoint", path, source)
    return path


def _source(volume: Volume) -> Manifest:
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.host_path is not None:
        return {"hostPath": {"path": volume.host_path}}
    if volume.nfs is not None:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    if volume.config_map is not None:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret is not None:
        return {"secret": {"secretName": volume.secret}}
    empty: Manifest = {}
    if volume.empty_dir is not None:
        _put(empty, "medium", "Memory" if volume.empty_dir.memory else "")
        _put(empty, "sizeLimit", volume.empty_dir.size_bytes and format_memory(volume.empty_dir.size_bytes))
    return {"emptyDir": empty}


def _env(spec: RunSpec, policy: Policy, resolved: Resolved, checkpoint_path: str, findings: Findings) -> list[Manifest]:
    """The user's variables first, then policy's, then ours: where a name stands twice, the last one counts."""
    fixed = policy.inject.env
    env: list[Manifest] = [
        {"name": name, "value": literal(value)} for name, value in resolved.env.items() if name not in fixed
    ]
    for index, secret in enumerate(spec.secrets):
        if secret.env is not None and secret.env in fixed:
            findings.add("EnvReplaced", f"policy sets {secret.env}", f"spec.secrets[{index}].env")
        elif secret.env is not None:
            reference = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
            env.append({"name": secret.env, "valueFrom": reference})
    env += [{"name": name, "value": value} for name, value in fixed.items()]
    if spec.launcher == "torchrun":
        env += [{"name": name, "value": value} for name, value in torchrun_env(resolved.gpus).items()]
    if checkpoint_path:
        env.append({"name": CHECKPOINT_ENV, "value": checkpoint_path})
    replaced = sorted(fixed.keys() & spec.env.keys())
    if replaced:
        findings.add("EnvReplaced", f"policy sets {', '.join(replaced)}", "spec.env")
    if fixed.keys() - set(replaced):
        findings.add("EnvAdded", f"policy adds {', '.join(sorted(fixed.keys() - set(replaced)))}", "spec.env")
    open_secrets = sorted(name for name in spec.env if any(word in name.upper() for word in _SECRET_LOOKING))
    if open_secrets:
        message = f"{', '.join(open_secrets)} can be read by everybody who may see the run; name a Secret under secrets"
        findings.add("SecretInEnv", message, "spec.env")
    return env


def _resources(policy: Policy, resolved: Resolved, findings: Findings) -> Manifest:
    requests = {"cpu": format_cpu(resolved.cpu_request_millis), "memory": format_memory(resolved.memory_request_bytes)}
    limits: dict[str, str] = {}
    _put(limits, "cpu", resolved.cpu_limit_millis and format_cpu(resolved.cpu_limit_millis))
    _put(limits, "memory", resolved.memory_limit_bytes and format_memory(resolved.memory_limit_bytes))
    further = {**policy.inject.resources, **(policy.gpu.resources if resolved.gpus else {})}
    if further:
        listed = ", ".join(f"{name}: {amount}" for name, amount in sorted(further.items()))
        findings.add("ResourcesAdded", f"policy adds {listed}", "spec.resources")
    if resolved.gpus:
        further[policy.gpu.resource] = str(resolved.gpus)
    return {"requests": requests | further, "limits": limits | further}


def _security_context(spec: RunSpec, policy: Policy, resolved: Resolved, findings: Findings) -> Manifest:
    rules = policy.security
    context: Manifest = {}
    if resolved.user:
        uid, _, gid = resolved.user.partition(":")
        context["runAsUser"] = int(uid)
        if gid:
            context["runAsGroup"] = int(gid)
    if not rules.allow_root:
        context["runAsNonRoot"] = True
        if not resolved.user:
            message = "programs may not run as root: the image has to name another user, or the run does (--user 1000)"
            findings.add("MustNotBeRoot", message, "spec.user")
    if spec.privileged:
        context["privileged"] = True
        findings.add("Privileged", "the program has all rights on its node", "spec.privileged")
    elif not rules.allow_privilege_escalation:
        context["allowPrivilegeEscalation"] = False
    capabilities: Manifest = {}
    _put(capabilities, "drop", list(rules.drop_capabilities))
    _put(capabilities, "add", list(rules.add_capabilities))
    _put(context, "capabilities", capabilities)
    if rules.seccomp_profile:
        context["seccompProfile"] = {"type": rules.seccomp_profile}
    _put(context, "readOnlyRootFilesystem", rules.read_only_root)
    restrictions = [
        (not rules.allow_privilege_escalation and not spec.privileged, "setuid programs such as sudo do not work"),
        ("ALL" in rules.drop_capabilities, f"of root's rights it has {', '.join(rules.add_capabilities) or 'none'}"),
        (rules.read_only_root, "the image's own files cannot be written"),
    ]
    if any(holds for holds, _ in restrictions):
        message = "; ".join(text for holds, text in restrictions if holds)
        findings.add("SecurityRestricted", message)
    return context


def _toleration(each: Toleration) -> Manifest:
    toleration: Manifest = {"operator": each.operator}
    for key, value in (("key", each.key), ("value", each.value), ("effect", each.effect)):
        _put(toleration, key, value)
    return toleration


def _node_loss_is_ours() -> list[Manifest]:
    """Without these an API server adds its own, and members of a dead node would be deleted after five minutes by
    somebody else (rule 6)."""
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in DEAD_NODE_TAINTS]


def _tell_additions(policy: Policy, resolved: Resolved, findings: Findings) -> None:
    inject = policy.inject
    tolerated = [*inject.tolerations, *(policy.gpu.tolerations if resolved.gpus else ())]
    added = (
        ("LabelsAdded", "labels", [f"{key}={value}" for key, value in inject.labels.items()]),
        ("AnnotationsAdded", "annotations", list(inject.annotations)),
        ("NodeSelectorAdded", "the node selector", [f"{key}={value}" for key, value in inject.node_selector.items()]),
        ("TolerationsAdded", "tolerations of", [each.key or "every taint" for each in tolerated]),
        ("RuntimeClassSet", "the runtime class", [inject.runtime_class] if inject.runtime_class else []),
        ("SchedulerSet", "the scheduler", [inject.scheduler_name] if inject.scheduler_name else []),
    )
    for code, what, listed in added:
        if listed:
            findings.add(code, f"policy adds {what} {', '.join(listed)}", "")


def _tell_about_image(spec: RunSpec, findings: Findings) -> None:
    if full_image_name(spec.image).endswith(":latest"):
        message = f"{spec.image} may be another image after a restart; name a tag or a digest"
        findings.add("ImageTagLatest", message, "spec.image")
