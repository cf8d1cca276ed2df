"""Audit events as requests: client, instance, and number by kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kajitori.core.protection.api_clients import KUBELETS, Ask, Client, Scope
from kajitori.kube.audit_log import AuditLog

EVENT: dict[str, Any] = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Metadata",
    "auditID": "d261dccd-2eab-4e12-8a2e-f96d1e863bf5",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/pods?limit=500",
    "verb": "list",
    "user": {
        "username": "system:serviceaccount:monitoring:spy",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:monitoring", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/node-name": ["n0"],
            "authentication.kubernetes.io/pod-name": ["spy-0"],
        },
    },
    "sourceIPs": ["10.1.2.3"],
    "userAgent": "spy/1.2 (linux/amd64)",
    "objectRef": {"resource": "pods", "apiVersion": "v1"},
    "responseStatus": {"metadata": {}, "code": 200},
    "requestReceivedTimestamp": "2026-11-22T07:44:39.438392Z",
    "stageTimestamp": "2026-11-22T07:44:39.440404Z",
}
"""As kube-apiserver 1.36 wrote it, shortened."""


def log(*events: dict[str, Any] | bytes) -> AuditLog:
    return AuditLog(
        [event if isinstance(event, bytes) else msgspec.json.encode(EVENT | event) + b"\n" for event in events]
    )


def test_an_event_becomes_a_request_with_client_and_kind() -> None:
    (request,) = log({}).requests()
    assert request.client == Client("system:serviceaccount:monitoring:spy", "spy")
    assert request.instance == "n0"
    assert request.ask == Ask("list", "pods", Scope.ALL, from_store=True)
    assert request.ended is not None and round(request.ended - request.began, 3) == 0.002


@pytest.mark.parametrize(
    ("user", "instance"),
    [
        ({"username": "u", "extra": {"authentication.kubernetes.io/pod-name": ["spy-0"]}}, "spy-0"),
        ({"username": "u"}, "10.1.2.3"),
        ({"username": "system:node:gpu-1"}, "gpu-1"),
    ],
)
def test_instances_are_distinguished_by_their_source(user: dict[str, Any], instance: str) -> None:
    """All kubelets are one client."""
    (request,) = log({"user": user}).requests()
    assert request.instance == instance
    assert (request.client == Client(KUBELETS)) is user["username"].startswith("system:node")


@pytest.mark.parametrize(
    ("changes", "ask"),
    [
        ({"requestURI": "/api/v1/pods?resourceVersion=0"}, Ask("list", "pods", Scope.ALL)),
        ({"requestURI": "/api/v1/pods?continue=x"}, Ask("list", "pods", Scope.ALL)),
        (
            {"requestURI": "/api/v1/pods?fieldSelector=status.phase%3DRunning%2Cspec.nodeName%3Dn0"},
            Ask("list", "pods", Scope.SELECTED, from_store=True),
        ),
        (
            {"objectRef": {"resource": "pods", "namespace": "vision"}},
            Ask("list", "pods", Scope.NAMESPACE, from_store=True),
        ),
        (
            {"verb": "patch", "objectRef": {"resource": "nodes", "name": "n0", "subresource": "status"}},
            Ask("patch", "nodes/status", Scope.SELECTED),
        ),
        (
            {"verb": "update", "objectRef": {"resource": "leases", "apiGroup": "coordination.k8s.io", "name": "n0"}},
            Ask("update", "leases.coordination.k8s.io", Scope.SELECTED),
        ),
        ({"verb": "get", "requestURI": "/healthz?verbose", "objectRef": None}, Ask("get", "/healthz", Scope.SELECTED)),
    ],
)
def test_the_scope_of_a_request_is_recognised(changes: dict[str, Any], ask: Ask) -> None:
    (request,) = log(changes).requests()
    assert request.ask == ask


def test_a_watch_is_one_request_however_many_stages_are_logged() -> None:
    """It is open until the event of its end."""
    watch = {"verb": "watch", "requestURI": "/api/v1/pods?watch=true"}
    opened = watch | {"stage": "ResponseStarted"}
    over = watch | {"stageTimestamp": "2026-11-22T07:45:39.438392Z"}
    (ended,) = log(watch | {"stage": "RequestReceived"}, opened, over).requests()
    assert ended.ended is not None and ended.ended - ended.began == 60
    still, *rest = log(opened, opened | {"auditID": "2"}, over | {"auditID": "2"}).requests()
    assert still.ended is not None and [call.ended for call in rest] == [None]


def test_lines_that_are_no_events_are_counted() -> None:
    """The last line of a log that is being written may be incomplete."""
    half = log(b"\n", {}, b'{"kind":"Event","stage":"Resp', b'{"some": "json"}\n', b'{"stage": "\xff"}\n')
    assert len(list(half.requests())) == 1
    assert half.unreadable == 3


def test_any_requested_path_is_accepted() -> None:
    """A scan requests arbitrary paths, and is logged."""
    (request,) = log({"requestURI": "//[x?limit=1", "objectRef": None}).requests()
    assert request.ask == Ask("list", "//[x", Scope.SELECTED)
