"""Pods: allowed changes and fields that the server sets."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.helpers.objects.kinds_pipeline import create, fresh

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.pods import qos_class


async def stored_pod(**spec: Any) -> tuple[Kind, Object]:
    registry, view = fresh()
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "i"}], **spec},
    }
    answer = await create(registry, view, body)
    assert answer.faults == []
    kind = registry.find("", "v1", "pods")
    assert kind is not None
    return kind, answer.object


def update(kind: Kind, old: Object, change: Any) -> tuple[Object, list[str]]:
    new = copy.deepcopy(old)
    change(new)
    kind.strategy.default(new)
    kind.strategy.prepare_update(new, old)
    causes = kind.validate_metadata(new, old) + kind.strategy.validate_update(new, old)
    return new, [str(one) for one in causes]


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["spec"]["containers"][0].update(image="other"),
        lambda pod: pod["spec"].update(activeDeadlineSeconds=5),
        lambda pod: pod["spec"]["tolerations"].append({"key": "x", "operator": "Exists"}),
        lambda pod: pod["metadata"].update(labels={"a": "b"}),
    ],
)
async def test_some_fields_of_a_pod_may_change(change: Any) -> None:
    """Images, a shorter deadline, more tolerations, and metadata."""
    kind, pod = await stored_pod()
    assert update(kind, pod, change)[1] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda pod: pod["spec"].update(terminationGracePeriodSeconds=5), "spec.terminationGracePeriodSeconds"),
        (lambda pod: pod["spec"].update(nodeName="n"), "spec.nodeName"),
        (lambda pod: pod["spec"]["containers"][0].update(command=["x"]), "spec.containers"),
    ],
)
async def test_other_changes_of_a_pod_are_refused(change: Any, field: str) -> None:
    """The message names the field."""
    kind, pod = await stored_pod()
    faults = update(kind, pod, change)[1]
    assert len(faults) == 1
    assert faults[0].startswith(f"{field}: Forbidden: may not change")


async def test_containers_cannot_be_added_to_a_pod() -> None:
    kind, pod = await stored_pod()
    faults = update(kind, pod, lambda new: new["spec"]["containers"].append({"name": "b", "image": "i"}))[1]
    assert len(faults) == 1 and faults[0].startswith("spec.containers: Forbidden")


async def test_generation_counts_changes_of_the_spec() -> None:
    """Labels and status do not change the generation, an image does; clients cannot set it."""
    kind, pod = await stored_pod()
    assert pod["metadata"]["generation"] == 1
    same, _ = update(kind, pod, lambda new: new["metadata"].update(labels={"a": "b"}, generation=9))
    assert same["metadata"]["generation"] == 1
    changed, _ = update(kind, pod, lambda new: new["spec"]["containers"][0].update(image="other"))
    assert changed["metadata"]["generation"] == 2


async def test_an_update_keeps_the_status_and_a_status_update_the_spec() -> None:
    """An update keeps the status, a status update keeps the rest."""
    kind, pod = await stored_pod()
    new, _ = update(kind, pod, lambda one: one.update(status={"phase": "Failed"}))
    assert new["status"] == pod["status"]
    told = copy.deepcopy(pod)
    told["spec"]["nodeName"] = "sneaky"
    told["status"] = {"phase": "Running"}
    kind.strategy.prepare_status_update(told, pod)
    assert told["spec"] == pod["spec"]
    assert told["status"] == {"phase": "Running", "qosClass": "BestEffort"}


async def test_a_container_that_ended_for_good_stays_ended() -> None:
    """With restartPolicy Never a kubelet cannot report an ended container as running."""
    kind, pod = await stored_pod(restartPolicy="Never")
    ended, running = copy.deepcopy(pod), copy.deepcopy(pod)
    ended["status"]["containerStatuses"] = [{"name": "a", "state": {"terminated": {"exitCode": 1}}}]
    running["status"]["containerStatuses"] = [{"name": "a", "state": {"running": {}}}]
    causes = kind.strategy.validate_status_update(running, ended)
    assert [one.field for one in causes] == ["status.containerStatuses[0].state"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_qos_class_follows_from_requests_and_limits(resources: dict[str, Any], expected: str) -> None:
    """Guaranteed requires equal requests and limits of CPU and memory; devices do not count."""
    assert qos_class({"containers": [{"name": "a", "resources": resources}]}) == expected
