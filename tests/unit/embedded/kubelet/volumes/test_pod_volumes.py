# ruff: noqa: ASYNC240
"""Volumes on disk: written, replaced as a whole, and never outside the volume."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.embedded.kubelet.conftest import Machine, until
from tests.unit.embedded.kubelet.fake_cluster import FakeCluster

from kajitori.embedded.kubelet.containers.environment import PodFacts
from kajitori.embedded.kubelet.volumes.atomic_files import check_path, write_volume
from kajitori.embedded.kubelet.volumes.pod_volumes import VolumeNotReady, Volumes
from kajitori.kube import resources

FACTS = PodFacts("10.0.0.1", "192.168.0.1", "node")


def pod(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [], "volumes": volumes},
    }


def test_files_have_their_content_and_mode(tmp_path: Path) -> None:
    assert write_volume(tmp_path / "v", {"a": (b"1", 0o644), "d/b": (b"2", 0o400)})
    assert (tmp_path / "v/a").read_bytes() == b"1"
    assert (tmp_path / "v/d/b").read_bytes() == b"2"
    assert stat.S_IMODE((tmp_path / "v/d/b").stat().st_mode) == 0o400


def test_written_only_when_changed_and_swapped_whole(tmp_path: Path) -> None:
    """A reader of the old state keeps all of it until the new one is in place."""
    volume = tmp_path / "v"
    write_volume(volume, {"a": (b"1", 0o644), "b": (b"1", 0o644)})
    before = str((volume / "..data").readlink())
    assert not write_volume(volume, {"a": (b"1", 0o644), "b": (b"1", 0o644)})
    assert str((volume / "..data").readlink()) == before
    assert write_volume(volume, {"a": (b"2", 0o644)})
    assert (volume / "a").read_bytes() == b"2"
    assert not (volume / "b").is_symlink()
    assert not (volume / before).exists()


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "..data/x", "", "."])
def test_paths_outside_the_volume_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="inside"):
        check_path(path)


@given(st.text(alphabet="ab./", max_size=12))
def test_checked_paths_stay_inside(path: str) -> None:
    try:
        checked = check_path(path)
    except ValueError:
        return
    assert os.path.normpath(f"/v/{checked}").startswith("/v/")


def test_planted_symlinks_lead_nowhere(tmp_path: Path) -> None:
    """A program with write access to the volume can't redirect the kubelet's writes."""
    outside, volume = tmp_path / "outside", tmp_path / "v"
    outside.mkdir()
    write_volume(volume, {"a": (b"1", 0o644), "d/b": (b"1", 0o644)})
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(outside)
    (volume / "d").unlink()
    (volume / "d").symlink_to(outside)
    write_volume(volume, {"a": (b"2", 0o644), "d/b": (b"2", 0o644)})
    assert not list(outside.iterdir())
    assert (volume / "d/b").read_bytes() == b"2"
    (volume / "v").symlink_to(outside)
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        write_volume(tmp_path / "link", {"a": (b"3", 0o644)})
    assert not list(outside.iterdir())


async def test_config_map_and_secret(tmp_path: Path) -> None:
    """Keys become files and selected items get their paths and modes; a missing key is named, a missing optional object
    is empty."""
    cluster = FakeCluster()
    cluster.put(resources.CONFIG_MAPS, "c", data={"a": "1"}, binaryData={"b": "AAE="})
    cluster.put(resources.SECRETS, "s", data={"k": "c2VjcmV0"})
    volumes = Volumes(cluster)
    found = await volumes.prepare(
        pod(
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s", "items": [{"key": "k", "path": "d/k", "mode": 0o400}]}},
            {"name": "o", "configMap": {"name": "missing", "optional": True}},
            {
                "name": "p",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "c", "items": [{"key": "a", "path": "a"}]}},
                        {"secret": {"name": "s"}},
                        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    ]
                },
            },
        ),
        tmp_path,
        FACTS,
    )
    assert (found["c"].path / "a").read_text() == "1"
    assert (found["c"].path / "b").read_bytes() == b"\x00\x01"
    assert stat.S_IMODE((found["s"].path / "d/k").stat().st_mode) == 0o400
    assert not list(found["o"].path.glob("[!.]*"))
    assert [(found["p"].path / name).read_text() for name in ("a", "k", "n")] == ["1", "secret", "p"]
    with pytest.raises(VolumeNotReady, match=r'volume "x": .*"missing" not found'):
        await volumes.prepare(pod({"name": "x", "configMap": {"name": "missing"}}), tmp_path, FACTS)
    with pytest.raises(VolumeNotReady, match="no key 'z'"):
        items = [{"key": "z", "path": "z"}]
        await volumes.prepare(pod({"name": "x", "configMap": {"name": "c", "items": items}}), tmp_path, FACTS)


async def test_a_bound_claim_is_mounted(tmp_path: Path) -> None:
    """The Pod waits for an unbound one."""
    cluster = FakeCluster()
    volumes = Volumes(cluster)
    claim = pod({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})
    cluster.put(resources.CLAIMS, "c", spec={}, status={"phase": "Pending"})
    with pytest.raises(VolumeNotReady, match="not bound"):
        await volumes.prepare(claim, tmp_path, FACTS)
    cluster.put(resources.CLAIMS, "c", spec={"volumeName": "pv"}, status={"phase": "Bound"})
    cluster.put(resources.PERSISTENT_VOLUMES, "pv", spec={"hostPath": {"path": str(tmp_path / "made")}})
    found = await volumes.prepare(claim, tmp_path, FACTS)
    assert found["v"].path == tmp_path / "made"
    assert found["v"].path.is_dir()
    cluster.put(resources.PERSISTENT_VOLUMES, "pv", spec={"nfs": {}})
    with pytest.raises(VolumeNotReady, match="hostPath and local"):
        await volumes.prepare(claim, tmp_path, FACTS)


@pytest.mark.parametrize(
    ("closed", "below", "mode"),
    [(0o700, "", 0o777), (0o700, "elsewhere", 0o755), (0o700, None, 0o755), (0o711, "", 0o755), (0o750, "", 0o755)],
)
async def test_a_new_folder_is_open_to_the_user_of_an_image_only_where_nobody_else_can_reach_it(
    closed: int, below: str | None, mode: int
) -> None:
    """A checkpoint folder in the data folder of `kaji up`, for example: the image's user is rarely the caller. Other
    kubelets leave new folders to their own user."""
    umask = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own folders are closed
            top = Path(folder)
            top.chmod(closed)
            source = {"path": str(top / "checkpoints" / "made"), "type": "DirectoryOrCreate"}
            volumes = Volumes(FakeCluster(), open_below=None if below is None else top / below)
            await volumes.prepare(pod({"name": "v", "hostPath": source}), top / "pod", FACTS)
            assert stat.S_IMODE((top / "checkpoints" / "made").stat().st_mode) == mode
    finally:
        os.umask(umask)


async def test_types_of_host_paths_are_checked(tmp_path: Path) -> None:
    volumes = Volumes(FakeCluster())
    file = tmp_path / "f"
    file.touch()
    with pytest.raises(VolumeNotReady, match="not of type Directory"):
        await volumes.prepare(pod({"name": "v", "hostPath": {"path": str(file), "type": "Directory"}}), tmp_path, FACTS)
    with pytest.raises(VolumeNotReady, match="No such file"):
        missing = {"path": str(tmp_path / "none"), "type": "File"}
        await volumes.prepare(pod({"name": "v", "hostPath": missing}), tmp_path, FACTS)


async def test_memory_volume_is_removed(tmp_path: Path) -> None:
    volumes = Volumes(FakeCluster())
    manifest = pod({"name": "v", "emptyDir": {"medium": "Memory"}})
    manifest["metadata"]["uid"] = f"test-{os.getpid()}"
    found = await volumes.prepare(manifest, tmp_path / "volumes", FACTS)
    assert str(found["v"].path).startswith("/dev/shm/")
    volumes.remove(manifest, tmp_path / "volumes")
    assert not found["v"].path.exists()


@pytest.mark.parametrize("until", ["2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"])
async def test_service_account_token(tmp_path: Path, until: str) -> None:
    """A token is requested again after four fifths of its lifetime, by a clock that does not depend on this node's
    time."""
    now = [1000.0]
    cluster = FakeCluster()
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    status = {"token": "t1", "expirationTimestamp": until}
    cluster.answers[path] = {"spec": {"expirationSeconds": 100}, "status": status}
    manifest = pod({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})
    volumes = Volumes(cluster, clock=lambda: now[0])
    for _ in range(2):
        found = await volumes.prepare(manifest, tmp_path, FACTS)
        now[0] += 79
    assert (found["v"].path / "token").read_text() == "t1"
    assert len(cluster.posts) == 1
    await volumes.prepare(manifest, tmp_path, FACTS)
    assert len(cluster.posts) == 2


async def test_a_pods_volumes_are_mounted_shared_and_refreshed(tmp_path: Path) -> None:
    """Volumes are at their mount paths, shared by containers, refreshed while the program runs (also if the clock was
    set back), and removed with the Pod."""
    machine = Machine(tmp_path / "kubelet", namespaces=True, resync_seconds=0.1)
    await machine.start()
    if not machine.kubelet.context.machine.mounts.possible:
        await machine.tear_down()
        pytest.skip(machine.kubelet.context.machine.mounts.why_not)
    machine.cluster.put(resources.CONFIG_MAPS, "c", data={"k": "old"})
    mounts = [
        {"name": "e", "mountPath": "/kaji-e"},
        {"name": "c", "mountPath": "/kaji-c"},
        {"name": "c", "mountPath": "/etc/kaji.conf", "subPath": "k"},
    ]
    volumes = [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
    init = {"name": "i", "image": "i", "command": ["/bin/sh", "-c", "echo init > /kaji-e/f"], "volumeMounts": mounts}
    script = (
        "cat /kaji-e/f /kaji-c/k /etc/kaji.conf; echo; touch /kaji-c/x; grep -c p.gang.default.svc /etc/hosts; "
        "while ! grep -q new /kaji-c/k; do sleep 0.02; done; echo refreshed"
    )
    await machine.cluster.submit(
        "p",
        "/bin/sh",
        "-c",
        script,
        container={"volumeMounts": mounts},
        volumes=volumes,
        initContainers=[init],
        subdomain="gang",
    )
    await until(lambda: "\nold" in machine.log("p").replace("stdout F ", "") or "oldold" in machine.log("p"))
    machine.kubelet.context.clock = lambda: time.time() - 3 * 3600
    machine.cluster.put(resources.CONFIG_MAPS, "c", data={"k": "new"})
    await machine.phase("p", "Succeeded")
    lines = [line.split(" ", 3)[3] for line in machine.log("p").splitlines()]
    assert [line for line in lines if "Read-only" not in line] == ["init", "oldold", "1", "refreshed"]
    assert any("Read-only" in line for line in lines)
    uid = machine.cluster.pod("p")["metadata"]["uid"]  # type: ignore[index]
    await until(lambda: not (machine.root / "pods" / uid / "volumes").exists())
    assert not Path("/kaji-e").exists()
    await machine.tear_down()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners of files: run as root")
async def test_run_as_user(tmp_path: Path) -> None:
    """As root, a Pod runs as its user, who can write into its volumes."""
    tmp_path.chmod(0o755)
    machine = Machine(tmp_path / "kubelet", namespaces=True)
    await machine.start()
    await machine.cluster.submit(
        "p",
        "/bin/sh",
        "-c",
        "id -u; id -g; touch /kaji-e/f && echo written; echo $HOME",
        securityContext={"runAsUser": 65534, "runAsGroup": 65533},
        container={"volumeMounts": [{"name": "e", "mountPath": "/kaji-e"}], "workingDir": "/"},
        volumes=[{"name": "e", "emptyDir": {}}],
    )
    await machine.phase("p", "Succeeded")
    lines = [line.split(" ", 3)[3] for line in machine.log("p").splitlines()]
    assert lines[:3] == ["65534", "65533", "written"]
    await machine.tear_down()
    await asyncio.sleep(0)
