"""The behaviour of a simulated kubelet, on a fake clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cluster.runs.evictions import Excess, memory_excess
from kajitori.core.formats.times import format_time
from kajitori.embedded.objects import Pod
from kajitori.embedded.simulator.behaviour import PREFIX, Step, next_step
from kajitori.embedded.simulator.kubelet_api import summary

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedPod:
    """One Pod in an API server that merges statuses, and a clock that jumps to the next due time."""

    def __init__(
        self, annotations: dict[str, str] | None = None, restart_policy: str = "Never", init: bool = False
    ) -> None:
        self.now = NOW
        self.deleted = False
        self.writes = 0
        self.document: dict[str, Any] = {
            "metadata": {
                "name": "p",
                "namespace": "d",
                "uid": "u",
                "annotations": {PREFIX + k.replace("_", "-"): v for k, v in (annotations or {}).items()},
            },
            "spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": restart_policy},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        }
        if init:
            self.document["spec"]["initContainers"] = [{"name": "setup", "image": "i"}]

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.document["status"]
        return status

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.status["containerStatuses"][0]["state"]
        return state

    def condition(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = next(c for c in self.status["conditions"] if c["type"] == kind)
        return found

    def delete(self, grace_seconds: int = 30) -> None:
        self.document["metadata"]["deletionTimestamp"] = format_time(self.now + timedelta(seconds=grace_seconds))
        self.document["metadata"]["deletionGracePeriodSeconds"] = grace_seconds

    def step(self, refusal: tuple[str, str] | None = None) -> Step:
        step = next_step(msgspec.convert(self.document, Pod), self.now, "10.0.1.1", "127.0.0.1", refusal)
        self.deleted = self.deleted or step.delete
        if step.status is not None:
            self.writes += 1
            merged = {c["type"]: c for c in self.status["conditions"]}
            for new in step.status.pop("conditions", []):
                both = {**merged.get(new["type"], {}), **new}
                merged[new["type"]] = {k: v for k, v in both.items() if v is not None}
            self.status.update(step.status, conditions=list(merged.values()))
        return step

    def settle(self) -> Step:
        """Step until nothing is to be written at this time."""
        for _ in range(10):
            step = self.step()
            if step.status is None:
                return step
        raise AssertionError("the Pod is written again and again")

    def run(self, seconds: float) -> None:
        """Let time pass, jumping from one due time to the next."""
        end = self.now + timedelta(seconds=seconds)
        while not self.deleted:
            step = self.settle()
            if step.wake_at is None or step.wake_at > end:
                break
            assert step.wake_at > self.now
            self.now = step.wake_at
        self.now = end
        self.settle()


def test_a_pod_without_annotations_runs_until_it_is_deleted() -> None:
    """One write makes it Running with an address; deletion ends it with 143 and then removes it."""
    pod = SimulatedPod(init=True)
    pod.step()
    assert pod.status["phase"] == "Running"
    assert pod.status["podIP"] == "10.0.1.1"
    assert pod.condition("Ready")["status"] == "True"
    assert pod.condition("PodScheduled")["status"] == "True"
    assert pod.status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    pod.run(1e6)
    assert pod.writes == 1
    pod.delete()
    pod.step()
    assert pod.state["terminated"]["exitCode"] == 143
    assert not pod.deleted
    pod.step()
    assert pod.deleted


@pytest.mark.parametrize(
    ("annotations", "phase", "exit_code", "reason", "seconds"),
    [
        ({"duration": "30s"}, "Succeeded", 0, "Completed", 30),
        ({"duration": "200ms"}, "Succeeded", 0, "Completed", 0.2),
        ({"duration": "1m", "exit_code": "3"}, "Failed", 3, "Error", 60),
        ({"exit_code": "1"}, "Failed", 1, "Error", 0),
        ({"duration": "5s", "oom": "true"}, "Failed", 137, "OOMKilled", 5),
    ],
)
def test_containers_end_as_the_annotations_say(
    annotations: dict[str, str], phase: str, exit_code: int, reason: str, seconds: int
) -> None:
    """Duration, exit code and OOM; a finished Pod stays until it is deleted."""
    pod = SimulatedPod(annotations)
    pod.run(3600)
    assert pod.status["phase"] == phase
    ended = pod.state["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (exit_code, reason)
    assert ended["finishedAt"] == format_time(NOW + timedelta(seconds=seconds))
    assert pod.condition("Ready")["status"] == "False"
    assert not pod.deleted
    pod.delete()
    assert pod.step().delete


def test_an_image_that_cannot_be_pulled() -> None:
    """ErrImagePull, then ImagePullBackOff for good; deletion needs no more than itself."""
    pod = SimulatedPod({"image_pull": "fail"})
    pod.settle()
    assert pod.state["waiting"]["reason"] == "ErrImagePull"
    pod.run(3600)
    assert pod.state["waiting"]["reason"] == "ImagePullBackOff"
    assert pod.status["phase"] == "Pending"
    assert pod.writes == 2
    pod.delete()
    assert pod.step().delete


def test_a_start_delay_counts_from_the_pods_first_observation() -> None:
    """Until then the container is being created."""
    pod = SimulatedPod({"start_delay": "5s"})
    pod.settle()
    assert pod.state["waiting"]["reason"] == "ContainerCreating"
    assert pod.condition("Initialized")["status"] == "False"
    pod.run(4)
    assert pod.status["phase"] == "Pending"
    pod.run(1)
    assert pod.status["phase"] == "Running"
    assert "reason" not in pod.condition("Ready")


def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    """With 137, and not a second earlier."""
    pod = SimulatedPod({"ignore_sigterm": "true"})
    pod.settle()
    pod.delete(grace_seconds=10)
    assert pod.settle().wake_at == pod.now + timedelta(seconds=10)
    pod.run(9)
    assert pod.status["phase"] == "Running"
    pod.run(1)
    assert pod.state["terminated"]["exitCode"] == 137
    assert pod.deleted


def test_restart_policies() -> None:
    """Always also restarts a success, OnFailure does not; pauses grow from none to ten seconds and more."""
    pod = SimulatedPod({"duration": "1s"}, "Always")
    pod.run(1)
    assert pod.status["containerStatuses"][0]["restartCount"] == 1
    pod.run(1)
    assert pod.state["waiting"]["reason"] == "CrashLoopBackOff"
    pod.run(10)
    assert pod.status["containerStatuses"][0]["restartCount"] == 2
    assert pod.status["phase"] == "Running"
    assert pod.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 0

    well = SimulatedPod({"duration": "1s"}, "OnFailure")
    well.run(10)
    assert well.status["phase"] == "Succeeded"


@pytest.mark.parametrize(("memory", "excess"), [("1Gi", None), ("5Gi", Excess(5 << 30, 1 << 30))])
def test_an_evicted_pods_message_has_its_usage_and_request(memory: str, excess: Excess | None) -> None:
    """As in a kubelet's message, containers within their request are not named."""
    pod = SimulatedPod({"duration": "5s", "evict": "true", "memory": memory})
    pod.document["spec"]["containers"][0]["name"] = "main"
    pod.document["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}, "limits": {"memory": "8Gi"}}
    pod.run(10)
    assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "Evicted")
    assert pod.condition("DisruptionTarget")["reason"] == "TerminationByKubelet"
    assert pod.state["terminated"]["exitCode"] == 137
    assert memory_excess(pod.status["message"]) == excess


