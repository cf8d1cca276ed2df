"""GPUs of Pods from the kubelet: gRPC as the official library serves it, and what its answers mean."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.gpus.kubelet_devices import CLASSES, Kubelet, answer, claim, plugin, pod, serving

from kajitori.agent.telemetry.gpus.pod_resources import SOCKET, KubeletDevices, parse_list
from kajitori.agent.telemetry.gpus.readings import NoGpus
from kajitori.agent.telemetry.pods import PodMembers
from kajitori.core.traffic.totals import Pod

A, B = "GPU-5a9f1a50-5b1c-4ba0-8ff5-3b4b8c1d9e01", "GPU-7c8e2b61-0000-4ba0-8ff5-3b4b8c1d9e02"
MIG = "MIG-0f0d5e3a-1111-5c2e-9d1f-2a3b4c5d6e7f"


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short path, since a socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="kajitori-") as folder:
        yield Path(folder)


@pytest.fixture
def kubelet(root: Path) -> Iterator[Kubelet]:
    made = Kubelet()
    with serving(root / SOCKET, made):
        yield made


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("container", "gpus"),
    [
        (plugin("nvidia.com/gpu", A, B), (A, B)),
        (plugin("nvidia.com/gpu.shared", f"{A}::3"), (A,)),
        (plugin("nvidia.com/mig-1g.10gb", MIG), (MIG,)),
        (plugin("nvidia.com/gpu", "nvidia0/gi3", "nvidia1/vgpu2"), ("nvidia0/gi3", "nvidia1")),
        (plugin("amd.com/gpu", "0000:2f:00.0"), ("0000:2f:00.0",)),
        (plugin("rdma/hca", "mlx5_0"), ()),
        (claim("gpu.nvidia.com", "gpu-0", "gpu-1-mig-1g10gb-19-4"), ("gpu-0", "gpu-1-mig-1g10gb-19-4")),
        (claim("compute-domain.nvidia.com", "channel-0"), ()),
        (claim("", cdi="k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-3"), ("gpu-3",)),
        (claim("", cdi=f"nvidia.com/gpu={B}"), (B,)),
        (claim("", cdi="k8s.gpu.amd.com/gpu=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-1-128"), ("gpu-1-128",)),
        (claim("", cdi="example.com/nic=gpu-3"), ()),
    ],
)
def test_devices_of_plugins_and_claims_are_gpus(container: dict[str, object], gpus: tuple[str, ...]) -> None:
    assert parse_list(answer(pod("bert-1-0", container))) == {("team", "bert-1-0"): gpus}


def test_a_pod_that_is_listed_twice_is_not_known() -> None:
    """Its predecessor of the same name may not be gone yet, and has other GPUs."""
    twice = answer(
        pod("bert-1-0", plugin("nvidia.com/gpu", A)), pod("bert-1-0", plugin("nvidia.com/gpu", B)), pod("cpu")
    )
    assert parse_list(twice) == {("team", "cpu"): ()}


@given(st.binary(max_size=60) | st.integers(0, 80).map(lambda cut: answer(pod("a", plugin("nvidia.com/gpu", A)))[:cut]))
def test_bytes_are_understood_as_by_protobuf_or_refused(body: bytes) -> None:
    """What ours accepts of the parts that it reads, the official library accepts as well."""
    try:
        found = parse_list(body)
    except ValueError:
        return
    try:
        made = CLASSES["ListPodResourcesResponse"].FromString(body)
    except Exception:  # it also looks into the parts that ours does not read
        return
    names = [(each.namespace, each.name) for each in made.pod_resources]
    assert set(found) == {name for name in names if names.count(name) == 1}


def test_a_large_answer_arrives_whole(kubelet: Kubelet, root: Path) -> None:
    """It is larger than the window of HTTP/2, so the server waits for the client in between."""
    kubelet.answer = lambda: answer(*(pod(f"p-{number}", plugin("nvidia.com/gpu", A, B)) for number in range(2000)))
    found = KubeletDevices(root / SOCKET, seconds=30.0).assigned()
    assert found is not None and len(found) == 2000 and found["team", "p-1999"] == (A, B)


def test_a_kubelet_that_starts_again_is_asked_again(root: Path) -> None:
    """In between, calls fail at once, and fewer and fewer are made."""
    clock, kubelet = Clock(), Kubelet()
    devices = KubeletDevices(root / SOCKET, clock, seconds=30.0)
    kubelet.answer = lambda: answer(pod("bert-1-0", plugin("nvidia.com/gpu", A)))
    with serving(root / SOCKET, kubelet):
        assert devices.assigned() == {("team", "bert-1-0"): (A,)}
    for pause in (15, 30, 60):
        assert devices.assigned() is None
        clock.now += pause - 1
        assert devices._clock() < devices._not_before
        clock.now += 1
    with serving(root / SOCKET, kubelet):
        assert devices.assigned() == {("team", "bert-1-0"): (A,)}


def test_a_kubelet_that_hangs_costs_one_short_wait(kubelet: Kubelet, root: Path) -> None:
    kubelet.answer = kubelet.hangs
    devices = KubeletDevices(root / SOCKET, Clock(), seconds=0.05)
    assert devices.assigned() is None and devices.assigned() is None
    assert kubelet.calls <= 1


def test_a_socket_that_nobody_reads_is_done_without(root: Path) -> None:
    path = root / SOCKET
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        assert KubeletDevices(path, Clock(), seconds=0.05).assigned() is None


def test_an_old_kubelet_without_the_api_is_done_without(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kubelets before 1.20 have v1alpha1 alone; it is said once."""
    clock, kubelet = Clock(), Kubelet()
    kubelet.service = "v1alpha1.PodResourcesLister"
    devices = KubeletDevices(root / SOCKET, clock, seconds=30.0)
    with serving(root / SOCKET, kubelet):
        for _ in range(3):
            assert devices.assigned() is None
            clock.now += 600
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "does not have this call" in caplog.text


class Aliases(NoGpus):
    def aliases(self) -> Mapping[str, str]:
        return {"gpu-0": A}


def test_the_kubelets_word_counts_more_than_variables(
    kubelet: Kubelet, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is silent the variables count. A Pod keeps its GPUs, so the kubelet is asked once about each."""
    members = PodMembers(Pods("a-b", "c-d"), Aliases(), root)
    for uid in ("a-b", "c-d"):
        group = root / f"sys/fs/cgroup/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice"
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(str(os.getpid()))
    (root / "sys/fs/cgroup/cgroup.controllers").touch()
    monkeypatch.setattr(
        "kajitori.agent.telemetry.pods.variable", lambda _, name: B if name == "NVIDIA_VISIBLE_DEVICES" else ""
    )
    clock = members._kubelet._clock = Clock()
    kubelet.answer = lambda: b"\xff"
    assert [each.gpus for each in members.members()] == [(B,), (B,)]
    clock.now += 15
    kubelet.answer = lambda: answer(pod("a-b", claim("gpu.nvidia.com", "gpu-0")), pod("c-d"))
    assert [each.gpus for each in members.members()] == [(A,), (B,)]
    calls = kubelet.calls
    assert [each.gpus for each in members.members()] == [(A,), (B,)]
    assert kubelet.calls == calls


class Pods:
    """The Pods of a node, with names like their UIDs."""

    def __init__(self, *uids: str) -> None:
        self._pods = {uid: Pod(uid=uid, namespace="team", name=uid, run="bert", run_uid="u1") for uid in uids}

    def pods(self) -> Mapping[str, Pod]:
        return self._pods
