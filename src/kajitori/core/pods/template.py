"""The Pod template of a run: the parts that all members' Pods have in common, as it is stored with an attempt."""

from __future__ import annotations

from collections.abc import Mapping

from kajitori.core.formats.quantities import format_cpu, format_memory
from kajitori.core.gpus.offers import GpuWay, claim_spec
from kajitori.core.kubernetes.image_names import full_image_name, looks_like_a_program
from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.naming import first_step, names
from kajitori.core.pods import mpi
from kajitori.core.pods.manifests import CHECKPOINT_ENV, CLAIM_OF_POD, GPU_CLAIM, Manifest, put
from kajitori.core.pods.mounts import (
    METRICS_FILE,
    METRICS_VOLUME,
    Mounts,
    mount_everything,
    mount_first_step_files,
    mount_metrics,
)
from kajitori.core.pods.networks import UNKNOWN_DNS, ClusterDns, dns_settings, listed_networks
from kajitori.core.pods.reach import is_isolated
from kajitori.core.pods.resolved import DEAD_NODE_TAINTS, Findings, Resolved, RunIdentity
from kajitori.core.pods.step_container import slots, step_container
from kajitori.core.policy.model import Policy
from kajitori.core.spec.array import Array
from kajitori.core.spec.parts import HealthCheck, SecretUse
from kajitori.core.spec.run import RunSpec
from kajitori.core.telemetry.training import METRICS_ENV, TENSORBOARD_ENV

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
"""Default of Kubernetes."""
MAX_PROBE_FAILURES = 2**31 - 1
"""Largest threshold of a probe that Kubernetes stores."""
_SECRET_LOOKING = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL")


def pod_template(
    spec: RunSpec,
    policy: Policy,
    resolved: Resolved,
    run: RunIdentity,
    findings: Findings,
    dns: ClusterDns = UNKNOWN_DNS,
) -> Manifest:
    """Return `metadata` and `spec` of all members' Pods, without the parts that differ between members.

    Every addition or change by the policy becomes a finding.
    """
    # 1. Mount volumes, secrets, the checkpoint, and the files that the first step writes.
    mounts = Mounts()
    checkpoint_path = mount_everything(mounts, spec, policy, resolved, run, findings)
    has_first_step = begins_with_step(spec, policy)
    if has_first_step:
        mount_first_step_files(mounts, spec, policy, resolved, meets_others=_meets_others(spec))
    mount_metrics(mounts)
    # 2. Describe the container of the user's program, the Pod around it, and the first step before it.
    env = _environment(spec, policy, resolved, checkpoint_path, findings)
    container = _user_container(spec, policy, resolved, env, mounts, findings)
    pod = _pod_spec(spec, policy, resolved, container, mounts) | dns_settings(spec, run.namespace, dns)
    if has_first_step:
        _add_first_step(pod, container, spec, policy, resolved)
    if spec.sweep is not None:
        container["env"] += _variables(sweep_env(spec.sweep))
    # 3. Report what policy added, and label the Pod.
    _add_policy_findings(policy, resolved, findings)
    _add_image_finding(spec, findings)
    if spec.launcher == "mpi":
        mpi.add_findings(spec, policy, resolved, findings)
    template: Manifest = {"metadata": _metadata(spec, policy, resolved, run), "spec": pod}
    if resolved.gpus and (device_class := resolved.gpu_way.device_class):
        template[GPU_CLAIM] = claim_spec(device_class, resolved.gpus, resolved.gpu_way.selectors)
    return template


