"""The life of a Pod, with real processes and a fake API server."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.folders import texts_below
from tests.unit.embedded.kubelet.conftest import Machine, alive, sh, until

from kajitori.core.naming import names
from kajitori.embedded.kubelet.cluster import Object
from kajitori.kube import resources
from kajitori.kube.resources import Resource


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


async def test_an_ended_pod_holds_one_version_of_its_manifest(machine: Machine) -> None:
    """Ended Pods stay for days: older versions, and a probe that asks no more, would take memory for nothing."""
    probe = {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}
    await machine.cluster.submit("p", *sh("sleep 0.2"), container=probe)
    await machine.phase("p", "Succeeded")
    (worker,) = machine.kubelet.workers.values()
    (slot,) = worker.slots.values()
    await until(lambda: worker.record.pod is worker.pod and slot.spec is worker.pod["spec"]["containers"][0])
    assert slot.probes is None


async def test_a_watch_that_is_faster_than_the_answer_wins(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the same version of the Pod. The watch holds its own one, so an ended Pod would be held twice."""
    patch, answers = machine.cluster.patch, list[Object]()

    async def slow_patch(resource: Resource, name: str, *args: Any, **more: Any) -> Object:
        answer = await patch(resource, name, *args, **more)
        if resource is resources.PODS:
            answers.append(answer)
            (worker,) = machine.kubelet.workers.values()
            version = answer["metadata"]["resourceVersion"]
            await until(lambda: worker.pod["metadata"]["resourceVersion"] == version)
        return answer

    monkeypatch.setattr(machine.cluster, "patch", slow_patch)
    await machine.cluster.submit("p", *sh("exit 0"))
    await machine.phase("p", "Succeeded")
    (worker,) = machine.kubelet.workers.values()
    await until(lambda: worker.record.pod is worker.pod)
    assert answers and not [answer for answer in answers if answer is worker.pod]


async def test_the_worker_of_a_pod_that_is_gone_is_no_garbage(machine: Machine) -> None:
    """After 1,500 runs, their workers held 100 MB until the garbage collector looked at them, an hour later."""
    await machine.cluster.submit("p", *sh("exit 0"))
    await machine.phase("p", "Succeeded")
    (worker,) = machine.kubelet.workers.values()
    uid, gone = worker.uid, weakref.ref(worker)
    del worker
    gc.disable()
    try:
        await machine.cluster.delete("p")
        await machine.kubelet.until_gone(uid)
        await until(lambda: gone() is None)
    finally:
        gc.enable()


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


async def test_a_pod_that_a_finalizer_keeps_has_its_log_until_it_is_gone(machine: Machine) -> None:
    """Whoever keeps the Pod may want to read what the program wrote while it ended."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    await machine.cluster.submit("p", *sh(script), metadata={"finalizers": ["example.com/keep"]})
    await until(lambda: "up" in machine.log("p"))
    await machine.cluster.delete("p")
    await machine.phase("p", "Succeeded")
    await machine.stop()
    await machine.start()
    await until(lambda: machine.kubelet.workers)
    assert machine.log("p").splitlines()[-1].endswith("bye")
    machine.cluster.vanish("p")
    await until(lambda: not machine.kubelet.workers)
    assert not list((machine.root / "logs").iterdir())


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
