# ruff: noqa: PTH208
"""The kubelet as a whole, with real processes and a fake API server."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.folders import texts_below

from kajitori.cluster.runs.evictions import memory_excess
from kajitori.configuration import private_files
from kajitori.core.words import names
from kajitori.embedded.kubelet.cluster import Object
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.machine import detection
from kajitori.embedded.kubelet.machine.cgroup_layout import CgroupLayout, Hierarchy
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.worker import PodWorker
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.names import ANNOTATION_SERVING_CERTIFICATE
from kajitori.errors import AlreadyExists, Unavailable
from kajitori.kube import resources
from kajitori.kube.resources import Resource

from .conftest import BOUND_SECONDS, Machine, alive, until
from .fake_cluster import FakeCluster


def sh(script: str) -> tuple[str, str, str]:
    """`$$$$` arrives as `$$`: Kubernetes takes `$$` for one dollar."""
    return ("/bin/sh", "-c", script)


async def test_a_pod_runs_to_its_end(machine: Machine) -> None:
    """The status has the exit code and times, and the log is kept."""
    await machine.cluster.submit("p", *sh("echo hello"))
    status = await machine.phase("p", "Succeeded")
    ended = machine.cluster.container("p")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert status["podIP"] == "127.0.0.1"
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
        names.CONDITION_MEMORY_PEAK: "True",
    }
    assert machine.log("p").endswith("stdout F hello\n")


async def test_running_and_ready(machine: Machine) -> None:
    await machine.cluster.submit("p", *sh("sleep 1000"))
    status = await machine.phase("p", "Running")
    shown = machine.cluster.container("p")
    assert shown["ready"]
    assert shown["started"]
    assert shown["containerID"].startswith("process://")
    assert {one["status"] for one in status["conditions"]} == {"True"}
    await until(lambda: machine.cluster.events("Pulled"))
    assert "plain processes" in machine.cluster.events("Pulled")[0]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 3", 3, "Error"), ("kill -9 $$$$", 137, "Error"), ("kill -15 $$$$", 143, "Error")],
)
async def test_a_failed_program_has_its_exit_code_and_reason(
    machine: Machine, script: str, code: int, reason: str
) -> None:
    await machine.cluster.submit("p", *sh(script))
    await machine.phase("p", "Failed")
    ended = machine.cluster.container("p")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


async def test_missing_program(machine: Machine) -> None:
    await machine.cluster.submit("p", "no-such-program-here")
    await machine.phase("p", "Failed")
    ended = machine.cluster.container("p")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (127, "StartError")
    assert "no-such-program-here" in ended["message"]


async def test_image_without_command(machine: Machine) -> None:
    """The Pod fails with a message that says what to do."""
    await machine.cluster.submit("p")
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "NoCommand"
    assert "img:1" in status["message"]


async def test_memory_limit(machine: Machine) -> None:
    hog = "a = bytearray(300 << 20); import signal; signal.pause()"
    container = {"resources": {"limits": {"memory": "64Mi"}}}
    await machine.cluster.submit("p", sys.executable, "-I", "-S", "-c", hog, container=container)
    await machine.phase("p", "Failed")
    ended = machine.cluster.container("p")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def test_deleted_with_grace(machine: Machine) -> None:
    """The program receives SIGTERM, its exit is reported, the Pod is deleted, and nothing of it is left."""
    await machine.cluster.submit("p", *sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    await until(lambda: "up" in machine.log("p"))
    uid = machine.cluster.pod("p")["metadata"]["uid"]  # type: ignore[index]
    await machine.cluster.delete("p")
    await until(lambda: machine.cluster.pod("p") is None)
    await until(lambda: not machine.kubelet.workers)
    assert not (machine.root / "pods" / uid).exists()
    assert not list((machine.root / "logs").iterdir())
    assert len(machine.cluster.events("Killing")) == 1


async def test_the_grace_period_is_enforced_and_can_be_shortened(machine: Machine) -> None:
    """A program that ignores SIGTERM is killed; a second deletion can shorten the grace period."""
    await machine.cluster.submit("p", *sh("trap '' TERM; echo $$$$; while :; do sleep 0.05; done"))
    pid = await machine.logged_pid("p")
    await machine.cluster.delete("p", grace_seconds=1000)
    await until(lambda: machine.cluster.events("Killing"))
    await machine.cluster.delete("p", grace_seconds=0)
    await until(lambda: machine.cluster.pod("p") is None)
    assert not alive(pid)


async def test_a_pod_deleted_with_force_is_ended(machine: Machine) -> None:
    """It is gone from the API server."""
    await machine.cluster.submit("p", *sh("echo $$$$; exec sleep 1000"))
    pid = await machine.logged_pid("p")
    machine.cluster.vanish("p")
    await until(lambda: not alive(pid))


async def test_deleted_while_its_status_is_being_written(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the write shows the Pod as it was before, and must not replace the newer state."""
    write = machine.cluster.patch

    async def late(resource: Resource, name: str, *rest: Any, **options: Any) -> Object:
        answer = await write(resource, name, *rest, **options)
        if answer.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in answer["metadata"]:
            await machine.cluster.delete("p", 1)
            worker = machine.kubelet.workers[answer["metadata"]["uid"]]
            await until(lambda: "deletionTimestamp" in worker.pod["metadata"])
        return answer

    monkeypatch.setattr(machine.cluster, "patch", late)
    await machine.cluster.submit("p", *sh("exec sleep 1000"))
    await until(lambda: machine.cluster.pod("p") is None, "it is gone")