def _user_container(
    spec: RunSpec, policy: Policy, resolved: Resolved, env: list[Manifest], mounts: Mounts, findings: Findings
) -> Manifest:
    """Return the container that runs the user's program."""
    container: Manifest = {
        "name": names.MEMBER_CONTAINER,
        "image": spec.image,
        "env": env,
        "resources": _resources(policy, resolved, findings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    by_mpi = spec.launcher == "mpi"
    words = [literal(word) for word in (*spec.command, *spec.args)]
    put(container, "command", mpi.launch_command(words) if by_mpi else words[: len(spec.command)])
    put(container, "args", None if by_mpi else words[len(spec.command) :])
    put(container, "workingDir", spec.working_dir or (spec.code.path if spec.code is not None else None))
    put(container, "stdin", spec.stdin)
    put(container, "stdinOnce", spec.stdin and not spec.tty)
    put(container, "tty", spec.tty)
    put(container, "envFrom", [{"secretRef": {"name": use.name}} for use in spec.secrets if _is_whole_env(use)])
    put(container, "imagePullPolicy", policy.images.pull_policy)
    put(container, "ports", [{"containerPort": port} for port in spec.ports])
    put(container, "volumeMounts", mounts.mounts)
    put(container, "securityContext", _security_context(spec, policy, resolved, findings))
    return container | (health_probes(spec.health) if spec.health is not None else {})


def health_probes(check: HealthCheck) -> Manifest:
    """Return the probes of a container with a health check: it is ready while it is healthy.

    A readiness probe never ends a program, as a liveness probe would. Only a startup probe can have a pace of its own
    until the first success. It would end the program after its last failure, so it is allowed to fail for decades.
    """
    probe = {
        "exec": {"command": [literal(word) for word in check.words]},
        "periodSeconds": check.interval_seconds,
        "timeoutSeconds": check.timeout_seconds,
        "failureThreshold": check.retries,
    }
    probes: Manifest = {"readinessProbe": probe}
    if check.start_period_seconds:
        pace = {"periodSeconds": check.start_interval_seconds, "failureThreshold": MAX_PROBE_FAILURES}
        probes["startupProbe"] = probe | pace
    return probes


def _pod_spec(spec: RunSpec, policy: Policy, resolved: Resolved, container: Manifest, mounts: Mounts) -> Manifest:
    """Return the spec of the Pod around a member's container, without the first step."""
    pod: Manifest = {
        "restartPolicy": "Always" if spec.type == "service" else "Never",
        "terminationGracePeriodSeconds": resolved.grace_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "preemptionPolicy": "Never",
        "priorityClassName": policy.priorities[resolved.priority].class_name,
        "tolerations": [*(_toleration(toleration) for toleration in resolved.tolerations), *_dead_node_tolerations()],
        "containers": [container],
    }
    put(pod, "nodeSelector", dict(sorted(resolved.node_selector.items())))
    put(pod, "volumes", mounts.volumes)
    put(pod, "imagePullSecrets", [{"name": name} for name in policy.images.pull_secrets])
    put(pod, "runtimeClassName", policy.inject.runtime_class)
    put(pod, "schedulerName", policy.inject.scheduler_name)
    if policy.security.fs_group is not None:
        pod["securityContext"] = {"fsGroup": policy.security.fs_group}
    if spec.sweep is not None:
        put(pod, "activeDeadlineSeconds", resolved.time_limit_seconds)
    if spec.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return pod


def _add_first_step(pod: Manifest, container: Manifest, spec: RunSpec, policy: Policy, resolved: Resolved) -> None:
    """Add the init container of the first step, and the variables that tell the program where its results are."""
    meets_others, by_mpi = _meets_others(spec), spec.launcher == "mpi"
    added = {first_step.HOSTS_ENV: f"{first_step.FOLDER}/{first_step.HOSTS_FILE}"} if meets_others else {}
    if by_mpi:
        added |= mpi.launcher_env(policy.start.deadline_seconds)
    if spec.code is not None:
        added[first_step.CODE_DIR_ENV] = spec.code.path
    if spec.type == "notebook":
        added[first_step.NOTEBOOK_TOKEN_ENV] = f"{first_step.FOLDER}/{first_step.NOTEBOOK_TOKEN_FILE}"
    if spec.code is not None and spec.sweep is not None:
        added |= {first_step.CALLS_SERVER_ENV: policy.start.server or ""}
        added |= {first_step.CALLS_CA_ENV: policy.start.server_ca} if policy.start.server_ca else {}
    container["env"] += _variables(added)
    step = step_container(container, spec, policy, resolved, meets_others=meets_others)
    pod["initContainers"] = [step, mpi.image_step(container, step)] if by_mpi else [step]


def _variables(values: Mapping[str, str]) -> list[Manifest]:
    """Return environment variables as a container has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def _metadata(spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity) -> Manifest:
    """Return the labels and annotations of all members' Pods."""
    metadata: Manifest = {"labels": {**spec.labels, **policy.inject.labels}}
    if spec.resources.whole_node:
        metadata["labels"][names.LABEL_WHOLE_NODE] = "true"
    has_first_step = begins_with_step(spec, policy)
    own_folders = [METRICS_VOLUME, *([first_step.VOLUME] if has_first_step else ())]
    annotations = {first_step.ANNOTATION_OWN_FOLDERS: ",".join(own_folders)}
    if spec.tensorboard is not None:
        annotations[names.ANNOTATION_TENSORBOARD] = spec.tensorboard
    if has_first_step and spec.type == "notebook":
        annotations[names.ANNOTATION_NOTEBOOK_PORT] = str(spec.ports[0])
    if run.owner:
        annotations[names.ANNOTATION_OWNER] = run.owner
    if not resolved.reach.is_open:
        annotations[names.ANNOTATION_NETWORK] = str(resolved.reach)
    if spec.networks:
        annotations[names.ANNOTATION_NETWORKS] = listed_networks(spec.networks)
    if is_isolated(resolved.reach, policy, alone=spec.is_alone):
        annotations[names.ANNOTATION_ISOLATION] = names.ISOLATION_LOOPBACK if spec.is_alone else names.ISOLATION_MEMBERS
    if resolved.gpus and resolved.gpu_way != GpuWay():
        annotations[names.ANNOTATION_GPU_REQUEST] = f"{resolved.gpus} {resolved.gpu_type}".strip()
    put(metadata, "annotations", policy.inject.annotations | annotations)
    return metadata


def begins_with_step(spec: RunSpec, policy: Policy) -> bool:
    """Whether members begin with a first step, in which they call the Web API."""
    has_bytes = spec.code is not None or spec.files is not None
    return policy.start.image is not None and (_meets_others(spec) or has_bytes or spec.type == "notebook")


def _meets_others(spec: RunSpec) -> bool:
    return spec.type == "batch" and (spec.replicas > 1 or spec.launcher == "mpi")


def literal(text: str) -> str:
    """Escape a text for a Pod, so that the program gets it unchanged.

    Kubernetes replaces `$(NAME)` in commands, arguments and values, and reads `$$` as one `$`; Docker does neither.
    """
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def sweep_env(sweep: Array) -> dict[str, str]:
    """Return the environment variables that are the same for all members of a sweep. KAJI_RESULT is the container's
    termination message path: what a member writes there becomes its result."""
    return {
        "KAJI_ARRAY_COUNT": str(len(sweep.indices)),
        "KAJI_ARRAY_MIN": str(sweep.indices[0]),
        "KAJI_ARRAY_MAX": str(sweep.indices[-1]),
        "KAJI_RESULT": TERMINATION_MESSAGE_PATH,
    }


def torchrun_env(gpus: int) -> dict[str, str]:
    """Return the variables for torchrun that are the same in every attempt: one process per GPU, at least one.

    torchrun reads its options from variables that begin with PET_, so that the command `torchrun train.py` suffices.
    """
    processes = str(slots(gpus))
    return {"NPROC_PER_NODE": processes, "PET_NPROC_PER_NODE": processes}


def _is_whole_env(use: SecretUse) -> bool:
    return use.path is None and use.env is None


def _environment(
    spec: RunSpec, policy: Policy, resolved: Resolved, checkpoint_path: str, findings: Findings
) -> list[Manifest]:
    """Return the user's variables, then the policy's, then ours. If a name occurs twice, the last one counts."""
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
    env.append({"name": METRICS_ENV, "value": METRICS_FILE})
    if spec.tensorboard is not None:
        env.append({"name": TENSORBOARD_ENV, "value": spec.tensorboard})
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
        message = f"all users who may read the run can read {', '.join(open_secrets)}; use a Secret instead (--secret)"
        findings.add("SecretInEnv", message, "spec.env")
    return env


def _resources(policy: Policy, resolved: Resolved, findings: Findings) -> Manifest:
    requests = {"cpu": format_cpu(resolved.cpu_request_millis), "memory": format_memory(resolved.memory_request_bytes)}
    limits: dict[str, str] = {}
    put(limits, "cpu", resolved.cpu_limit_millis and format_cpu(resolved.cpu_limit_millis))
    put(limits, "memory", resolved.memory_limit_bytes and format_memory(resolved.memory_limit_bytes))
    further = {**policy.inject.resources, **(policy.gpu.resources if resolved.gpus else {})}
    if further:
        listed = ", ".join(f"{name}: {amount}" for name, amount in sorted(further.items()))
        findings.add("ResourcesAdded", f"policy adds {listed}", "spec.resources")
    resources: Manifest = {}
    if resolved.gpus and (resource := resolved.gpu_way.resource(policy.gpu.resource)):
        further[resource] = str(resolved.gpus)
    elif resolved.gpus:
        resources["claims"] = [{"name": CLAIM_OF_POD}]
    return {"requests": requests | further, "limits": limits | further, **resources}


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
            message = "programs may not run as root: the image or the run has to set another user (--user 1000)"
            findings.add("MustNotBeRoot", message, "spec.user")
    if spec.privileged:
        context["privileged"] = True
        findings.add("Privileged", "the program runs privileged, with all rights on its node", "spec.privileged")
    elif not rules.allow_privilege_escalation:
        context["allowPrivilegeEscalation"] = False
    capabilities: Manifest = {}
    put(capabilities, "drop", list(rules.drop_capabilities))
    put(capabilities, "add", list(rules.add_capabilities))
    put(context, "capabilities", capabilities)
    if rules.seccomp_profile:
        context["seccompProfile"] = {"type": rules.seccomp_profile}
    put(context, "readOnlyRootFilesystem", rules.read_only_root)
    restrictions = [
        (not rules.allow_privilege_escalation and not spec.privileged, "setuid programs such as sudo do not work"),
        ("ALL" in rules.drop_capabilities, f"its capabilities are: {', '.join(rules.add_capabilities) or 'none'}"),
        (rules.read_only_root, "the root file system is read-only"),
    ]
    if any(holds for holds, _ in restrictions):
        message = "; ".join(text for holds, text in restrictions if holds)
        findings.add("SecurityRestricted", message)
    return context


def _toleration(toleration: Toleration) -> Manifest:
    manifest: Manifest = {"operator": toleration.operator}
    for key, value in (("key", toleration.key), ("value", toleration.value), ("effect", toleration.effect)):
        put(manifest, key, value)
    return manifest


def _dead_node_tolerations() -> list[Manifest]:
    """Return tolerations of dead nodes' taints. Without them the API server adds its own, and Kubernetes would delete
    members on a dead node after five minutes, which is Kajitori's decision (rule 6)."""
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in DEAD_NODE_TAINTS]


def _add_policy_findings(policy: Policy, resolved: Resolved, findings: Findings) -> None:
    inject = policy.inject
    tolerated = [*inject.tolerations, *(policy.gpu.tolerations if resolved.gpus else ())]
    added = (
        ("LabelsAdded", "labels", [f"{key}={value}" for key, value in inject.labels.items()]),
        ("AnnotationsAdded", "annotations", list(inject.annotations)),
        ("NodeSelectorAdded", "the node selector", [f"{key}={value}" for key, value in inject.node_selector.items()]),
        ("TolerationsAdded", "tolerations of", [toleration.key or "every taint" for toleration in tolerated]),
        ("RuntimeClassSet", "the runtime class", [inject.runtime_class] if inject.runtime_class else []),
        ("SchedulerSet", "the scheduler", [inject.scheduler_name] if inject.scheduler_name else []),
    )
    for code, what, listed in added:
        if listed:
            findings.add(code, f"policy adds {what} {', '.join(listed)}", "")


def _add_image_finding(spec: RunSpec, findings: Findings) -> None:
    if looks_like_a_program(spec.image):
        message = f"{spec.image} was taken for the image; if it is the program: kaji run IMAGE {spec.image} …"
        findings.add("ImageIsProgram", message, "spec.image")
    elif full_image_name(spec.image).endswith(":latest"):
        message = f"the image {spec.image} may be a different one after a restart; use a fixed tag or a digest"
        findings.add("ImageTagLatest", message, "spec.image")
