"""The first step of members, as a container of their Pods."""

from __future__ import annotations

from kajitori.core.pods.manifests import Manifest, put
from kajitori.core.pods.resolved import Resolved
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import RunSpec
from kajitori.core.words import first_step
from kajitori.core.words.quantities import format_cpu, parse_cpu_millis


def step_container(
    member: Manifest, spec: RunSpec, policy: Policy, resolved: Resolved, *, meets_others: bool
) -> Manifest:
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
    put(step, "imagePullPolicy", policy.images.pull_policy)
    put(step, "securityContext", _security_of_step(member.get("securityContext", {})))
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
    put(step, "capabilities", {"drop": dropped} if dropped else None)
    return step


def slots(gpus: int) -> int:
    """Processes that belong on one member: one for each GPU, or one."""
    return max(1, gpus)
