"""Admission: namespaces, defaults, priorities, limits, quotas, addresses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.helpers.objects.kinds_pipeline import CLIENT_CA, MemoryView, create, fresh

from kajitori.embedded.apiserver.admission import admission
from kajitori.embedded.apiserver.admission.admission import LIMIT_RANGES, QUOTAS, AdmissionRequest
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.writes import automatic
from kajitori.kube import resources


def pod(name: str = "p", *, limits: dict[str, str] | None = None, **spec: Any) -> Object:
    container: dict[str, Any] = {"name": "a", "image": "i"}
    if limits:
        container["resources"] = {"limits": limits}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def limit_range(*limits: dict[str, Any]) -> Object:
    meta = {"name": "lr", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": list(limits)}}


def quota(**spec: Any) -> Object:
    meta = {"name": "rq", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec, "status": {}}


async def store(registry: KindRegistry, view: MemoryView, body: Object) -> Object:
    """Create an object and carry out its follow-ups."""
    answer = await create(registry, view, body)
    assert answer.faults == []
    kind = registry.find_kind(body["apiVersion"], body["kind"])
    assert kind is not None
    put(registry, view, None, answer.object)
    return answer.object


def put(registry: KindRegistry, view: MemoryView, old: Object | None, new: Object) -> None:
    kind = registry.find_kind(new["apiVersion"], new["kind"])
    assert kind is not None
    view.put(kind.stored, new)
    for change in automatic.follow_ups(registry, kind, old, new, view):
        view.put(change.kind.stored, change.object)


async def test_objects_need_their_namespace() -> None:
    """Creating an object in a namespace that does not exist is a 404 that names the namespace."""
    registry, view = fresh()
    answer = await create(registry, view, pod(), namespace="nope")
    assert answer.error is not None
    assert (answer.error.code, answer.error.message) == (404, 'namespaces "nope" not found')


async def test_a_terminating_namespace_accepts_no_objects() -> None:
    """Clients can recognise the cause."""
    registry, view = fresh()
    namespace = copy.deepcopy(view.get(resources.NAMESPACES, "", "default"))
    assert namespace is not None
    namespace["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    view.put(resources.NAMESPACES, namespace)
    answer = await create(registry, view, pod())
    assert answer.error is not None
    assert answer.error.code == 403
    assert "because it is being terminated" in answer.error.message
    assert (answer.error.details or {})["causes"][0]["reason"] == "NamespaceTerminating"


async def test_system_namespaces_stay() -> None:
    """The default namespace cannot be deleted."""
    registry, view = fresh()
    kind = registry.find("", "v1", "namespaces")
    assert kind is not None
    request = AdmissionRequest("DELETE", kind, "", "default", {})
    with pytest.raises(StatusError, match="this namespace may not be deleted"):
        await admission.admit(request, view)


async def test_a_limit_range_sets_omitted_amounts_with_an_annotation() -> None:
    """Requests and limits that a container leaves out come from the LimitRange; its quality of service follows."""
    registry, view = fresh()
    default = {"cpu": "500m", "memory": "1Gi"}
    view.put(LIMIT_RANGES, limit_range({"type": "Container", "default": default, "defaultRequest": default}))
    answer = await create(registry, view, pod())
    container = answer.object["spec"]["containers"][0]
    assert container["resources"] == {"requests": default, "limits": default}
    assert answer.object["status"]["qosClass"] == "Guaranteed"
    said = answer.object["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    expected = "cpu, memory request for container a; cpu, memory limit for container a"
    assert said == f"LimitRanger plugin set: {expected}"


async def test_a_violation_of_a_limit_range_names_every_bound() -> None:
    registry, view = fresh()
    view.put(
        LIMIT_RANGES,
        limit_range(
            {"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "64Mi"}},
            {"type": "Pod", "max": {"cpu": "1500m"}, "min": {"memory": "100Mi"}},
        ),
    )
    answer = await create(registry, view, pod(limits={"cpu": "2", "memory": "32Mi"}))
    assert answer.error is not None
    assert answer.error.message == (
        'pods "p" is forbidden: [minimum memory usage per Container is 64Mi, but request is 32Mi, '
        "maximum cpu usage per Container is 1, but limit is 2, "
        "minimum memory usage per Pod is 100Mi, but request is 32Mi, "
        "maximum cpu usage per Pod is 1500m, but limit is 2]"
    )


async def test_a_quota_refuses_what_exceeds_it() -> None:
    """Only the exceeded resources are named, with requested, used and allowed amounts."""
    registry, view = fresh()
    hard = {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2", "requests.nvidia.com/gpu": "1"}
    view.put(QUOTAS, quota(hard=hard))
    answer = await create(registry, view, pod(limits={"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "2"}))
    assert answer.error is not None
    assert answer.error.message == (
        'pods "p" is forbidden: exceeded quota: rq, '
        "requested: limits.memory=2Gi,requests.cpu=2,requests.nvidia.com/gpu=2, "
        "used: limits.memory=0,requests.cpu=0,requests.nvidia.com/gpu=0, "
        "limited: limits.memory=1Gi,requests.cpu=1,requests.nvidia.com/gpu=1"
    )
    answer = await create(registry, view, pod())
    assert answer.error is not None
    expected = "failed quota: rq: must specify limits.memory for: a; requests.cpu for: a"
    assert answer.error.message == f'pods "p" is forbidden: {expected}'


async def test_the_status_of_a_quota_follows_the_objects() -> None:
    """The status gives the use after each change; a Pod that has ended does not count."""
    registry, view = fresh()
    await store(registry, view, {**quota(hard={"pods": "2", "requests.cpu": "3", "count/pods": "9"}), "status": {}})
    first = await store(registry, view, pod("p1", limits={"cpu": "1"}))
    await store(registry, view, pod("p2", limits={"cpu": "500m"}))
    used = (view.get(QUOTAS, "default", "rq") or {})["status"]["used"]
    assert used == {"pods": "2", "requests.cpu": "1500m", "count/pods": "2"}
    refused = await create(registry, view, pod("p3", limits={"cpu": "1"}))
    assert "exceeded quota: rq, requested: pods=1, used: pods=2, limited: pods=2" in refused.faults[0]
    put(registry, view, first, {**first, "status": {"phase": "Succeeded"}})
    used = (view.get(QUOTAS, "default", "rq") or {})["status"]["used"]
    assert used == {"pods": "1", "requests.cpu": "500m", "count/pods": "2"}
    assert (await create(registry, view, pod("p3", limits={"cpu": "1"}))).faults == []


async def test_a_quotas_status_from_a_client_is_recounted() -> None:
    """It is recounted at the next change, and not trusted before."""
    registry, view = fresh()
    made = await store(registry, view, quota(hard={"pods": "2"}))
    await store(registry, view, pod("p1"))
    lie = {
        **made,
        "metadata": {**made["metadata"], "uid": "u"},
        "status": {"hard": {"pods": "2"}, "used": {"pods": "9"}},
    }
    view.put(QUOTAS, lie)
    await store(registry, view, pod("p2"))
    assert (view.get(QUOTAS, "default", "rq") or {})["status"]["used"] == {"pods": "2"}
    assert "used: pods=2" in (await create(registry, view, pod("p3"))).faults[0]
    view.remove(resources.PODS, "default", "p2")
    removed = pod("p2")
    removed["metadata"]["namespace"] = "default"
    changes = automatic.follow_ups(registry, _kind(registry, "pods"), removed, None, view)
    assert [one.object["status"]["used"] for one in changes] == [{"pods": "1"}]


def _kind(registry: KindRegistry, plural: str) -> Kind:
    kind = registry.find("", "v1", plural)
    assert kind is not None
    return kind


async def test_a_quota_for_best_effort_pods_ignores_other_pods() -> None:
    """Scopes choose which Pods a quota is about."""
    registry, view = fresh()
    view.put(QUOTAS, quota(hard={"pods": "0"}, scopes=["BestEffort"]))
    assert (await create(registry, view, pod(limits={"cpu": "1"}))).faults == []
    assert "exceeded quota" in (await create(registry, view, pod())).faults[0]


async def test_default_priority_class() -> None:
    """A Pod without a class gets the global default with its value and preemption policy."""
    registry, view = fresh()
    meta = {"name": "usual"}
    chosen = {"metadata": meta, "value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    view.put(resources.PRIORITY_CLASSES, chosen)
    spec = (await create(registry, view, pod())).object["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("usual", 7, "Never")


async def test_each_service_gets_its_own_address() -> None:
    """Services get different addresses; a taken one is refused."""
    registry, view = fresh()

    def service(name: str, **spec: Any) -> Object:
        meta = {"name": name}
        return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}], **spec}}

    made = [await store(registry, view, service(f"s{i}", type="NodePort")) for i in range(3)]
    assert len({one["spec"]["clusterIP"] for one in made}) == 3
    assert len({one["spec"]["ports"][0]["nodePort"] for one in made}) == 3
    taken = made[0]["spec"]["clusterIP"]
    refused = await create(registry, view, service("s9", clusterIP=taken))
    assert refused.faults[0].endswith("is already allocated")


async def test_a_new_namespace_gets_its_account() -> None:
    """The default ServiceAccount is created with the namespace and after its deletion, but not while the namespace is
    deleted."""
    registry, view = fresh()
    await store(registry, view, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}})
    account = view.get(admission.SERVICE_ACCOUNTS, "vision", "default")
    assert account is not None
    kind = registry.find("", "v1", "serviceaccounts")
    assert kind is not None
    view.remove(admission.SERVICE_ACCOUNTS, "vision", "default")
    changes = automatic.follow_ups(registry, kind, account, None, view)
    assert [one.object["metadata"] for one in changes] == [{"name": "default", "namespace": "vision"}]


def test_the_objects_of_the_first_start_are_created_once() -> None:
    registry, view = fresh()
    assert automatic.at_start(registry, view, CLIENT_CA) == []


def test_the_published_authority_follows_a_new_one() -> None:
    """A data folder may have got a new certificate authority."""
    registry, view = fresh()
    (change,) = automatic.at_start(registry, view, "another PEM")
    assert (change.object["metadata"]["name"], change.part) == ("extension-apiserver-authentication", "data")
    assert change.object["data"] == {"client-ca-file": "another PEM"}