@pytest.mark.parametrize(("oom", "told"), [("true", False), ("node", True)])
def test_a_node_without_memory_reports_an_event_before_the_status(oom: str, told: bool) -> None:
    """The Pod's own status is the same as for its own limit."""
    pod = SimulatedPod({"oom": oom})
    pod.step()
    step = pod.step()
    assert step.system_oom is told
    assert pod.state["terminated"]["reason"] == "OOMKilled"


@pytest.mark.parametrize(
    ("annotations", "held"), [({"memory": "3Gi"}, [3 << 30]), ({}, []), ({"memory": "much"}, []), ({"memory": "0"}, [])]
)
def test_a_nodes_statistics_have_the_annotated_memory_of_its_pods(annotations: dict[str, str], held: list[int]) -> None:
    """Pods without the annotation are left out."""
    pod = SimulatedPod(annotations)
    assert summary("n", [msgspec.convert(pod.document, Pod)], NOW)["pods"] == []
    pod.step()
    told = summary("n", [msgspec.convert(pod.document, Pod)], NOW)["pods"]
    assert [pod["containers"][0]["memory"]["workingSetBytes"] for pod in told] == held
    assert all(pod["podRef"] == {"name": "p", "namespace": "d", "uid": "u"} for pod in told)


def test_a_pod_that_does_not_fit_on_the_node_fails() -> None:
    """A Pod that was already started is not checked again."""
    pod = SimulatedPod()
    pod.step(("OutOfcpu", "Node didn't have enough resource: cpu"))
    assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "OutOfcpu")
    other = SimulatedPod()
    other.settle()
    assert other.step(("OutOfcpu", "…")).status is None


def test_an_invalid_annotation_fails_the_pod() -> None:
    """The message names the annotation."""
    for name, value in (("duration", "soon"), ("exit_code", "bad"), ("start_delay", "-1s")):
        pod = SimulatedPod({name: value})
        pod.step()
        assert pod.status["phase"] == "Failed"
        assert name.replace("_", "-") in pod.status["message"]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "duration": st.sampled_from(["0s", "1s", "20s"]),
            "exit_code": st.sampled_from(["0", "1"]),
            "oom": st.sampled_from(["true", "node"]),
            "evict": st.just("true"),
            "memory": st.sampled_from(["1Gi", "0"]),
            "start_delay": st.sampled_from(["0s", "3s"]),
            "image_pull": st.just("fail"),
            "ignore_sigterm": st.just("true"),
        },
    ),
    st.sampled_from(["Never", "OnFailure", "Always"]),
    st.floats(0, 60),
)
def test_every_deleted_pod_is_gone_after_its_grace(
    annotations: dict[str, str], restart_policy: str, seconds: float
) -> None:
    """In any state; a step without news writes nothing."""
    pod = SimulatedPod(annotations, restart_policy)
    pod.run(seconds)
    writes = pod.writes
    pod.settle()
    assert pod.writes == writes
    pod.delete(grace_seconds=30)
    pod.run(31)
    assert pod.deleted


def test_the_annotated_termination_message_is_in_the_status() -> None:
    pod = SimulatedPod({"duration": "1s", "message": '{"loss": 0.5}'})
    pod.run(5)
    assert pod.state["terminated"]["message"] == '{"loss": 0.5}'


def test_a_deadline_ends_a_pod_before_its_duration() -> None:
    pod = SimulatedPod({"duration": "1h", "message": "never said"})
    pod.document["spec"]["activeDeadlineSeconds"] = 3
    pod.run(10)
    assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert pod.state["terminated"]["exitCode"] == 143
    assert "message" not in pod.state["terminated"]
