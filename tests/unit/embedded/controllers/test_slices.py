"""Decides which EndpointSlices a Service should have."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.controllers.endpoints import Endpoints
from kajitori.embedded.controllers.slices import MAX_ENDPOINTS, Change, Service, Slice, changes
from kajitori.embedded.objects import Pod
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient


def service(ports: list[dict[str, Any]] | None = None, **spec: Any) -> Service:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}] if ports is None else ports
    document = {
        "metadata": {"name": "web", "namespace": "d", "uid": "s"},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }
    return msgspec.convert(document, Service)


def pod(name: str, ip: str = "10.0.0.1", ready: str = "True", deleting: bool = False, **more: Any) -> Pod:
    document = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "deletionTimestamp": "2026" if deleting else "",
        },
        "spec": {"nodeName": "n", **more.pop("spec", {})},
        "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}], **more},
    }
    return msgspec.convert(document, Pod)


def apply(slices: list[Slice], written: list[Change]) -> list[Slice]:
    state = {s.metadata.name: s for s in slices}
    for change in written:
        if change.body is None:
            del state[change.name]
        else:
            assert (change.old is None) == (change.name not in state)
            state[change.name] = msgspec.convert(change.body, Slice)
    return list(state.values())


def endpoints(slices: list[Slice]) -> dict[str, dict[str, Any]]:
    return {e["targetRef"]["name"]: e for s in slices for e in s.endpoints or ()}


def test_endpoints_have_ready_serving_and_terminating_conditions() -> None:
    """Ready is never true for a terminating Pod, unless not-ready addresses are published."""
    pods = [pod("a"), pod("b", ready="False"), pod("c", deleting=True)]
    found = endpoints(apply([], changes(service(), pods, [])))
    assert {name: list(e["conditions"].values()) for name, e in found.items()} == {
        "a": [True, True, False],
        "b": [False, False, False],
        "c": [False, True, True],
    }
    published = endpoints(apply([], changes(service(publishNotReadyAddresses=True), pods, [])))
    assert all(e["conditions"]["ready"] for e in published.values())


def test_pods_without_an_address_ended_and_foreign_pods_are_left_out() -> None:
    """The address of an ended Pod may belong to another Pod."""
    other = pod("x")
    other.metadata = msgspec.structs.replace(other.metadata, labels={"app": "other"})
    pods = [pod("a", ip=""), pod("b", phase="Succeeded"), other]
    (empty,) = apply([], changes(service(), pods, []))
    assert not empty.endpoints
    assert empty.ports == [{"name": "http", "port": 8080, "protocol": "TCP"}]


def test_host_names_are_published_for_members_of_the_subdomain() -> None:
    """So that `rank-0.web` resolves."""
    found = endpoints(apply([], changes(service(), [pod("a", spec={"hostname": "r0", "subdomain": "web"})], [])))
    assert found["a"]["hostname"] == "r0"


def test_a_named_port_may_differ_among_pods() -> None:
    """Each port number gets slices of its own."""

    def with_port(name: str, number: int) -> Pod:
        ports = [{"name": "http", "containerPort": number}]
        return pod(name, spec={"containers": [{"name": "c", "ports": ports}]})

    named = service([{"name": "http", "port": 80, "targetPort": "http"}])
    slices = apply([], changes(named, [with_port("a", 1), with_port("b", 2)], []))
    assert sorted((s.ports or [])[0]["port"] for s in slices) == [1, 2]


def test_a_service_that_is_gone_or_selects_nothing_has_no_slices() -> None:
    """Existing slices are deleted."""
    slices = apply([], changes(service(), [pod("a")], []))
    assert apply(slices, changes(None, [], slices)) == []
    assert apply(slices, changes(service(selector=None), [pod("a")], slices)) == []


def test_the_change_of_one_pod_rewrites_one_slice() -> None:
    """The other slices stay unchanged."""
    pods = [pod(f"p{i:03}") for i in range(250)]
    slices = apply([], changes(service(), pods, []))
    assert sorted(len(s.endpoints or []) for s in slices) == [50, 100, 100]
    (change,) = changes(service(), [pod("p120", ready="False"), *pods[:120], *pods[121:]], slices)
    assert change.body is not None
    (change,) = changes(service(), pods[1:], slices)
    assert change.body is not None
    assert len(change.body["endpoints"]) == 99


@given(st.lists(st.sets(st.integers(0, 320)), min_size=1, max_size=4))
def test_slices_always_hold_exactly_the_pods_and_settle(histories: list[set[int]]) -> None:
    """From any initial state, each Pod is in one slice, none has more than 100, and a second pass writes nothing."""
    slices: list[Slice] = []
    for numbers in histories:
        pods = [pod(f"p{n}", ip=f"10.0.{n // 250}.{n % 250 + 1}") for n in numbers]
        slices = apply(slices, changes(service(), pods, slices))
        assert sum(len(s.endpoints or []) for s in slices) == len(numbers)
        assert endpoints(slices).keys() == {p.metadata.name for p in pods}
        assert all(len(s.endpoints or []) <= MAX_ENDPOINTS for s in slices)
        assert changes(service(), pods, slices) == []


async def test_a_slice_that_vanished_with_its_service_is_not_tried_again() -> None:
    """A run that is deleted at once takes its Service with it, and the slice was gone before the controller saw that:
    `kaji up` then warned that it was not found."""

    class WithoutSlices:
        async def replace(self, *_: object) -> None:
            raise NotFound("endpointslices 'web-0' not found")

    controller = Endpoints(cast("KubeClient", WithoutSlices()))
    [first] = apply([], changes(service(), [pod("a")], []))
    controller._services.items["d", "web"] = service()
    controller._see_service(("d", "web"), None, service())
    controller._see_slice(("d", "web-0"), None, first)
    controller._see_pod(("d", "b"), None, pod("b", ip="10.0.0.2"))
    await controller.reconcile()
    assert not controller._dirty
