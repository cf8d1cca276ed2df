"""The run that tests a node: its spec, its name, and the policy that applies to it."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from kajitori.core.formats.quantities import format_cpu, format_duration, format_memory
from kajitori.core.naming import names
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.policy.model import Policy
from kajitori.core.policy.runs.limits import Ceilings
from kajitori.core.spec.parts import Toleration

HOSTNAME = "kubernetes.io/hostname"
"""Label that selects the node under test."""

EXPECTED_GPUS_ENV = "PREFLIGHT_GPUS"
"""Environment variable of a test: the number of GPUs that its node should have."""

_GRACE = "10s"
_PREFIX = "test-"
_DIGEST = 8


def spec_of_test(node: NodeFacts, policy: Policy) -> dict[str, Any]:
    """Return the spec of the run that tests a node.

    The run asks only for the GPUs that the node reports, so it starts even if one is missing; the test is told the
    expected number and detects the difference.
    """
    rules = policy.preflight
    expected = node.gpus if rules.gpus is None else rules.gpus
    resources: dict[str, Any] = {
        "cpu": format_cpu(min(rules.cpu_millis, node.cpu_millis)),
        "memory": format_memory(min(rules.memory_bytes, node.memory_bytes)),
        "gpu": min(expected, node.gpus),
        "wholeNode": True,
    }
    if rules.shm_bytes is not None:
        resources["shm"] = format_memory(min(rules.shm_bytes, node.memory_bytes))
    spec: dict[str, Any] = {
        "image": rules.image,
        "command": list(rules.command),
        "env": {EXPECTED_GPUS_ENV: str(expected), **rules.env},
        "resources": resources,
        "volumes": [use.model_dump(mode="json", exclude_defaults=True) for use in rules.volumes],
        "timeLimit": format_duration(rules.time_limit_seconds),
        "grace": _GRACE,
        "restarts": 0,
        "priority": "high",
        "privileged": rules.privileged,
        "nodeSelector": {HOSTNAME: node.labels.get(HOSTNAME, node.name)},
        "tolerations": [
            {"key": key, "operator": "Exists"} for key in dict.fromkeys(taint.key for taint in node.taints)
        ],
    }
    if rules.user is not None:
        spec["user"] = rules.user
    return {key: value for key, value in spec.items() if value != [] and value is not False}


def run_of_test(node: NodeFacts, policy: Policy, name: str, requested_by: str) -> dict[str, Any]:
    """Return the Run object that tests a node.

    The controller is its owner, since it may not submit for other users. An annotation names the user who requested the
    test.
    """
    annotations = {names.ANNOTATION_TESTED_NODE: node.name}
    if requested_by:
        annotations[names.ANNOTATION_TEST_WANTED] = requested_by
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": policy.preflight.namespace, "annotations": annotations},
        "spec": spec_of_test(node, policy),
    }


def name_of_test(node: str, *state: str) -> str:
    """Return the name of the run that tests a node in this state. It is the same until the state changes."""
    digest = hashlib.sha256("\0".join((node, *state)).encode()).hexdigest()[:_DIGEST]
    longest = names.RUN_NAME_MAX_LENGTH - len(_PREFIX) - _DIGEST - 1
    plain = re.sub(r"[^a-z0-9]+", "-", node.lower()).strip("-")[:longest].strip("-")
    return f"{_PREFIX}{plain}-{digest}" if plain else f"{_PREFIX}{digest}"


def policy_for_tests(policy: Policy) -> Policy:
    """Return the policy for tests: only the test's own image is allowed, on any node, whatever its taints."""
    rules = policy.preflight
    if rules.image is None:
        return policy
    tolerations = [Toleration(key=key, operator="Exists") for key in (names.TAINT_UNHEALTHY, rules.taint)]
    security, mounts = policy.security, policy.mounts
    changed = {
        "ceilings": Ceilings(),
        "images": policy.images.model_copy(update={"allow": [rules.image], "deny": []}),
        "inject": policy.inject.model_copy(
            update={"tolerations": [*policy.inject.tolerations, *tolerations], "node_selector": {}}
        ),
        "security": security.model_copy(
            update={
                "allow_root": security.allow_root or (rules.user or "").split(":")[0] == "0",
                "allow_privileged": rules.privileged,
                "refuse_tolerations": [],
            }
        ),
        "mounts": mounts.model_copy(
            update={"host_paths": [*mounts.host_paths, *(use.host_path for use in rules.volumes if use.host_path)]}
        ),
        "gpu": policy.gpu.model_copy(update={"cpu_runs_on_gpu_nodes": "always"}),
    }
    return policy.model_copy(update=changed)