async def test_adopted_after_the_kubelet_was_away(machine: Machine) -> None:
    """Pods run without a kubelet; the exit code of one that ended meanwhile is reported."""
    await machine.cluster.submit("ends", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done; exit 5"))
    await machine.cluster.submit("runs", *sh("echo $$$$; exec sleep 1000"))
    await machine.phase("ends", "Running")
    await machine.phase("runs", "Running")
    pid = await machine.logged_pid("runs")
    await machine.stop()
    assert alive(pid)
    (machine.root / "go").touch()
    uid = machine.cluster.pod("ends")["metadata"]["uid"]  # type: ignore[index]
    state = machine.root / "pods" / uid / "containers/main/0/state.json"
    await until(lambda: b"exited" in state.read_bytes())
    await machine.start()
    await machine.phase("ends", "Failed")
    assert machine.cluster.container("ends")["state"]["terminated"]["exitCode"] == 5
    assert machine.cluster.container("runs")["restartCount"] == 0
    assert alive(pid)


async def test_deleted_while_the_kubelet_was_away(machine: Machine) -> None:
    """A Pod that vanished meanwhile is ended by the kubelet that finds its processes."""
    await machine.cluster.submit("p", *sh("echo $$$$; exec sleep 1000"))
    await machine.phase("p", "Running")
    pid = await machine.logged_pid("p")
    await machine.stop()
    machine.cluster.vanish("p")
    await machine.start()
    await until(lambda: not alive(pid))


async def test_deleted_before_the_kubelet_saw_it(machine: Machine) -> None:
    """Nothing of a Pod is started that was bound and deleted while the kubelet was away."""
    await machine.stop()
    await machine.cluster.submit("p", *sh("sleep 1000"))
    await machine.cluster.delete("p", grace_seconds=1)
    await machine.start()
    await until(lambda: machine.cluster.pod("p") is None)
    assert not machine.cluster.events("Started")


async def test_an_end_during_an_outage_of_the_api_server_is_reported(machine: Machine) -> None:
    """Once the API server answers."""
    await machine.cluster.submit("p", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done; exit 6"))
    await machine.phase("p", "Running")
    machine.cluster.away = True
    (machine.root / "go").touch()
    uid = machine.cluster.pod("p")["metadata"]["uid"]  # type: ignore[index]
    state = machine.root / "pods" / uid / "containers/main/0/state.json"
    await until(lambda: b"exited" in state.read_bytes())
    machine.cluster.away = False
    await machine.phase("p", "Failed")


async def test_a_container_restarts_with_backoff(machine: Machine) -> None:
    """It starts again after growing pauses; the previous log and exit code are kept."""
    script = f"echo x >> {machine.root}/starts; [ $(wc -l < {machine.root}/starts) -ge 3 ] || exit 2; exec sleep 1000"
    await machine.cluster.submit("p", *sh(script), restartPolicy="OnFailure")
    await until(
        lambda: machine.cluster.container("p").get("restartCount") == 2 and machine.cluster.phase("p") == "Running"
    )
    shown = machine.cluster.container("p")
    assert shown["lastState"]["terminated"]["exitCode"] == 2
    assert "running" in machine.cluster.container("p")["state"]


async def test_a_container_that_waits_for_its_restart_says_so(tmp_path: Path) -> None:
    """With an Event, and as the reason of its state. The pause is so long that a busy machine does not miss it."""
    machine = Machine(tmp_path / "kubelet", backoff_initial_seconds=600.0, backoff_max_seconds=600.0)
    await machine.start()
    await machine.cluster.submit("p", *sh("exit 2"), restartPolicy="OnFailure")
    await until(lambda: machine.cluster.events("BackOff"))
    assert machine.cluster.container("p")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    await machine.tear_down()


async def test_init_containers_in_order(machine: Machine) -> None:
    inits = [
        {"name": name, "image": "i", "command": ["/bin/sh", "-c", f"echo {name} >> {machine.root}/order"]}
        for name in ("a", "b")
    ]
    await machine.cluster.submit("p", *sh(f"echo main >> {machine.root}/order"), initContainers=inits)
    status = await machine.phase("p", "Succeeded")
    assert (machine.root / "order").read_text() == "a\nb\nmain\n"
    assert [one["state"]["terminated"]["exitCode"] for one in status["initContainerStatuses"]] == [0, 0]


async def test_failing_init_container(machine: Machine) -> None:
    inits = [{"name": "a", "image": "i", "command": ["/bin/sh", "-c", "exit 9"]}]
    await machine.cluster.submit("p", *sh("true"), initContainers=inits)
    await machine.phase("p", "Failed")
    assert machine.cluster.container("p")["state"]["waiting"]


async def test_sidecar_ends_with_the_pod(machine: Machine) -> None:
    inits = [{"name": "side", "image": "i", "command": ["sleep", "1000"], "restartPolicy": "Always"}]
    await machine.cluster.submit("p", *sh("exit 0"), initContainers=inits, terminationGracePeriodSeconds=5)
    await machine.phase("p", "Succeeded")


async def test_a_pod_that_does_not_fit_is_refused(machine: Machine) -> None:
    """The Pod fails with Kubernetes' reason, and nothing is started."""
    first = {"resources": {"requests": {"cpu": "3"}}}
    await machine.cluster.submit("first", *sh("sleep 1000"), container=first)
    await machine.phase("first", "Running")
    await machine.cluster.submit("second", *sh("sleep 1000"), container=first)
    status = await machine.phase("second", "Failed")
    assert status["reason"] == "OutOfcpu"
    assert "requested: 3000, used: 3000, capacity: 4000" in status["message"]
    await machine.cluster.delete("first", 0)
    await until(lambda: machine.cluster.pod("first") is None)
    await machine.cluster.submit("third", *sh("sleep 1000"), container=first)
    await machine.phase("third", "Running")


async def test_unsupported_is_named(machine: Machine) -> None:
    """All fields that plain processes can't support are named at once."""
    container = {"securityContext": {"privileged": True}}
    volumes = [{"name": "v", "nfs": {"server": "s", "path": "/"}}]
    await machine.cluster.submit("p", *sh("true"), container=container, volumes=volumes)
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "Unsupported"
    assert "privileged" in status["message"]
    assert "nfs" in status["message"]


async def test_deadline(machine: Machine) -> None:
    await machine.cluster.submit("p", *sh("sleep 1000"), activeDeadlineSeconds=1)
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "DeadlineExceeded"


async def test_the_termination_message_is_reported(machine: Machine) -> None:
    """A rewritable variable with the path of the termination message names a file that goes with the Pod."""
    container = {"env": [{"name": "APP_RESULT", "value": "/dev/termination-log"}]}
    await machine.cluster.submit("p", *sh("printf '{\"loss\": 1}' > $APP_RESULT"), container=container)
    await machine.phase("p", "Succeeded")
    assert machine.cluster.container("p")["state"]["terminated"]["message"] == '{"loss": 1}'
    assert len(list((machine.root / "messages").iterdir())) == 1
    await machine.cluster.delete("p")
    await until(lambda: not machine.kubelet.workers)
    assert not list((machine.root / "messages").iterdir())


async def test_the_termination_message_is_limited_to_its_own_file_and_size(machine: Machine) -> None:
    container = {"env": [{"name": "APP_RESULT", "value": "/dev/termination-log"}]}
    await machine.cluster.submit("long", *sh("head -c 9000 /dev/zero | tr '\\0' x > $APP_RESULT"), container=container)
    await machine.cluster.submit("link", *sh("ln -sf /etc/hostname $APP_RESULT"), container=container)
    await machine.phase("long", "Succeeded")
    await machine.phase("link", "Succeeded")
    assert machine.cluster.container("long")["state"]["terminated"]["message"] == "x" * 4096
    assert "message" not in machine.cluster.container("link")["state"]["terminated"]


async def test_a_program_has_all_sources_of_its_environment(machine: Machine) -> None:
    """ConfigMaps, Secrets, the downward API and expansion; a missing one is waited for and named."""
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(NAME)-$(UNKNOWN)-$$(A)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    container = {"env": env, "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}]}
    await machine.cluster.submit("p", *sh("echo $B $NAME $KEY $P_X $HOSTNAME"), container=container)
    await until(
        lambda: (
            machine.cluster.container("p").get("state", {}).get("waiting", {}).get("reason")
            == "CreateContainerConfigError"
        )
    )
    assert '"c" not found' in machine.cluster.container("p")["state"]["waiting"]["message"]
    machine.cluster.put(resources.SECRETS, "s", data={"k": "c2VjcmV0"})
    machine.cluster.put(resources.CONFIG_MAPS, "c", data={"X": "config"})
    await machine.phase("p", "Succeeded")
    assert machine.log("p").endswith("F 1-$(NAME)-$(UNKNOWN)-$(A) p secret config p\n")
    assert "secret config" not in "".join(texts_below(machine.root, "*.json").values())


async def test_gpus_are_exclusive_and_remembered(tmp_path: Path) -> None:
    """A kubelet that restarts knows which Pod has which GPU."""
    machine = Machine(tmp_path / "kubelet", gpus=4)
    await machine.start()
    two = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    await machine.cluster.submit("a", *sh("echo $CUDA_VISIBLE_DEVICES; sleep 1000"), container=two)
    await machine.phase("a", "Running")
    await machine.stop()
    await machine.start()
    await machine.cluster.submit("b", *sh("echo $CUDA_VISIBLE_DEVICES; sleep 1000"), container=two)
    await machine.phase("b", "Running")
    await until(lambda: "F" in machine.log("a") and "F" in machine.log("b"))
    assert (machine.log("a").split()[-1], machine.log("b").split()[-1]) == ("0,1", "2,3")
    pod = machine.cluster.pod("b")
    assert pod is not None
    assert pod["metadata"]["annotations"]["kajitori.dev/gpus"] == "2,3"
    assert machine.cluster.node()["status"]["capacity"]["nvidia.com/gpu"] == "4"
    await machine.cluster.submit("c", *sh("true"), container=two)
    assert (await machine.phase("c", "Failed"))["reason"] == "OutOfnvidia.com/gpu"
    await machine.cluster.submit("none", *sh("echo x${CUDA_VISIBLE_DEVICES}x"))
    await machine.phase("none", "Succeeded")
    assert machine.log("none").endswith(" xx\n")
    await machine.tear_down()


async def test_own_path_works_without_namespaces(machine: Machine, tmp_path: Path) -> None:
    """`-v $PWD:$PWD`: a folder at its own path needs no mount."""
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    container = {"volumeMounts": [{"name": "v", "mountPath": str(tmp_path)}], "workingDir": str(tmp_path)}
    await machine.cluster.submit("p", *sh("pwd"), volumes=volumes, container=container)
    await machine.phase("p", "Succeeded")
    assert machine.log("p").endswith(f" {tmp_path}\n")


async def test_other_paths_are_refused_without_namespaces(machine: Machine, tmp_path: Path) -> None:
    """The message says what would work."""
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    container = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    await machine.cluster.submit("p", *sh("true"), volumes=volumes, container=container)
    status = await machine.phase("p", "Failed")
    assert status["reason"] == "MountsUnavailable"
    assert "/data" in status["message"]
    assert "own path" in status["message"]


async def test_probes_control_readiness_and_restarts(machine: Machine) -> None:
    """Readiness follows its probe; a failing liveness probe restarts the container."""
    ready, healthy = machine.root / "ready", machine.root / "healthy"
    healthy.touch()
    container: dict[str, Any] = {
        "readinessProbe": {"exec": {"command": ["test", "-e", str(ready)]}, "periodSeconds": 0.1},
        "livenessProbe": {
            "exec": {"command": ["test", "-e", str(healthy)]},
            "periodSeconds": 0.1,
            "failureThreshold": 1,
        },
    }
    await machine.cluster.submit(
        "p", *sh("exec sleep 1000"), restartPolicy="Always", terminationGracePeriodSeconds=1, container=container
    )
    await machine.phase("p", "Running")
    assert not machine.cluster.container("p")["ready"]
    ready.touch()
    await until(lambda: machine.cluster.container("p")["ready"])
    healthy.unlink()
    await until(lambda: machine.cluster.container("p")["restartCount"] >= 1)
    assert machine.cluster.events("Unhealthy")


async def test_hooks_run_after_the_start_and_before_the_end(machine: Machine) -> None:
    """postStart runs beside the program, preStop before SIGTERM."""
    container = {
        "lifecycle": {
            "postStart": {"exec": {"command": ["touch", f"{machine.root}/post"]}},
            "preStop": {"exec": {"command": ["touch", f"{machine.root}/pre"]}},
        }
    }
    script = f"trap '[ -e {machine.root}/pre ] && touch {machine.root}/order; exit' TERM; while :; do sleep 0.05; done"
    await machine.cluster.submit("p", *sh(script), container=container)
    await until((machine.root / "post").exists)
    await machine.cluster.delete("p")
    await until(lambda: machine.cluster.pod("p") is None)
    assert (machine.root / "order").exists()


async def test_the_pod_above_its_request_is_evicted_first(machine: Machine) -> None:
    """The Node has the condition of memory pressure."""
    hold = "a = bytearray(64 << 20); print('up', flush=True); import signal; signal.pause()"
    large = {"resources": {"requests": {"memory": "1Gi"}}}
    await machine.cluster.submit("within", sys.executable, "-I", "-S", "-c", hold, container=large)
    await machine.cluster.submit("above", sys.executable, "-I", "-S", "-c", hold)
    await until(lambda: "up" in machine.log("within") and "up" in machine.log("above"))
    machine.memory_available = 1
    assert await machine.kubelet.relieve()
    status = await machine.phase("above", "Failed")
    assert status["reason"] == "Evicted"
    assert "low on resource: memory" in status["message"]
    excess = memory_excess(status["message"])
    assert excess is not None and excess.used_bytes > 64 << 20 and excess.asked_bytes == 0
    await until(
        lambda: (
            ("MemoryPressure", "True")
            in [(one["type"], one["status"]) for one in machine.cluster.node()["status"]["conditions"]]
        )
    )
    await until(lambda: machine.cluster.node()["spec"]["taints"])
    assert machine.cluster.phase("within") == "Running"


async def test_a_kill_by_the_machine_has_an_event_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod's status is the same as for its own limit. Here the kubelet still starts the container when it ends."""
    start = PodWorker._start

    async def start_and_see_the_end(worker: PodWorker, slot: Slot) -> float:
        seconds = await start(worker, slot)
        await until(lambda: not slot.running)
        return seconds

    monkeypatch.setattr(PodWorker, "_start", start_and_see_the_end)
    machine = Machine(tmp_path / "kubelet", cgroups=True)
    await machine.start()
    try:
        layout = machine.kubelet.context.machine.cgroups
        if not layout.limits_memory:
            pytest.skip(f"no memory control group: {layout.why_not}")
        for hierarchy in layout.hierarchies:
            if "memory" in hierarchy.controllers:
                file = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
                (hierarchy.path / file).write_text(str(64 << 20))
        limits = {"resources": {"limits": {"memory": "256Mi"}}}
        hog = (sys.executable, "-I", "-S", "-c", "a = bytearray(160 << 20)")
        await machine.cluster.submit("victim", *hog, container=limits)
        await machine.phase("victim", "Failed")
        assert machine.cluster.container("victim")["state"]["terminated"]["reason"] == "OOMKilled"
        await until(lambda: machine.cluster.events("SystemOOM"))
        assert machine.cluster.events("SystemOOM")[0].startswith("System OOM encountered, victim process: main, pid: ")
    finally:
        await machine.tear_down()


async def test_members_find_each_other(machine: Machine) -> None:
    """The name of a fellow Pod becomes its address; until it has one, the Pod waits and says for which Pod."""
    env = [
        {"name": "MASTER_ADDR", "value": "rank0.gang"},
        {"name": "ENDPOINT", "value": "rank0.gang.default.svc:29500"},
    ]
    await machine.cluster.submit("rank1", *sh("echo $MASTER_ADDR $ENDPOINT"), subdomain="gang", container={"env": env})
    await until(
        lambda: machine.cluster.container("rank1").get("state", {}).get("waiting", {}).get("reason") == "WaitingForPeer"
    )
    assert "rank0" in machine.cluster.container("rank1")["state"]["waiting"]["message"]
    await machine.cluster.submit("rank0", *sh("sleep 1000"), subdomain="gang")
    await machine.phase("rank1", "Succeeded")
    assert machine.log("rank1").endswith(" 127.0.0.1 127.0.0.1:29500\n")


async def test_the_node_object_is_written_and_its_lease_renewed(machine: Machine) -> None:
    """Foreign labels are kept."""
    node = machine.cluster.node()
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node"
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0
    await until(lambda: ("leases", "kube-node-lease", "node") in machine.cluster.objects)
    await machine.stop()
    await machine.cluster.patch(resources.NODES, "node", {"metadata": {"labels": {"foreign": "yes"}}})
    await machine.start()
    assert machine.cluster.node()["metadata"]["labels"]["foreign"] == "yes"


async def test_one_kubelet_per_folder(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.0)
    second = Machine(machine.root)
    second.cluster = machine.cluster
    with pytest.raises(Unavailable, match="another kubelet"):
        await second.start()


async def test_one_kubelet_per_node(tmp_path: Path) -> None:
    """A second kubelet of this name, from another folder, would run each Pod once more. It takes over from one that has
    ended, even though their certificates differ."""
    first, second = Machine(tmp_path / "first", lease_interval_seconds=0.05), Machine(tmp_path / "second")
    second.options["lease_interval_seconds"] = 0.2
    second.cluster = first.cluster
    try:
        await first.start()
        pod = await first.cluster.submit("p", *sh("true"))
        with pytest.raises(AlreadyExists, match="another kubelet serves node node already"):
            await second.start()
        await first.phase("p", "Succeeded")
        assert first.cluster.node()["metadata"]["annotations"][ANNOTATION_SERVING_CERTIFICATE] == (
            first.kubelet.node.fingerprint
        )
        first.cluster.vanish("p", pod["metadata"]["namespace"])
        await until(lambda: not first.kubelet.workers)
        await first.stop()
        await second.start()
    finally:
        await first.stop()
        await second.tear_down()


async def test_a_node_that_lost_its_record_does_not_restart_pods(machine: Machine) -> None:
    """A Pod that ran before is not started again on a node that lost its record."""
    await machine.stop()
    pod = await machine.cluster.submit("p", *sh(f"touch {machine.root}/again"))
    pod["status"] = {"phase": "Running"}
    machine.cluster._store(("pods", "default", "p"), pod)
    await machine.start()
    assert (await machine.phase("p", "Failed"))["reason"] == "ContainerStatusUnknown"
    assert not (machine.root / "again").exists()


async def test_no_descriptors_are_leaked(machine: Machine) -> None:
    async def round_trip(name: str) -> None:
        await machine.cluster.submit(name, *sh("true"))
        await machine.phase(name, "Succeeded")
        machine.cluster.vanish(name)
        await until(lambda: not machine.kubelet.workers)

    await round_trip("warm-up")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        await round_trip(f"p{number}")
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_all_containers_can_be_ended(machine: Machine) -> None:
    """All containers end, whatever their restart policy."""
    await machine.cluster.submit("p", *sh("echo $$$$; exec sleep 1000"), restartPolicy="Always")
    pid = await machine.logged_pid("p")
    await machine.kubelet.end_all(5)
    assert not alive(pid)
    await until(lambda: "terminated" in machine.cluster.container("p")["state"])
    assert machine.cluster.container("p")["restartCount"] == 0


async def test_the_failure_of_one_pod_does_not_affect_others(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pod is tried again, and keeps its resources meanwhile."""
    await machine.cluster.submit("p", *sh(f"while [ ! -e {machine.root}/go ]; do sleep 0.01; done"))
    await machine.phase("p", "Running")
    [worker] = machine.kubelet.workers.values()
    failed = []

    def broken(now: float) -> Any:
        failed.append(now)
        raise OSError("No space left on device")

    monkeypatch.setattr(worker, "_next_steps", broken)
    worker.wake()
    await until(lambda: failed)
    assert machine.kubelet.workers
    assert machine.kubelet.context.admitted
    monkeypatch.undo()
    (machine.root / "go").touch()
    await machine.phase("p", "Succeeded")


async def test_a_failed_start_is_retried(machine: Machine) -> None:
    """If not even the shim can be started, the Pod says why, and starts once the cause is gone."""
    blocked = machine.root / "logs"
    blocked.write_text("in the way")
    await machine.cluster.submit("p", *sh("echo hello"))
    await until(
        lambda: (
            machine.cluster.container("p").get("state", {}).get("waiting", {}).get("reason") == "CreateContainerError"
        )
    )
    blocked.unlink()
    await machine.phase("p", "Succeeded")
    assert machine.cluster.container("p")["restartCount"] == 0


async def test_a_kubelet_that_ends_during_detection_leaves_nothing_behind(tmp_path: Path) -> None:
    """Another part of the process has failed."""
    looks, go_on, made, group = asyncio.Event(), threading.Event(), threading.Event(), tmp_path / "group"
    loop = asyncio.get_running_loop()

    def detect(root: Path, name: str, **_: Any) -> detection.Machine:
        loop.call_soon_threadsafe(looks.set)
        assert go_on.wait(BOUND_SECONDS)
        found = detection.detect(root, name, namespaces=False, cgroups=False)
        group.mkdir()
        made.set()
        return dataclasses.replace(found, cgroups=CgroupLayout((Hierarchy(2, group, frozenset()),)))

    kubelet = Kubelet(FakeCluster(), KubeletSettings("node", tmp_path / "kubelet"), detect=detect)
    task = asyncio.create_task(kubelet.run(asyncio.Event()))
    await looks.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(made.wait, BOUND_SECONDS)
    assert not group.exists()
