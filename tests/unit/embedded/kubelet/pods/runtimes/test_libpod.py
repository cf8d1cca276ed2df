"""A container in the words of Podman's own API is the one that the Docker-compatible API would create."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.embedded.kubelet.pods.runtimes import libpod
from kajitori.embedded.kubelet.pods.runtimes.engine import container_body

from .test_engine import prepared


def test_every_field_has_its_word(tmp_path: Path) -> None:
    security = {"runAsUser": 7, "capabilities": {"add": ["SYS_PTRACE"]}, "allowPrivilegeEscalation": False}
    spec = {
        "command": ["say"],
        "args": ["$(WHO)"],
        "securityContext": security,
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1500m", "memory": "64Mi"}},
        "stdin": True,
    }
    (tmp_path / "volume").mkdir()
    mount = {"source": str(tmp_path / "volume"), "sub_path": "", "target": "/in", "read_only": True}
    pod_spec = {"hostIPC": True, "securityContext": {"fsGroup": 9, "seccompProfile": {"type": "Unconfined"}}}
    one = prepared(tmp_path, spec, pod_spec=pod_spec, namespace={"mounts": [mount]}, network_namespace="/run/netns/x")
    body = container_body(one, {"a": "b"}, 500)
    body["HostConfig"] |= {"PidsLimit": 1000, "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}
    assert libpod.specification("n", body) == {
        "name": "n",
        "image": "a:1",
        "entrypoint": ["say"],
        "command": ["you"],
        "env": {"WHO": "you"},
        "labels": {"a": "b"},
        "terminal": False,
        "stdin": True,
        "user": "7",
        "groups": ["9"],
        "hostname": "p",
        "healthconfig": {"Test": ["NONE"]},
        "netns": {"nsmode": "path", "value": "/run/netns/x"},
        "ipcns": {"nsmode": "host"},
        "mounts": [
            {"type": "bind", "source": f"{tmp_path}/volume", "destination": "/in", "options": ["rbind", "ro"]},
            {
                "type": "bind",
                "source": f"{tmp_path}/message",
                "destination": "/dev/termination-log",
                "options": ["rbind", "rw"],
            },
        ],
        "log_configuration": {"driver": "none"},
        "devices": [{"path": "nvidia.com/gpu=0"}],
        "resource_limits": {
            "cpu": {"shares": 512, "quota": 150_000, "period": 100_000},
            "memory": {"limit": 64 << 20, "swap": 64 << 20},
            "pids": {"limit": 1000},
        },
        "oom_score_adj": 500,
        "cap_add": ["SYS_PTRACE"],
        "cap_drop": [],
        "privileged": False,
        "read_only_filesystem": False,
        "selinux_opts": ["disable"],
        "no_new_privileges": True,
        "seccomp_profile_path": "unconfined",
    }


def test_a_field_without_a_word_is_not_lost(tmp_path: Path) -> None:
    body = container_body(prepared(tmp_path), {}, None)
    assert libpod.specification("n", body)["netns"] == {"nsmode": "host"}
    body["HostConfig"]["Unknown"] = 1
    with pytest.raises(KeyError):
        libpod.specification("n", body)
