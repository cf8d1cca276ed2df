"""What an engine is asked to create for a container of a Pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kajitori.embedded.kubelet.containers.environment import ConfigError
from kajitori.embedded.kubelet.pods.runtimes import engine_gpus
from kajitori.embedded.kubelet.pods.runtimes.engine import container_body, refuse_root
from kajitori.embedded.kubelet.pods.runtimes.engine_gpus import GpuAccess, access
from kajitori.embedded.kubelet.pods.runtimes.runtime import Prepared, engine_name


def prepared(folder: Path, spec: Mapping[str, Any] | None = None, **more: Any) -> Prepared:
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": more.pop("pod_spec", {})}
    return Prepared(
        pod=pod,
        spec={"name": "main", "image": "a:1", **(spec or {})},
        container_id="c1",
        folder=folder,
        log_path=folder / "log",
        program=None,
        environment=more.pop("environment", {"WHO": "you"}),
        working_dir=more.pop("working_dir", ""),
        namespace=more.pop("namespace", None),
        message_file=folder / "message",
        **more,
    )


def body(folder: Path, spec: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return container_body(prepared(folder, spec, **more), {"a": "b"}, None)


@pytest.mark.parametrize(
    ("spec", "entrypoint", "arguments"),
    [
        ({}, None, None),
        ({"args": ["$(WHO)"]}, None, ["you"]),
        ({"command": ["say", "$(WHO)", "$$(WHO)"]}, ["say", "you", "$(WHO)"], []),
        ({"command": ["say"], "args": ["$(NONE)"]}, ["say"], ["$(NONE)"]),
    ],
)
def test_command_and_arguments_replace_those_of_the_image(
    tmp_path: Path, spec: dict[str, Any], entrypoint: list[str] | None, arguments: list[str] | None
) -> None:
    found = body(tmp_path, spec)
    assert (found.get("Entrypoint"), found.get("Cmd")) == (entrypoint, arguments)
    assert found["Env"] == ["WHO=you"] and "WorkingDir" not in found and "User" not in found


def test_limits_become_those_of_the_engine(tmp_path: Path) -> None:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    host = body(tmp_path, {"resources": resources})["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (64 << 20, 64 << 20)
    assert (host["CpuQuota"], host["CpuPeriod"], host["CpuShares"]) == (150_000, 100_000, 512)
    assert "Memory" not in body(tmp_path)["HostConfig"]


def test_the_network_is_the_machines_the_pods_or_none(tmp_path: Path) -> None:
    assert body(tmp_path)["HostConfig"]["NetworkMode"] == "host"
    assert body(tmp_path, is_isolated=True)["HostConfig"]["NetworkMode"] == "none"
    own = body(tmp_path, network_namespace="/run/netns/x", is_isolated=True)
    assert (own["HostConfig"]["NetworkMode"], own["Hostname"]) == ("ns:/run/netns/x", "p")


def test_mounts_are_real_folders_and_the_message_file(tmp_path: Path) -> None:
    (tmp_path / "volume" / "in").mkdir(parents=True)
    mounts = [
        {"source": str(tmp_path / "volume"), "sub_path": "in", "target": "/in", "read_only": True},
        {"source": str(tmp_path / "volume"), "sub_path": "new/one", "target": "/new", "read_only": False},
    ]
    found = body(tmp_path, {"terminationMessagePath": "/end"}, namespace={"mounts": mounts})["HostConfig"]["Mounts"]
    assert [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in found] == [
        (str(tmp_path / "volume/in"), "/in", True),
        (str(tmp_path / "volume/new/one"), "/new", False),
        (str(tmp_path / "message"), "/end", False),
    ]
    assert (tmp_path / "volume/new/one").is_dir()


def test_a_link_out_of_a_volume_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "out").symlink_to("/etc")
    mounts = [{"source": str(tmp_path / "volume"), "sub_path": "out", "target": "/in", "read_only": False}]
    with pytest.raises(ConfigError, match="leads out of its volume"):
        body(tmp_path, namespace={"mounts": mounts})


def test_the_security_context_becomes_that_of_the_engine(tmp_path: Path) -> None:
    context = {
        "runAsUser": 7,
        "runAsGroup": 8,
        "capabilities": {"drop": ["ALL"], "add": ["CAP_NET_RAW"]},
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
    }
    pod_spec = {"securityContext": {"fsGroup": 9, "supplementalGroups": [10]}}
    found = body(tmp_path, {"securityContext": context}, pod_spec=pod_spec)
    host = found["HostConfig"]
    assert found["User"] == "7:8"
    assert (host["CapDrop"], host["CapAdd"], host["GroupAdd"]) == (["ALL"], ["NET_RAW"], ["10", "9"])
    assert (
        host["ReadonlyRootfs"]
        and host["SecurityOpt"] == ["label=disable", "no-new-privileges"]
        and not host["Privileged"]
    )


@pytest.mark.parametrize(
    ("context", "image_user", "refusal"),
    [
        ({}, "", ""),
        ({"runAsNonRoot": True}, "", "runs as root"),
        ({"runAsNonRoot": True}, "0:0", "runs as root"),
        ({"runAsNonRoot": True}, "app", "by name"),
        ({"runAsNonRoot": True}, "7", ""),
        ({"runAsNonRoot": True, "runAsUser": 7}, "root", ""),
    ],
)
def test_a_container_that_must_not_be_root_is_not_started_as_root(
    context: dict[str, Any], image_user: str, refusal: str
) -> None:
    pod = {"spec": {"securityContext": context}}
    if not refusal:
        refuse_root(pod, {}, image_user)
        return
    with pytest.raises(ConfigError, match=refusal):
        refuse_root(pod, {}, image_user)


def test_names_of_containers_differ_between_attempts_and_folders(tmp_path: Path) -> None:
    one, other = prepared(tmp_path / "a"), prepared(tmp_path / "b")
    assert engine_name(one) != engine_name(other)
    assert engine_name(one) == engine_name(prepared(tmp_path / "a"))
    assert engine_name(one).startswith("kaji-p-main-")


# GPUs

REAL = ("GPU-a", "GPU-b")


def given(way: GpuAccess, *gpus: str) -> dict[str, Any]:
    made: dict[str, Any] = {"Env": [], "HostConfig": {}}
    way.give(made, gpus, named=bool(gpus))
    return made


def test_gpus_are_given_by_their_names_in_the_cdi_specification(tmp_path: Path) -> None:
    devices = [{"name": "0"}, {"name": "GPU-b"}, {"name": "all"}]
    (tmp_path / "nvidia.json").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": devices}))
    (tmp_path / "other.yaml").write_text("kind: other.com/nic\ndevices: [{name: x}]\n")
    (tmp_path / "broken.yaml").write_text("{")
    way = access(REAL, "docker", "28.2.0", {"CDISpecDirs": ["/etc/cdi"]}, [tmp_path])
    found = given(way, "GPU-b", "GPU-a")
    (request,) = found["HostConfig"]["DeviceRequests"]
    assert request == {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-b", "nvidia.com/gpu=0"]}
    assert given(way)["HostConfig"] == {} and given(way)["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert access(REAL, "podman", "4.3.1", {}, [tmp_path]).cdi_names
    with pytest.raises(ConfigError, match=r"podman 4\.0\.2 takes no CDI devices"):
        given(access(REAL, "podman", "4.0.2", {}, [tmp_path]), "GPU-a")


def test_docker_without_cdi_uses_the_runtime_of_nvidia(tmp_path: Path) -> None:
    way = access(REAL, "docker", "24.0", {"Runtimes": {"nvidia": {}}}, [tmp_path])
    found = given(way, "GPU-b")
    assert found["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["GPU-b"]
    assert found["Env"] == ["NVIDIA_VISIBLE_DEVICES=GPU-b"]


def test_a_gpu_that_can_not_be_given_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        given(access(REAL, "docker", "24.0", {}, [tmp_path]), "GPU-a")
    assert raised.value.hint == engine_gpus.GENERATE
    assert given(access(("0", "1"), "docker", "24.0", {}, [tmp_path]), "1")["HostConfig"] == {}, "it does not exist"
