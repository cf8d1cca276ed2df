"""Everyday calls of the official Python client, on the embedded cluster and on a real one."""

from __future__ import annotations

import http.client
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.stream
import pytest
from tests.harness.local_cluster import NODE, LocalCluster
from tests.harness.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.conformance

_official: Any = kubernetes
"""Untyped: the client's types are partial and make every field optional."""
k8s, k8s_config, utils, watch = _official.client, _official.config, _official.utils, _official.watch
stream = _official.stream.stream
GROUP, VERSION, PLURAL = "kajitori.dev", "v1alpha1", "runs"


@pytest.fixture(scope="module")
def api(local_cluster: LocalCluster) -> Iterator[Any]:
    """The official client, configured by the kubeconfig."""
    with k8s_config.new_client_from_config(str(local_cluster.kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: Any) -> Any:
    return k8s.CoreV1Api(api)


@pytest.fixture
def namespace(api: Any) -> Iterator[str]:
    core, runs = k8s.CoreV1Api(api), k8s.CustomObjectsApi(api)
    name = f"official-{secrets.token_hex(3)}"
    core.create_namespace(k8s.V1Namespace(metadata=k8s.V1ObjectMeta(name=name)))
    yield name
    runs.delete_collection_namespaced_custom_object(GROUP, VERSION, name, PLURAL)
    wait_until(lambda: not runs.list_namespaced_custom_object(GROUP, VERSION, name, PLURAL)["items"])
    core.delete_collection_namespaced_pod(name, grace_period_seconds=1)
    wait_until(lambda: not core.list_namespaced_pod(name).items)


SERVE = """
import http.server, sys
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open(sys.argv[1], "w").write(str(server.server_port))
server.serve_forever()
"""


def pod(name: str, *command: str, **labels: str) -> Any:
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name=name, labels=labels or None),
        spec=k8s.V1PodSpec(
            containers=[k8s.V1Container(name="main", image="any", command=list(command))],
            node_selector={"kubernetes.io/hostname": NODE},
            restart_policy="Never",
            termination_grace_period_seconds=1,
        ),
    )


def wait_for(core: Any, namespace: str, name: str, phase: str) -> None:
    """Return when a watch shows a Pod in that phase."""
    stream_of: Any = watch.Watch().stream(
        core.list_namespaced_pod,
        namespace,
        field_selector=f"metadata.name={name}",
        timeout_seconds=int(PATIENCE_SECONDS),
    )
    seen = []
    for event in stream_of:
        seen.append((event["type"], event["object"].status.phase))
        if event["object"].status.phase == phase:
            return
    pytest.fail(f"{name} was never {phase}: {seen}")


def test_calls_about_a_pod(core: Any, namespace: str) -> None:
    """The calls are create, watch, read, logs, followed logs, exec, patch and delete."""
    core.create_namespaced_pod(namespace, pod("web", "sh", "-c", "echo up; sleep 1000", tier="front"))
    wait_for(core, namespace, "web", "Running")
    found = core.read_namespaced_pod("web", namespace)
    assert found.spec.node_name == NODE
    assert found.status.container_statuses[0].state.running.started_at is not None
    wait_until(lambda: core.read_namespaced_pod_log("web", namespace) == "up\n")
    said = stream(
        core.connect_get_namespaced_pod_exec, "web", namespace, command=["echo", "hello"], stdout=True, stderr=True
    )
    assert said == "hello\n"
    core.patch_namespaced_pod("web", namespace, {"metadata": {"labels": {"patched": "yes"}}})
    listed = core.list_namespaced_pod(namespace, label_selector="tier=front,patched=yes")
    assert [one.metadata.name for one in listed.items] == ["web"]
    core.delete_namespaced_pod("web", namespace)
    wait_until(lambda: not core.list_namespaced_pod(namespace).items)
    with pytest.raises(k8s.ApiException) as refused:
        core.read_namespaced_pod("web", namespace)
    assert refused.value.status == 404


