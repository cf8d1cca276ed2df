"""What runs can mount, and what is left of their checkpoints."""

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
    world.api.cluster = ClusterView(world.mirror, policy)
    return world


def claim(name: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "labels": {f"{key.replace('__', '/')}": v for key, v in labels.items()}}
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    return {"metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": status}


def checkpoint(run_name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "kajitori", "kajitori.dev/run": run_name}
    return claim(f"{run_name}-checkpoint", **{key.replace("/", "__"): value for key, value in labels.items()})


async def test_what_can_be_mounted_and_who_uses_it(offered: World) -> None:
    """Each kind in words; of claims whether they are there."""
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
        (each["name"], each["kind"], each["source"], each["state"], each["sizeBytes"], each["usedBy"])
        for each in answer["items"]
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


async def test_who_may_not_list_claims_sees_what_policy_offers(offered: World) -> None:
    """And is told what is missing."""
    offered.kubernetes.denied = {("ada", "list", "persistentvolumeclaims", "team")}
    offered.kubernetes.put("persistentvolumeclaims", checkpoint("bert"))
    answer = (await offered.http.get("/v1/volumes")).json()
    assert {each["kind"] for each in answer["items"]} & {"checkpoint"} == set()
    assert "ada may not list claims in namespace team" in answer["note"]
    assert [each["state"] for each in answer["items"] if each["name"] == "lost"] == [""]


async def test_who_may_not_list_runs_sees_nothing_of_a_namespace(offered: World) -> None:
    offered.kubernetes.denied = {("ada", "list", "runs", "team")}
    assert (await offered.http.get("/v1/volumes")).status_code == 403


async def test_a_checkpoint_is_deleted_once_its_run_has_ended(offered: World) -> None:
    """Other claims are not; who may not delete claims is refused by the API server."""
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


async def test_checkpoints_in_folders_are_told_of(world: World) -> None:
    policy = {"checkpoint": {"kind": "folder", "root": "/ckpt"}}
    world.api.cluster = ClusterView(world.mirror, PolicyFile(None, without_file=parse_policy(policy)))
    assert (await world.http.get("/v1/volumes")).json()["note"] == "checkpoints are folders below /ckpt/team"
