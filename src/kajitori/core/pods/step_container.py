"""The init container of a member's first step."""

from __future__ import annotations

from kajitori.core.formats.quantities import format_cpu, parse_cpu_millis
from kajitori.core.naming import first_step
from kajitori.core.pods.manifests import Manifest, put
from kajitori.core.pods.resolved import Resolved
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import RunSpec


def step_container(
    member: Manifest, spec: RunSpec, policy: Policy, resolved: Resolved, *, meets_others: bool
) -> Manifest:
    """Return the init container of the first step, without the variables that differ between attempts."""
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
    if spec.files is not None:
        env[first_step.FILES_ENV] = spec.files.digest
        env[first_step.FILE_MODES_ENV] = " ".join(item.mode for item in spec.files.items)
    if spec.type == "notebook":
        env[first_step.NOTEBOOK_ENV] = "1"
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
    if spec.files is not None:
        step["volumeMounts"].append({"name": first_step.FILES_VOLUME, "mountPath": first_step.FILES_FOLDER})
    put(step, "imagePullPolicy", policy.images.pull_policy)
    put(step, "securityContext", security_of_step(member.get("securityContext", {})))
    return step


def _resources_of_step(member: Manifest) -> Manifest:
    """Return the member's own cores and memory. The Pod then needs no more resources with the step than without it,
    keeps its QoS class, and passes the same LimitRanges.

    The number of cores is never whole: with the static CPU manager policy, a node would assign exclusive cores to the
    step, before it knows which GPUs the program gets.
    """
    step: Manifest = {
        kind: {name: amounts[name] for name in ("cpu", "memory") if name in amounts} for kind, amounts in member.items()
    }
    cpu = step["requests"].get("cpu", "")
    if cpu and cpu == step["limits"].get("cpu") and parse_cpu_millis(cpu) % 1000 == 0:
        step["requests"]["cpu"] = step["limits"]["cpu"] = format_cpu(parse_cpu_millis(cpu) - 1)
    return step


def security_of_step(member: Manifest) -> Manifest:
    """Return the member's security context without the privileges that the step does not need. It otherwise stays the
    same, so that a namespace that accepts the member accepts the step."""
    step = {name: value for name, value in member.items() if name not in ("privileged", "capabilities")}
    if member.get("privileged"):
        step["allowPrivilegeEscalation"] = False
    dropped = member.get("capabilities", {}).get("drop")
    put(step, "capabilities", {"drop": dropped} if dropped else None)
    return step


def slots(gpus: int) -> int:
    """Return the number of processes per member: one for each GPU, at least one."""
    return max(1, gpus)