def test_exec_has_input_output_and_an_exit_code(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("shell", "sleep", "1000"))
    wait_for(core, namespace, "shell", "Running")
    talking = stream(
        core.connect_get_namespaced_pod_exec,
        "shell",
        namespace,
        command=["sh", "-c", "read word; echo got $word; exit 7"],
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    talking.write_stdin("bert\n")
    said = ""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while talking.is_open() and time.monotonic() < deadline:
        talking.update(timeout=1)
        if talking.peek_stdout():
            said += talking.read_stdout()
    assert said == "got bert\n"
    assert talking.returncode == 7
    talking.close()


def test_attach_reaches_the_running_program(core: Any, namespace: str) -> None:
    """The program receives the input, and its output is returned until it ends."""
    body = pod("shell", "sh", "-c", "while read word; do echo got $word; done")
    body.spec.containers[0].stdin = body.spec.containers[0].stdin_once = True
    core.create_namespaced_pod(namespace, body)
    wait_for(core, namespace, "shell", "Running")
    talking = stream(
        core.connect_get_namespaced_pod_attach,
        "shell",
        namespace,
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    talking.write_stdin("bert\n")
    assert talking.readline_stdout(timeout=PATIENCE_SECONDS) == "got bert"
    talking.close()
    wait_for(core, namespace, "shell", "Succeeded")


def test_ports_are_forwarded(core: Any, namespace: str, tmp_path: Path) -> None:
    """One WebSocket carries two ports: HTTP from one, an error message from the other."""
    (tmp_path / "served").write_text("hello")
    there = tmp_path / "port"
    body = pod("web", sys.executable, "-c", SERVE, str(there))
    body.spec.containers[0].working_dir = str(tmp_path)
    core.create_namespaced_pod(namespace, body)
    wait_until(lambda: there.exists() and there.read_text())
    port = int(there.read_text())
    forwarded = kubernetes.stream.portforward(
        core.connect_get_namespaced_pod_portforward, "web", namespace, ports=f"{port},1"
    )
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.sock = forwarded.socket(port)
    connection.request("GET", "/served")
    assert connection.getresponse().read() == b"hello"
    wait_until(lambda: forwarded.error(1))
    assert "nothing listens on port 1" in forwarded.error(1)
    assert forwarded.error(port) is None
    forwarded.close()


def test_logs_are_followed_to_the_end(core: Any, namespace: str, tmp_path: Path) -> None:
    """A followed log ends with its program."""
    gate = tmp_path / "gate"
    script = f"echo line 1; until [ -e {gate} ]; do sleep 0.1; done; echo line 2; echo line 3"
    core.create_namespaced_pod(namespace, pod("count", "sh", "-c", script))
    wait_for(core, namespace, "count", "Running")
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "count", namespace)
    assert next(lines) == "line 1"
    gate.touch()
    assert list(lines) == ["line 2", "line 3"]
    wait_for(core, namespace, "count", "Succeeded")


def test_calls_about_a_run(api: Any, core: Any, namespace: str) -> None:
    """A Run is an ordinary custom object: created, watched, its status read, stopped, deleted."""
    runs = k8s.CustomObjectsApi(api)
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Run",
        "metadata": {"name": "bert"},
        "spec": {
            "image": "any",
            "command": ["train"],
            "resources": {"cpu": 1, "memory": "64Mi", "gpu": 1},
            "grace": "1s",
        },
    }
    runs.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, body)
    phases = []
    for event in watch.Watch().stream(
        runs.list_namespaced_custom_object, GROUP, VERSION, namespace, PLURAL, timeout_seconds=int(PATIENCE_SECONDS)
    ):
        phases.append((event["object"].get("status") or {}).get("phase"))
        if phases[-1] == "Running":
            break
    assert phases[-1] == "Running"
    found = runs.get_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, "bert")
    assert found["status"]["members"]["running"] == 1
    pods = core.list_namespaced_pod(namespace, label_selector="kajitori.dev/run=bert")
    assert [one.metadata.name for one in pods.items] == ["bert-1-0"]
    runs.patch_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, "bert", {"spec": {"stopped": True}})
    wait_until(
        lambda: (
            runs.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, "bert")["status"]["phase"] == "Stopped"
        )
    )
    runs.delete_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, "bert")
    wait_until(lambda: not runs.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)["items"])


