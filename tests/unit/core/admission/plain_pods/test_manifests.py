"""Pods in manifests."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.plain_pods.manifests import pods_of

SPEC: dict[str, Any] = {"containers": [{"name": "main", "image": "web:1"}]}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("Pod", {"spec": SPEC}),
        ("Deployment", {"spec": {"template": {"spec": SPEC}}}),
        ("DaemonSet", {"spec": {"template": {"spec": SPEC}}}),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}}),
        ("PodTemplate", {"template": {"spec": SPEC}}),
    ],
)
def test_every_kind_with_pods_is_read(kind: str, document: dict[str, Any]) -> None:
    body = {"kind": kind, "metadata": {"name": "web", "namespace": "team"}} | document
    (found,) = pods_of({"kind": "List", "items": [{"kind": "Service"}, body]})
    assert (found.kind, found.name, found.namespace, found.pod.spec) == (kind, "web", "team", SPEC)
    assert found.pod.from_daemon_set == (kind == "DaemonSet")


def test_other_documents_have_no_pods() -> None:
    assert not list(pods_of({"kind": "Service", "spec": {}})) and not list(pods_of(None)) and not list(pods_of("text"))


@pytest.mark.parametrize("spec", [None, {}, {"containers": {}}, {"containers": [{}]}, {"containers": ["main"]}])
def test_a_pod_without_containers_is_a_fault(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"Pod web: spec\.containers is no list of containers"):
        list(pods_of({"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}))
