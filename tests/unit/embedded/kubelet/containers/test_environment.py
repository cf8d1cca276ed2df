"""The environment, the command line, mounts and names of other Pods, without processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.embedded.kubelet.fake_cluster import FakeCluster

from kajitori.embedded.kubelet.containers.environment import (
    ConfigError,
    PodFacts,
    base_environment,
    command_line,
    container_environment,
    expand,
    resource_value,
)
from kajitori.embedded.kubelet.machine.detection import MountAbility
from kajitori.embedded.kubelet.network import peers
from kajitori.embedded.kubelet.volumes.mount_plan import MountsUnavailable, plan_mounts
from kajitori.embedded.kubelet.volumes.pod_volumes import Volume
from kajitori.kube import resources

FACTS = PodFacts("10.0.0.1", "192.168.0.1", "node", 8000, 16 << 30)
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1", "b": 'x"y'}, "annotations": {}},
    "spec": {"containers": [{"name": "main"}], "subdomain": "gang"},
}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
)
def test_variables_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    """Cases of Kubernetes' own test."""
    assert expand(text, {"A": "1", "B": "2"}) == expanded


@given(st.text(alphabet="ab$() ", max_size=20))
def test_expansion_without_dollars_changes_nothing(text: str) -> None:
    assert expand(text.replace("$", ""), {"a": "x"}) == text.replace("$", "")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels", 'a="1"\nb="x\\"y"'),
        ("status.podIP", "10.0.0.1"),
        ("status.hostIP", "192.168.0.1"),
        ("spec.nodeName", "node"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_downward_api(path: str, value: str) -> None:
    container = {"name": "main", "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
    assert container_environment(POD, container, {}, {}, FACTS)["X"] == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "requests.memory"}, str(1 << 30)),
    ],
)
def test_resources_of_the_container(reference: dict[str, str], value: str) -> None:
    container = {"resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}
    assert resource_value(POD, container, reference, FACTS) == value


def test_a_missing_limit_is_the_nodes_amount() -> None:
    assert resource_value(POD, {}, {"resource": "limits.cpu"}, FACTS) == "8"


def test_a_missing_key_is_named_with_its_variable() -> None:
    """An optional one is left out."""
    key = {"name": "s", "key": "k"}
    container: dict[str, Any] = {"name": "main", "env": [{"name": "X", "valueFrom": {"secretKeyRef": key}}]}
    with pytest.raises(ConfigError, match="couldn't find key k in Secret s"):
        container_environment(POD, container, {}, {("Secret", "s"): {}}, FACTS)
    with pytest.raises(ConfigError, match='secret "s" not found'):
        container_environment(POD, container, {}, {("Secret", "s"): None}, FACTS)
    key["optional"] = True  # type: ignore[assignment]
    assert "X" not in container_environment(POD, container, {}, {("Secret", "s"): None}, FACTS)


def test_few_variables_come_from_the_machine() -> None:
    own = {"PATH": "/bin", "HOME": "/h", "AWS_SECRET_ACCESS_KEY": "x"}
    assert base_environment(("PATH", "HOME"), None, own) == {"PATH": "/bin", "HOME": "/h"}


def test_command_line() -> None:
    assert command_line({"command": ["a", "$(X)"], "args": ["$(Y)"]}, {"X": "1", "Y": "2"}) == ["a", "1", "2"]
    with pytest.raises(ConfigError, match="no command"):
        command_line({"image": "i"}, {})


def test_arguments_without_a_command_are_the_program() -> None:
    """`kaji run python:3.12 python3 train.py`: an image's entrypoint counts as empty."""
    assert command_line({"image": "i", "args": ["python3", "$(X)"]}, {"X": "1"}) == ["python3", "1"]


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("r0.gang", "r0"),
        ("r0.gang.ns", "r0"),
        ("r0.gang.ns.svc", "r0"),
        ("r0.gang.ns.svc.cluster.local", "r0"),
        ("r0.gang:29500", "r0"),
        ("r0.gang.other.svc", None),
        ("tcp://r0.gang", None),
        ("r0.gangs", None),
        ("gang", None),
        ("10.0.0.1", None),
    ],
)
def test_names_of_members(value: str, host: str | None) -> None:
    assert peers.named_peers(POD, {"V": value}) == ({"V": host} if host else {})


