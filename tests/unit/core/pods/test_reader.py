"""The Pod that reads a checkpoint folder: the times at which it exists, its node, and its mounts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kajitori.core.naming import names
from kajitori.core.pods.reader import (
    IDLE_SECONDS,
    ReaderStep,
    inner_path,
    mounted_at,
    next_step,
    reader_name,
    reader_node,
    reader_pod,
)
from kajitori.core.pods.resolved import RunIdentity
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.errors import FieldError

HOST = {"hostPath": {"path": "/ckpts/ml/bert", "type": "DirectoryOrCreate"}}


def attempt(source: dict[str, Any] | None = None, **spec: Any) -> Attempt:
    volume = {"name": "checkpoint", **(HOST if source is None else source)}
    member = {
        "name": "main",
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "checkpoint", "mountPath": "/ckpt"}],
        "securityContext": {"runAsUser": 1000, "privileged": True, "capabilities": {"add": ["SYS_PTRACE"]}},
    }
    template = {
        "metadata": {},
        "spec": {"containers": [member], "volumes": [{"name": "shm", "emptyDir": {}}, volume], **spec},
    }
    return Attempt(number=1, nodes="gpu-[1-4]", template=template_text(template))


@pytest.mark.parametrize(
    ("idle_seconds", "exists", "has_ended", "expected"),
    [
        (0, False, False, ReaderStep.CREATE),
        (0, True, False, ReaderStep.NOTHING),
        (0, True, True, ReaderStep.DELETE),
        (IDLE_SECONDS, True, False, ReaderStep.DELETE),
        (IDLE_SECONDS, False, False, ReaderStep.FORGET),
        (-3, False, False, ReaderStep.CREATE),
    ],
)
def test_the_reader_lives_while_somebody_reads(
    idle_seconds: float, exists: bool, has_ended: bool, expected: ReaderStep
) -> None:
    assert next_step(idle_seconds, exists=exists, has_ended=has_ended) is expected


def test_it_mounts_the_folder_read_only_and_holds_nothing() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    run = RunIdentity("bert", "ml")
    pod = reader_pod(run, "u1", attempt(tolerations=tolerations, hostNetwork=True), "kajitori:1", "gpu-1")
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["volumeMounts"] == [{"name": "checkpoint", "mountPath": "/ckpt", "readOnly": True}]
    assert spec["volumes"] == [{"name": "checkpoint", "hostPath": {"path": "/ckpts/ml/bert", "type": "Directory"}}]
    assert container["resources"]["requests"] == {"cpu": "0", "memory": "0"}
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["securityContext"] == {"runAsUser": 1000, "allowPrivilegeEscalation": False}
    assert (spec["nodeName"], spec["tolerations"], spec.get("hostNetwork")) == ("gpu-1", tolerations, None)
    assert names.LABEL_RUN_UID not in pod["metadata"]["labels"]  # it would be taken for a member
    assert names.read_pod_name(reader_name("bert")) is None


@pytest.mark.parametrize(
    ("checkpoint", "phase", "expected"),
    [
        ({"kind": "folder", "root": "/ckpts"}, Phase.RUNNING, "gpu-1"),
        ({"kind": "folder", "root": "/ckpts"}, Phase.SUCCEEDED, "gpu-1"),
        ({"kind": "claim"}, Phase.RUNNING, ""),
        ({"kind": "claim"}, Phase.SUCCEEDED, ""),
        ({"kind": "claim", "accessMode": "ReadWriteMany"}, Phase.RUNNING, ""),
        ({"kind": "claim", "accessMode": "ReadWriteOnce"}, Phase.RUNNING, "gpu-1"),
        ({"kind": "claim", "accessMode": "ReadWriteOnce"}, Phase.SUCCEEDED, ""),
    ],
)
def test_it_runs_where_the_folder_may_be_seen(checkpoint: dict[str, Any], phase: Phase, expected: str) -> None:
    policy, status = parse_policy({"checkpoint": checkpoint}), RunStatus(phase=phase, attempt=attempt())
    assert reader_node(policy, status, lambda node: True) == expected
    assert reader_node(policy, status, lambda node: False) == ""


def test_it_joins_the_one_member_of_a_run_whose_claim_one_node_mounts() -> None:
    """Policy leaves the access mode out, so a run of one member has ReadWriteOnce."""
    alone = msgspec.structs.replace(attempt(), nodes="gpu-3")
    status = RunStatus(phase=Phase.RUNNING, attempt=alone)
    assert reader_node(parse_policy({"checkpoint": {"kind": "claim"}}), status, lambda node: True) == "gpu-3"


def test_a_run_without_checkpoint_mounts_none() -> None:
    assert mounted_at(attempt()) == "/ckpt"
    assert mounted_at(None) == mounted_at(Attempt(number=1, nodes="")) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ""),
        ("/ckpt", ""),
        ("/ckpt/", ""),
        ("/ckpt/./a//b/", "a/b"),
        ("a", "a"),
        ("/data/own/a", "a"),
        ("重", "重"),
    ],
)
def test_a_path_may_be_relative_or_as_members_see_it(path: str, expected: str) -> None:
    assert inner_path(path, ("/ckpt", "/data/own")) == expected


@pytest.mark.parametrize("path", ["..", "a/../../b", "/ckpt/..", "/etc/passwd", "/ckpts", "/", "a\0b"])
def test_a_path_outside_of_the_folder_is_refused(path: str) -> None:
    with pytest.raises(FieldError):
        inner_path(path, ("/ckpt",))