def test_calls_about_config_maps(core: Any, namespace: str) -> None:
    """Pages of a list, conflicts of two writers, collections, objects from a document."""
    for index in range(5):
        body = k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name=f"c-{index}"), data={"n": str(index)})
        core.create_namespaced_config_map(namespace, body)
    first = core.list_namespaced_config_map(namespace, limit=2)
    assert first.metadata.remaining_item_count == 3
    rest = core.list_namespaced_config_map(namespace, limit=5, _continue=first.metadata._continue)
    assert [one.metadata.name for one in first.items + rest.items] == [f"c-{index}" for index in range(5)]
    mine, theirs = (core.read_namespaced_config_map("c-0", namespace) for _ in range(2))
    mine.data, theirs.data = {"n": "mine"}, {"n": "theirs"}
    core.replace_namespaced_config_map("c-0", namespace, mine)
    with pytest.raises(k8s.ApiException) as refused:
        core.replace_namespaced_config_map("c-0", namespace, theirs)
    assert refused.value.status == 409
    core.delete_collection_namespaced_config_map(namespace)
    assert core.list_namespaced_config_map(namespace).items == []
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "1"}}
    utils.create_from_dict(core.api_client, document, namespace=namespace)
    assert core.read_namespaced_config_map("made", namespace).data == {"a": "1"}


def test_a_watch_starts_at_a_resource_version(core: Any, namespace: str) -> None:
    """From that version on, every event arrives once and in order."""
    begun = core.list_namespaced_secret(namespace).metadata.resource_version
    for index in range(3):
        body = k8s.V1Secret(metadata=k8s.V1ObjectMeta(name=f"s-{index}"), string_data={"k": str(index)})
        core.create_namespaced_secret(namespace, body)
    core.delete_namespaced_secret("s-1", namespace)
    seen = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_secret, namespace, resource_version=begun, timeout_seconds=int(PATIENCE_SECONDS)
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 4:
            watching.stop()
    assert seen == [("ADDED", "s-0"), ("ADDED", "s-1"), ("ADDED", "s-2"), ("DELETED", "s-1")]


def test_calls_about_events_and_leases(api: Any, core: Any, namespace: str) -> None:
    """Events with generated names, and Leases with a holder."""
    about = k8s.V1ObjectReference(kind="Pod", name="web", namespace=namespace)
    event = k8s.CoreV1Event(
        metadata=k8s.V1ObjectMeta(generate_name="web."), involved_object=about, reason="Tested", type="Normal"
    )
    made = core.create_namespaced_event(namespace, event)
    assert made.metadata.name.startswith("web.")
    assert [one.reason for one in core.list_namespaced_event(namespace).items] == ["Tested"]
    leases = k8s.CoordinationV1Api(api)
    lease = k8s.V1Lease(
        metadata=k8s.V1ObjectMeta(name="leader"),
        spec=k8s.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15),
    )
    leases.create_namespaced_lease(namespace, lease)
    leases.patch_namespaced_lease("leader", namespace, {"spec": {"holderIdentity": "you"}})
    assert leases.read_namespaced_lease("leader", namespace).spec.holder_identity == "you"


def test_calls_about_nodes_and_rights(api: Any, core: Any) -> None:
    """Allocatable resources of nodes; the own user and its rights; the served groups."""
    nodes = {one.metadata.name: one for one in core.list_node().items}
    assert nodes["gpu-00001"].status.allocatable["nvidia.com/gpu"] == "8"
    core.patch_node("gpu-00002", {"spec": {"unschedulable": True}})
    assert core.read_node("gpu-00002").spec.unschedulable
    core.patch_node("gpu-00002", {"spec": {"unschedulable": None}})
    review = k8s.V1SelfSubjectAccessReview(
        spec=k8s.V1SelfSubjectAccessReviewSpec(
            resource_attributes=k8s.V1ResourceAttributes(group=GROUP, resource=PLURAL, verb="create")
        )
    )
    assert k8s.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed
    assert k8s.AuthenticationV1Api(api).create_self_subject_review({}).status.user_info.username
    assert k8s.VersionApi(api).get_code().major == "1"
    groups = {one.name for one in k8s.ApisApi(api).get_api_versions().groups}
    assert {GROUP, "coordination.k8s.io", "policy", "apiextensions.k8s.io"} <= groups


def test_concurrent_writers_lose_no_update(core: Any, namespace: str) -> None:
    """Several threads increment one number, each without knowledge of the others."""
    body = k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name="counter"), data={"n": "0"})
    core.create_namespaced_config_map(namespace, body)

    def count() -> None:
        for _ in range(5):
            while True:
                found = core.read_namespaced_config_map("counter", namespace)
                found.data["n"] = str(int(found.data["n"]) + 1)
                try:
                    core.replace_namespaced_config_map("counter", namespace, found)
                    break
                except k8s.ApiException as error:
                    assert error.status == 409

    writers = [threading.Thread(target=count) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(PATIENCE_SECONDS)
    assert core.read_namespaced_config_map("counter", namespace).data == {"n": "20"}
