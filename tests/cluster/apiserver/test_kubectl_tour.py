"""Everyday commands of kubectl, with the same results on the embedded cluster and on a real API server with a
scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from tests.harness.binaries import kubectl_binary
from tests.harness.local_cluster import NODE, LocalCluster
from tests.harness.waiting import wait_until
from tests.helpers.folders import texts_below

HERE = json.dumps({"spec": {"nodeSelector": {"kubernetes.io/hostname": NODE}, "terminationGracePeriodSeconds": 1}})


class Kubectl:
    """kubectl in a namespace of its own."""

    def __init__(self, local_cluster: LocalCluster, namespace: str) -> None:
        self.platform = local_cluster
        self.namespace = namespace

    def __call__(self, *arguments: str, **options: Any) -> str:
        # The words after `--` are the command line of another program.
        return self.platform.kubectl(f"--namespace={self.namespace}", *arguments, **options)

    def json(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, document: dict[str, Any], *arguments: str) -> str:
        return self("apply", *arguments, "-f", "-", stdin=yaml.safe_dump(document))

    @contextlib.contextmanager
    def in_background(self, *arguments: str) -> Iterator[IO[str]]:
        """Run kubectl in the background and yield its output; it is ended at the end."""
        command = [kubectl_binary(), f"--kubeconfig={self.platform.kubeconfig}", f"--namespace={self.namespace}"]
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()

    def start(self, name: str, *command: str) -> None:
        """Start a Pod on this machine and wait until it is ready."""
        self("run", name, "--image=any", "--restart=Never", f"--overrides={HERE}", "--command", "--", *command)
        self("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")


@pytest.fixture
def kubectl(local_cluster: LocalCluster) -> Iterator[Kubectl]:
    namespace = f"tour-{secrets.token_hex(3)}"
    local_cluster.kubectl("create", "namespace", namespace)
    run = Kubectl(local_cluster, namespace)
    try:
        yield run
    finally:
        run("delete", "runs,pods", "--all", "--wait=true", "--timeout=60s")


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def run_of(name: str, **spec: Any) -> dict[str, Any]:
    small = {"image": "any", "command": ["sleep", "1000"], "resources": {"cpu": 1, "memory": "64Mi"}, "grace": "1s"}
    return {
        "apiVersion": "kajitori.dev/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {**small, **spec},
    }


@pytest.mark.conformance
def test_apply_and_diff(kubectl: Kubectl) -> None:
    """`kubectl apply` creates an object, says if nothing changes, changes it, and removes fields that are no longer in
    the document."""
    assert kubectl.apply(config(a="1", b="2")) == "configmap/settings created\n"
    assert kubectl.apply(config(a="1", b="2")) == "configmap/settings unchanged\n"
    assert '+  a: "3"' in kubectl("diff", "-f", "-", stdin=yaml.safe_dump(config(a="3")), code=1)
    assert kubectl.apply(config(a="3")) == "configmap/settings configured\n"
    assert kubectl.json("configmap", "settings")["data"] == {"a": "3"}


def test_a_list_is_applied(kubectl: Kubectl) -> None:
    """The output of `kubectl get` is such a list. No server describes its kind in OpenAPI 3."""
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("one", "two")]
    applied = kubectl.apply({"apiVersion": "v1", "kind": "List", "items": items})
    assert applied.splitlines() == ["configmap/one created", "configmap/two created"]
    again = kubectl("apply", "-f", "-", stdin=kubectl("get", "configmaps", "one", "two", "-o", "yaml"))
    assert again.splitlines() == ["configmap/one configured", "configmap/two configured"]


@pytest.mark.conformance
def test_server_side_apply(kubectl: Kubectl) -> None:
    """Conflicts name the field and its owner. With force, the owner changes. A field that its owner drops is
    removed."""
    assert kubectl.apply(config(a="1", b="2"), "--server-side") == "configmap/settings serverside-applied\n"
    said = kubectl(
        *("apply", "--server-side", "--field-manager=other", "-f", "-"), stdin=yaml.safe_dump(config(a="9")), code=1
    )
    assert 'conflict with "kubectl": .data.a' in said
    kubectl.apply(config(a="9"), "--server-side", "--field-manager=other", "--force-conflicts")
    kubectl.apply(config(c="3"), "--server-side")
    assert kubectl.json("configmap", "settings")["data"] == {"a": "9", "c": "3"}


@pytest.mark.conformance
def test_commands_on_a_pod(kubectl: Kubectl) -> None:
    """The commands are run, wait, all forms of get, describe, logs, exec, label, annotate, patch and delete."""
    script = "echo up; while :; do sleep 0.2; done"
    kubectl.start("web", "sh", "-c", script)
    wide = kubectl("get", "pods", "-o", "wide").splitlines()
    assert wide[0].split()[:4] == ["NAME", "READY", "STATUS", "RESTARTS"]
    assert wide[1].split()[:3] == ["web", "1/1", "Running"]
    assert NODE in wide[1].split()
    pod = kubectl.json("pod", "web")
    assert pod["spec"]["containers"][0]["command"] == ["sh", "-c", script]
    assert yaml.safe_load(kubectl("get", "pod", "web", "-o", "yaml"))["metadata"]["uid"] == pod["metadata"]["uid"]
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase} {.spec.nodeName}") == f"Running {NODE}"
    columns = kubectl("get", "pods", "-o", "custom-columns=WHO:.metadata.name,WHERE:.spec.nodeName").split()
    assert columns == ["WHO", "WHERE", "web", NODE]
    assert kubectl("get", "pods", "-o", "name", "--field-selector=status.phase=Running") == "pod/web\n"
    described = kubectl("describe", "pod", "web")
    assert "State:          Running" in described
    assert "Scheduled" in described
    wait_until(lambda: kubectl("logs", "web") == "up\n", lambda: kubectl("logs", "web"))
    assert kubectl("exec", "web", "--", "echo", "hello") == "hello\n"
    assert "7" in kubectl("exec", "web", "--", "sh", "-c", "exit 7", code=7)
    kubectl("label", "pod", "web", "tier=front")
    assert "tier=front" in kubectl("get", "pods", "--show-labels")
    assert "already has a value" in kubectl("label", "pod", "web", "tier=back", code=1)
    kubectl("label", "pod", "web", "tier=back", "--overwrite")
    kubectl("annotate", "pod", "web", "note=hello")
    kubectl("patch", "pod", "web", "-p", '{"metadata":{"labels":{"patched":"yes"}}}')
    kubectl("patch", "pod", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/annotations/note"}]')
    pod = kubectl.json("pod", "web")
    assert pod["metadata"]["labels"] == {"run": "web", "tier": "back", "patched": "yes"}
    assert "note" not in pod["metadata"].get("annotations", {})
    assert kubectl("delete", "pod", "-l", "tier=back").startswith('pod "web" deleted')
    assert "not found" in kubectl("get", "pod", "web", code=1)


def test_logs_are_followed_to_the_end(kubectl: Kubectl, tmp_path: Path) -> None:
    """`logs -f` prints everything and ends with the program."""
    gate = tmp_path / "gate"
    kubectl(
        *("run", "count", "--image=any", "--restart=Never", f"--overrides={HERE}", "--command", "--"),
        *("sh", "-c", f"echo line 1; until [ -e {gate} ]; do sleep 0.1; done; echo line 2; echo line 3"),
    )
    kubectl("wait", "pod/count", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    with kubectl.in_background("logs", "-f", "count") as following:
        assert following.readline() == "line 1\n"
        gate.touch()
        assert following.read() == "line 2\nline 3\n"
    kubectl("wait", "pod/count", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    assert kubectl("logs", "--tail=1", "count") == "line 3\n"
    assert kubectl("delete", "pod", "count", "--now").startswith('pod "count" deleted')


def test_commands_on_a_run(kubectl: Kubectl) -> None:
    """An applied Run runs, and can be listed, described, waited for and deleted as other objects can."""
    assert kubectl.apply(run_of("bert", resources={"cpu": 1, "memory": "64Mi", "gpu": 1}, replicas=2)) == (
        "run.kajitori.dev/bert created\n"
    )
    kubectl("wait", "run/bert", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    assert kubectl("get", "runs").split()[:1] == ["NAME"]
    assert "Running" in kubectl("get", "kj", "bert")
    described = kubectl("describe", "run", "bert")
    assert "Kind:         Run" in described
    assert "Running" in described
    pods = kubectl("get", "pods", "-l", "kajitori.dev/run=bert", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert sorted(pods) == ["bert-1-0", "bert-1-1"]
    kubectl("delete", "run", "bert", "--timeout=60s")
    assert kubectl("get", "pods", "-o", "name") == ""


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"resources": {"gpu": 1, "gpuType": "h900", "memory": "64Mi"}, "privileged": True}, ("h900", "privileged")),
        ({"restart": 5, "image": "UPPER CASE"}, ("restarts", "UPPER CASE")),
    ],
    ids=["policy", "spec"],
)
def test_a_run_that_is_refused_after_apply(kubectl: Kubectl, wrong: dict[str, Any], named: tuple[str, ...]) -> None:
    """`kubectl apply` succeeds; the Run ends as refused, with all reasons at once and without a Pod."""
    kubectl.apply(run_of("greedy", **wrong))
    kubectl("wait", "run/greedy", "--for=jsonpath={.status.reason}=Refused", "--timeout=60s")
    status = kubectl.json("run", "greedy")["status"]
    assert status["phase"] == "Failed"
    for word in named:
        assert word in status["message"]
    assert kubectl("get", "pods", "-o", "name") == ""


@pytest.mark.conformance
def test_a_run_that_the_schema_refuses(kubectl: Kubectl) -> None:
    """kubectl fails at once with exactly our message, and no Run is created."""
    said = kubectl("apply", "-f", "-", stdin=yaml.safe_dump(run_of("greedy", replicas=-1)), code=1)
    assert said.count("spec.replicas") == 1 and "a run has at least one member" in said
    assert kubectl("get", "runs", "-o", "name") == ""


@pytest.mark.conformance
def test_explain(kubectl: Kubectl) -> None:
    """`kubectl explain` describes each field, for built-in kinds and for Runs."""
    assert "containers\t<[]Container> -required-" in kubectl("explain", "pod.spec")
    assert "KIND:       Run" in kubectl("explain", "run")
    assert "replicas" in kubectl("explain", "run.spec")
    assert "Number of members" in kubectl("explain", "run.spec.replicas")
    assert "does not exist" in kubectl("explain", "run.spec.nothing", code=1)


def test_commands_on_nodes(kubectl: Kubectl) -> None:
    """The commands are describe, taint, cordon, drain with a simulated Pod on the node, and uncordon."""
    node = "gpu-00001"
    described = kubectl("describe", "node", node)
    assert "nvidia.com/gpu" in described
    overrides = json.dumps({"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}})
    kubectl("run", "guest", "--image=any", "--restart=Never", f"--overrides={overrides}")
    kubectl("wait", "pod/guest", "--for=condition=Ready", "--timeout=60s")
    assert "guest" in kubectl("describe", "node", node)
    try:
        assert kubectl("cordon", node) == f"node/{node} cordoned\n"
        assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
        assert "cannot delete Pods that declare no controller" in kubectl("drain", node, code=1)
        assert f"node/{node} drained" in kubectl("drain", node, "--force", "--grace-period=1", "--timeout=60s")
        assert "not found" in kubectl("get", "pod", "guest", code=1)
        kubectl("taint", "node", node, "broken=yes:NoSchedule")
        taints = kubectl.json("node", node)["spec"]["taints"]
        assert {"key": "broken", "value": "yes", "effect": "NoSchedule"} in taints
        kubectl("taint", "node", node, "broken-")
    finally:
        assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert not kubectl.json("node", node)["spec"].get("unschedulable")


def test_auth_whoami_and_can_i(kubectl: Kubectl) -> None:
    assert "Username" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "create", "runs.kajitori.dev") == "yes\n"
    assert kubectl("auth", "can-i", "delete", "pods", "--subresource=log") == "yes\n"


def test_commands_that_list_what_the_server_has(kubectl: Kubectl) -> None:
    """The commands are api-resources, api-versions, version, cluster-info and get all."""
    resources = kubectl("api-resources", "--no-headers").splitlines()
    named = {line.split()[0] for line in resources}
    assert {"pods", "nodes", "runs", "leases", "poddisruptionbudgets"} <= named
    assert "kajitori.dev/v1alpha1" in kubectl("api-versions").split()
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["major"] == "1"
    assert "is running at" in kubectl("cluster-info")
    kubectl.start("web", "sleep", "1000")
    assert "pod/web" in kubectl("get", "all")


@pytest.mark.conformance
def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    """A scripted editor changes the object. An edit without changes writes nothing."""
    kubectl.apply(config(a="1"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/a: "1"/a: "2"/\' "$1"\n')
    editor.chmod(0o700)
    environment = {"KUBE_EDITOR": str(editor)}
    assert kubectl("edit", "configmap", "settings", env=environment) == "configmap/settings edited\n"
    assert kubectl.json("configmap", "settings")["data"] == {"a": "2"}
    version = kubectl.json("configmap", "settings")["metadata"]["resourceVersion"]
    kubectl("edit", "configmap", "settings", env={"KUBE_EDITOR": "true"})
    assert kubectl.json("configmap", "settings")["metadata"]["resourceVersion"] == version


def test_errors_about_missing_kinds_and_objects(kubectl: Kubectl) -> None:
    """kubectl fails with a clear message for kinds that are not served, missing objects and unknown fields."""
    assert "doesn't have a resource type" in kubectl("get", "nothings", code=1)
    said = kubectl("rollout", "status", "deployment/web", code=1)
    # A real server has Deployments; the embedded one does not.
    assert ("not found" if kubectl.platform.is_real else "doesn't have a resource type") in said
    assert 'pods "ghost" not found' in kubectl("logs", "ghost", code=1)
    wrong = textwrap.dedent("""
        apiVersion: v1
        kind: Pod
        metadata: {name: wrong}
        spec: {contaners: []}
        """)
    assert 'unknown field "spec.contaners"' in kubectl("apply", "-f", "-", stdin=wrong, code=1)


@pytest.mark.conformance
def test_get_with_watch_prints_each_change(kubectl: Kubectl) -> None:
    kubectl.apply(config(a="1"))
    with kubectl.in_background(
        "get", "configmap", "settings", "--watch", "-o", "jsonpath={.data.a}{'\\n'}"
    ) as watching:
        assert watching.readline() == "1\n"
        kubectl.apply(config(a="2"))
        assert watching.readline() == "2\n"


LIVES = """
trap 'echo bye; exit 0' TERM
echo life $KAJI_ATTEMPT of rank $KAJI_RANK
[ $KAJI_RANK = 0 ] && touch "$MET/$KAJI_ATTEMPT"
[ $KAJI_ATTEMPT$KAJI_RANK != 11 ] || { until [ -e "$MET/1" ]; do sleep 0.05; done; exit 3; }
while :; do sleep 0.05; done
"""


@pytest.fixture
def met() -> Iterator[Path]:
    """A folder that every user may use."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_logs_of_members_outlive_their_pods(kubectl: Kubectl, met: Path) -> None:
    """The logs of rank 0 and of failed members of an ended attempt are kept to the last line. They are deleted with
    the run."""
    here = {"kubernetes.io/hostname": NODE}
    small = {"cpu": 0.1, "memory": "32Mi"}
    who = str(os.getuid() or 65534)  # the policy forbids root
    met.chmod(0o777)
    program: dict[str, Any] = {"command": ["sh", "-c", LIVES], "env": {"MET": str(met)}, "user": who}
    kubectl.apply(run_of("lives", replicas=2, restarts=1, resources=small, nodeSelector=here, **program))
    kubectl("wait", "run/lives", "--for=jsonpath={.status.attempt.number}=2", "--timeout=60s")
    uid = kubectl.json("run", "lives")["metadata"]["uid"]
    folder = kubectl.platform.blobs / "logs" / kubectl.namespace / uid
    expected = {"1/0": ["life 1 of rank 0", "bye"], "1/1": ["life 1 of rank 1"]}
    wait_until(lambda: kept_in(folder) == expected, lambda: kept_in(folder))
    kubectl("delete", "run", "lives", "--wait=true", "--timeout=60s")
    wait_until(lambda: kept_in(folder) == {}, lambda: kept_in(folder))


def kept_in(folder: Path) -> dict[str, list[str]]:
    """Return the kept lines by attempt and rank, without their times."""
    return {
        str(path.relative_to(folder)): [line.partition(" ")[2] for line in text.splitlines()]
        for path, text in texts_below(folder).items()
    }
