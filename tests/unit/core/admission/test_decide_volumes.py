"""Volumes and folders of a spec in the Pod template."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.scenes.deciding import CLUSTER, HOME, codes, container, decided, env, refused

from kajitori.core.admission.decide import Facts
from kajitori.core.policy.file import own_machine_policy


def test_each_kind_of_volume_becomes_its_kubernetes_source() -> None:
    offered = {
        "a": {"claim": "c", "subPath": "x/y"},
        "b": {"hostPath": "/srv"},
        "c": {"configMap": "m"},
        "d": {"secret": "s"},
        "e": {"emptyDir": {"size": "1Gi", "memory": True}},
    }
    uses = [{"name": name, "path": f"/{name}"} for name in offered]
    spec = decided({"volumes": uses}, {"volumes": offered}).template["spec"]
    assert [next(value for key, value in volume.items() if key != "name") for volume in spec["volumes"]] == [
        {"claimName": "c"},
        {"path": "/srv"},
        {"name": "m"},
        {"secretName": "s"},
        {"medium": "Memory", "sizeLimit": "1Gi"},
        {},
    ]
    assert spec["containers"][0]["volumeMounts"][0]["subPath"] == "x/y"
    facts = Facts(CLUSTER, secrets=frozenset(), config_maps=frozenset(), claims=frozenset({"cc"}))
    faults = refused({"volumes": uses}, {"volumes": offered}, facts)
    assert {fault.code for fault in faults.values()} == {
        "PersistentVolumeClaimNotFound",
        "ConfigMapNotFound",
        "SecretNotFound",
    }


@pytest.mark.parametrize(
    ("size", "mode", "expected"),
    [
        ({}, None, "ReadWriteOnce"),
        ({"type": "notebook"}, None, "ReadWriteOnce"),
        ({"replicas": 2}, None, "ReadWriteMany"),
        ({"replicas": 8, "minReplicas": 1}, None, "ReadWriteMany"),
        ({"array": "0-3%1"}, None, "ReadWriteMany"),
        ({}, "ReadWriteMany", "ReadWriteMany"),
        ({"replicas": 2}, "ReadWriteOnce", "ReadWriteOnce"),
    ],
)
def test_one_member_needs_no_volume_that_several_nodes_mount(
    size: dict[str, Any], mode: str | None, expected: str
) -> None:
    """Many provisioners make none. A mode in the policy is used for all runs."""
    policy = {"checkpoint": {"accessMode": mode} if mode else {}}
    decision = decided({"checkpoint": {"path": "/ckpt"}, **size}, policy)
    assert decision.claim is not None
    assert decision.claim["spec"]["accessModes"] == [expected]


def test_without_mounts_a_folder_works_at_its_own_path() -> None:
    """A finding names the checkpoint's path."""
    decision = decided(
        {
            "volumes": [{"hostPath": "/home/a/code", "path": "/home/a/code", "readOnly": True}],
            "workingDir": "/home/a/code",
            "checkpoint": {"path": "/ckpt", "size": "1g"},
            "resources": {"shm": "1g"},
        },
        HOME,
    )
    assert env(decision)["KAJI_CHECKPOINT_DIR"] == "/home/a/ckpt/vision/bert"
    mounts = {mount["name"]: mount["mountPath"] for mount in container(decision)["volumeMounts"]}
    assert mounts["checkpoint"] == "/home/a/ckpt/vision/bert"
    assert {"CheckpointAtOwnPath", "ShmOfTheMachine", "ReadOnlyNotEnforced", "CheckpointSizeUnused"} <= codes(decision)
    assert decision.claim is None
    assert "securityContext" not in container(decision)


def test_without_mounts_other_paths_are_refused() -> None:
    """The refusal has the reason and the alternative."""
    faults = refused(
        {
            "volumes": [{"hostPath": "/home/a/code", "path": "/code"}, {"hostPath": "/etc", "path": "/etc"}],
            "secrets": [{"name": "s", "path": "/s"}],
        },
        HOME,
    )
    assert faults["spec.volumes[0].hostPath"].hint.endswith("-v /home/a/code:/home/a/code")
    assert faults["spec.volumes[1].hostPath"].code == "HostPathRefused"
    assert faults["spec.secrets[0].path"].code == "MountsUnavailable"


def test_the_refusal_of_a_folder_names_the_outermost_allowed_ones() -> None:
    """Folders below another allowed folder are not listed."""
    folders = ("/tmp", "/tmp/cluster", "/home/a/code", "/home/ab", "/tmp/")
    policy = own_machine_policy("/home/a", mounts=True, checkpoint_root="/c", folders=folders)
    (fault,) = refused({"volumes": [{"hostPath": "/etc", "path": "/etc"}]}, policy).values()
    assert fault.hint == "allowed: /home/a, /tmp, /home/ab and folders below"


def test_with_mounts_folders_are_at_the_requested_paths() -> None:
    policy = own_machine_policy("/home/a", mounts=True, checkpoint_root="/home/a/ckpt")
    decision = decided(
        {"volumes": [{"hostPath": "/home/a/code", "path": "/code"}], "checkpoint": {"path": "/ckpt"}}, policy
    )
    assert env(decision)["KAJI_CHECKPOINT_DIR"] == "/ckpt"
    mounts = {mount["mountPath"] for mount in container(decision)["volumeMounts"]}
    assert mounts == {"/code", "/ckpt", "/kajitori-metrics"}