def test_substitution_keeps_the_port() -> None:
    environment = {"A": "r0.gang.ns.svc:1", "B": "r0.gang", "C": "else"}
    replaced = peers.substitute(POD, environment, {"r0": "10.0.0.9"}, peers.named_peers(POD, environment))
    assert replaced == {"A": "10.0.0.9:1", "B": "10.0.0.9", "C": "else"}


def test_hosts() -> None:
    text = peers.hosts_text(POD, "10.0.0.1", {"r0": "10.0.0.9"}, "127.0.0.1 localhost\n")
    assert "10.0.0.9\tr0.gang.ns.svc.cluster.local\tr0.gang\tr0\n" in text
    assert text.startswith("127.0.0.1 localhost\n")


NO_MOUNTS = MountAbility(False, why_not="user namespaces are off")


def plan(kind: str, path: str, target: str, **mount: Any) -> Any:
    container = {"volumeMounts": [{"name": "v", "mountPath": target, **mount}]}
    return plan_mounts(container, {"v": Volume("v", Path(path), kind)}, NO_MOUNTS, Path("/"), {})


def test_mounts_without_namespaces(tmp_path: Path) -> None:
    """A mount at its own path needs no namespace, even through a symlink; shared memory is the machine's; tokens are
    left out."""
    (tmp_path / "link").symlink_to(tmp_path)
    assert plan("hostPath", str(tmp_path), f"{tmp_path}/").namespace is None
    assert plan("hostPath", str(tmp_path), str(tmp_path / "link")).namespace is None
    assert "can be written" in plan("hostPath", str(tmp_path), str(tmp_path), readOnly=True).notes[0]
    assert plan("emptyDir", "/x", "/dev/shm").notes
    assert plan("projected", "/x", "/var/run/secrets/kubernetes.io/serviceaccount").notes
    with pytest.raises(MountsUnavailable) as raised:
        plan("configMap", "/x", "/etc/app")
    assert "v (configMap) at /etc/app" in raised.value.message
    assert "user namespaces are off" in raised.value.message
    assert raised.value.hint


def test_sub_path_expression() -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "a/$(POD)"}]}
    made = plan_mounts(
        container, {"v": Volume("v", Path("/v"), "hostPath")}, MountAbility(True), Path("/s"), {"POD": "p"}
    )
    assert made.namespace["mounts"][0]["sub_path"] == "a/p"  # type: ignore[index]


def test_the_nodes_name_servers_leave_a_file_of_the_container_alone() -> None:
    servers, volumes = Path("/run/servers"), {"v": Volume("v", Path("/v"), "hostPath")}
    for mounts, sources in (([], ["/run/servers"]), ([{"name": "v", "mountPath": "/etc/resolv.conf"}], ["/v"])):
        made = plan_mounts({"volumeMounts": mounts}, volumes, MountAbility(True), Path("/s"), {}, resolver_file=servers)
        assert made.namespace is not None
        assert [mount["source"] for mount in made.namespace["mounts"]] == sources


async def test_a_peer_that_has_ended_keeps_its_address() -> None:
    """If rank 0 of a gang ends at once, the others start and fail to connect, instead of waiting for ever."""
    cluster = FakeCluster()
    spec = {"subdomain": POD["spec"]["subdomain"], "hostname": "r0", "containers": []}
    status = {"phase": "Succeeded", "podIP": "10.0.0.9"}
    namespace = POD["metadata"]["namespace"]
    peer = {"metadata": {"name": "r0", "namespace": namespace}, "spec": spec, "status": status}
    await cluster.create(resources.PODS, peer, namespace)
    assert await peers.find_address(cluster, POD, "r0", "10.0.0.1") == "10.0.0.9"
    assert await peers.find_address(cluster, POD, "r1", "10.0.0.1") is None
