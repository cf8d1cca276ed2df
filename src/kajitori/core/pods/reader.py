"""The Pod that reads the checkpoint folder of a run: its manifest, its node, and how long it lives.

People look at checkpoints while a run trains and after it has ended, when no member mounts the folder any more. A Pod
reads the folder in both cases: it needs nothing of the user's image, takes nothing of a member's memory limit, and sees
the folder as members do. It requests no resources. The Web API runs a program in it for each request
(`member/files.py`), with the caller's right to `kaji exec`.

Users may not create Pods, so the controller creates this one when the Web API has written the time of a request into
the Run's annotation `ANNOTATION_FILES_READ`, with the caller's right to change the run. The controller deletes the Pod
once that time is `IDLE_SECONDS` ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from kajitori.core.naming import names
from kajitori.core.pods.manifests import Manifest, owner_of_members, put
from kajitori.core.pods.resolved import RunIdentity
from kajitori.core.pods.step_container import security_of_step
from kajitori.core.policy.model import Policy
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.errors import FieldError

CONTAINER = "reader"
VOLUME = "checkpoint"
"""Name of the volume in templates of members and in the reader's Pod."""
IDLE_SECONDS = 300.0
"""Time without requests after which the Pod is deleted."""
LONGEST_SECONDS = 86_400
"""Time after which Kubernetes ends the Pod if no controller does. Downloads may take hours."""
_WAITS = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); signal.pause()"
_TAKEN_OVER = (
    "imagePullSecrets",
    "nodeSelector",
    "preemptionPolicy",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "tolerations",
)
"""Fields that the reader's Pod has in common with members."""


class ReaderStep(Enum):
    """The controller's next step for a run's reader."""

    NOTHING = auto()
    CREATE = auto()
    DELETE = auto()
    FORGET = auto()
    """Remove the annotation: no user reads, and there is no Pod."""


def next_step(idle_seconds: float, *, exists: bool, has_ended: bool) -> ReaderStep:
    """Return the next step for a run with the annotation. idle_seconds: how long ago the time in the annotation is."""
    if idle_seconds >= IDLE_SECONDS:
        return ReaderStep.DELETE if exists else ReaderStep.FORGET
    if not exists:
        return ReaderStep.CREATE
    return ReaderStep.DELETE if has_ended else ReaderStep.NOTHING


def reader_name(run: str) -> str:
    """Return the name of the Pod. No member has such a name, since theirs end with two numbers."""
    return f"{run}-files"


def mounted_at(attempt: Attempt | None) -> str:
    """Return the path of the checkpoint folder in members of an attempt; empty if they have none."""
    if attempt is None or not attempt.template:
        return ""
    container = attempt.pod_template["spec"]["containers"][0]
    paths = [mount["mountPath"] for mount in container.get("volumeMounts") or () if mount["name"] == VOLUME]
    return str(paths[0]) if paths else ""


def reader_node(policy: Policy, status: RunStatus, is_usable: Callable[[str], bool]) -> str:
    """Return the node that the Pod has to run on; empty if the scheduler chooses one.

    A folder may be on the disk of the node that wrote it. A claim that one node mounts is there while members run.
    """
    attempt = status.attempt
    if attempt is None:
        return ""
    nodes = attempt.node_by_rank()
    elsewhere = policy.checkpoint.kind == "claim" and (
        policy.checkpoint.access_mode_for(len(nodes)) == "ReadWriteMany" or status.phase.is_final
    )
    node = nodes[min(nodes)] if nodes else ""
    return node if node and not elsewhere and is_usable(node) else ""


def reader_pod(run: RunIdentity, run_uid: str, attempt: Attempt, image: str, node: str) -> Manifest:
    """Return the manifest. The checkpoint is mounted read-only at the path that members know, so that absolute links in
    it lead to the same files."""
    template = attempt.pod_template["spec"]
    member: Mapping[str, Any] = template["containers"][0]
    volume = next(volume for volume in template["volumes"] if volume["name"] == VOLUME)
    if "hostPath" in volume:
        volume = {**volume, "hostPath": {**volume["hostPath"], "type": "Directory"}}
    mounts = [{**mount, "readOnly": True} for mount in member["volumeMounts"] if mount["name"] == VOLUME]
    container: Manifest = {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-I", "-S", "-c", _WAITS],
        # No requests: the planner counts them, and a run that wants whole nodes must not wait for a reader.
        "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "volumeMounts": mounts,
    }
    put(container, "imagePullPolicy", member.get("imagePullPolicy"))
    put(container, "securityContext", security_of_step(member.get("securityContext", {})))
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": LONGEST_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [volume],
        **{name: template[name] for name in _TAKEN_OVER if name in template},
    }
    put(spec, "nodeName", node)
    metadata = {
        "name": reader_name(run.name),
        "namespace": run.namespace,
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_READER: run.name},
        "ownerReferences": [owner_of_members(run.name, run_uid)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def inner_path(path: str, folders: tuple[str, ...]) -> str:
    """Return a path relative to the checkpoint folder. An absolute path has to be in one of `folders`, the names that
    this folder has. Raises FieldError for a path that leads out of it."""
    if "\0" in path or ".." in path.split("/"):
        raise FieldError("this path leads out of the folder", "write a path without '..'")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/"):
        return "/".join(parts)
    for folder in folders:
        above = [part for part in folder.split("/") if part]
        if parts[: len(above)] == above:
            return "/".join(parts[len(above) :])
    raise FieldError(
        f"only the checkpoint folder {folders[0]} can be read", f"write a path in it: {folders[0]}/step-100"
    )
