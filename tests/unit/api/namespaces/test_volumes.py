"""The volumes that runs can mount, and the claims of their checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy

POLICY: dict[str, Any] = {
    "volumes": {
        "imagenet": {"claim": "imagenet-data", "readOnly": True},
        "lost": {"claim": "nowhere"},
        "home": {"nfs": {"server": "nas", "path": "/home"}, "subPath": "all"},
        "local": {"hostPath": "/scratch"},
        "fast": {"emptyDir": {"size": "1Gi", "memory": True}},
        "conf": {"configMap": "settings"},
        "keys": {"secret": "ssh"},
    },
    "mounts": {"hostPaths": ["/data"]},
}


@pytest.fixture
def offered(world: World) -> World:
    policy = PolicyFile(None, without_file=parse_policy(POLICY))
    world.change(cluster=ClusterView(world.mirror, policy))
    return world


def claim(name: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "labels": {f"{key.replace('__', '/')}": v for key, v in labels.items()}}
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    return {"metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": status}


def checkpoint(run_name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "kajitori", "kajitori.dev/run": run_name}
    return claim(f"{run_name}-checkpoint", **{key.replace("/", "__"): value for key, value in labels.items()})


async def test_volumes_are_listed_with_their_source_and_their_users(offered: World) -> None:
    """Each kind is described in words; for claims the list shows whether they exist."""
    offered.kubernetes.put("persistentvolumeclaims", claim("imagenet-data"))
    offered.kubernetes.put("persistentvolumeclaims", checkpoint("bert"))
    offered.kubernetes.put("persistentvolumeclaims", claim("mine-checkpoint", **{"kajitori.dev__run": "mine"}))
    uses = [{"name": "imagenet", "path": "/d"}, {"hostPath": "/data", "path": "/e"}]
    offered.kubernetes.put("runs", run("bert", phase="Running", volumes=uses))
    offered.kubernetes.put("runs", run("old", phase="Failed", volumes=uses))
    offered.kubernetes.put("runs", run("odd", phase="Running", volumes=["nonsense"]))
    await offered.caught_up()
    answer = (await offered.http.get("/v1/volumes")).json()
    rows = [
        (item["name"], item["kind"], item["source"], item["state"], item["sizeBytes"], item["usedBy"])
        for item in answer["items"]
    ]
    assert rows == [
        ("conf", "configMap", "settings", "", None, []),
        ("fast", "emptyDir", "memory, at most 1Gi", "", None, []),
        ("home", "nfs", "nas:/home/all", "", None, []),
        ("imagenet", "claim", "imagenet-data", "Bound", 2 << 30, ["bert"]),
        ("keys", "secret", "ssh", "", None, []),
        ("local", "hostPath", "/scratch", "", None, []),
        ("lost", "claim", "nowhere", "Missing", None, []),
        ("/data", "folder", "the node's own, with all below it", "", None, []),
        ("bert-checkpoint", "checkpoint", "of the run bert", "Bound", 2 << 30, ["bert"]),
    ]
    assert answer["note"] == ""


async def test_without_the_right_to_list_claims_policys_volumes_are_listed(offered: World) -> None:
    """A note says what is missing."""
    offered.kubernetes.denied = {("ada", "list", "persistentvolumeclaims", "team")}
    offered.kubernetes.put("persistentvolumeclaims", checkpoint("bert"))
    answer = (await offered.http.get("/v1/volumes")).json()
    assert {item["kind"] for item in answer["items"]} & {"checkpoint"} == set()
    assert "ada may not list claims in namespace team" in answer["note"]
    assert [item["state"] for item in answer["items"] if item["name"] == "lost"] == [""]


async def test_volumes_need_the_right_to_list_runs(offered: World) -> None:
    offered.kubernetes.denied = {("ada", "list", "runs", "team")}
    assert (await offered.http.get("/v1/volumes")).status_code == 403


async def test_a_checkpoint_is_deleted_once_its_run_has_ended(offered: World) -> None:
    """Other claims are not deleted. The API server refuses a caller without the right to delete claims."""
    offered.kubernetes.put("persistentvolumeclaims", checkpoint("bert"))
    offered.kubernetes.put("persistentvolumeclaims", claim("data"))
    offered.kubernetes.put("runs", run("bert", phase="Running"))
    await offered.caught_up()
    assert (await offered.http.delete("/v1/volumes/bert-checkpoint")).status_code == 409
    offered.kubernetes.change("runs", "bert", status={"phase": "Stopped"})
    await offered.caught_up()
    for name in ("data", "nowhere"):
        assert (await offered.http.delete(f"/v1/volumes/{name}")).status_code == 404
    offered.kubernetes.denied = {("bob", "delete", "persistentvolumeclaims", "team")}
    headers = {"Authorization": "Bearer bob"}
    assert (await offered.http.delete("/v1/volumes/bert-checkpoint", headers=headers)).status_code == 403
    assert (await offered.http.delete("/v1/volumes/bert-checkpoint")).status_code == 202
    assert [key[2] for key in offered.kubernetes.objects if key[0] == "persistentvolumeclaims"] == ["data"]


async def test_a_note_names_the_folder_of_checkpoints(world: World) -> None:
    policy = {"checkpoint": {"kind": "folder", "root": "/ckpt"}}
    world.change(cluster=ClusterView(world.mirror, PolicyFile(None, without_file=parse_policy(policy))))
    assert (await world.http.get("/v1/volumes")).json()["note"] == "checkpoints are folders below /ckpt/team"
