"""Validation of built-in types: every fault names its field."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.embedded.apiserver.schemas.defaulting import apply_defaults
from kajitori.embedded.apiserver.schemas.models import DEFAULTS, model_schema
from kajitori.embedded.apiserver.strategies.pods import complete_pod_spec
from kajitori.embedded.apiserver.validation import combinations, fields
from kajitori.embedded.apiserver.validation.validate import validate


def faults_of_pod(spec: dict[str, Any], **container: Any) -> list[str]:
    whole = {"containers": [{"name": "a", "image": "i", **container}], **spec}
    schema = model_schema("core_v1", "PodSpec")
    apply_defaults(schema, whole)
    complete_pod_spec(whole)
    return [str(one) for one in validate(schema, whole, "spec")]


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"name": ""}, "name: Required"),
        ({"name": "A"}, "name: Invalid"),
        ({"image": " i"}, "image: Invalid"),
        ({"imagePullPolicy": "Often"}, "imagePullPolicy: Unsupported"),
        ({"ports": [{"containerPort": 0, "protocol": "TCP"}]}, "ports[0].containerPort: Invalid"),
        ({"ports": [{"containerPort": 80, "protocol": "UPD"}]}, "ports[0].protocol: Unsupported"),
        ({"env": [{"name": "A=B"}]}, "env[0].name: Invalid"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom: Required"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}, "fieldPath: Unsupported"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}, "secretKeyRef.key: Required"),
        ({"envFrom": [{}]}, "envFrom[0]: Required"),
        ({"volumeMounts": [{"name": "no", "mountPath": "/a"}]}, "volumeMounts[0].name: Not found"),
        ({"resources": {"limits": {"cpu": "-1"}}}, "resources.limits[cpu]: Invalid"),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, "resources.requests[cpu]: Invalid"),
        ({"resources": {"requests": {"nvidia.com/gpu": "1"}}}, "resources.limits[nvidia.com/gpu]: Required"),
        ({"resources": {"limits": {"nvidia.com/gpu": "500m"}}}, "resources.limits[nvidia.com/gpu]: Invalid"),
        ({"resources": {"limits": {"gpu": "1"}}}, "resources.limits[gpu]: Invalid"),
        ({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}, "resources.limits[hugepages-2Mi]: Invalid"),
        ({"livenessProbe": {"periodSeconds": -1, "exec": {"command": ["a"]}}}, "livenessProbe.periodSeconds: Invalid"),
        ({"livenessProbe": {}}, "livenessProbe: Required"),
        ({"readinessProbe": {"exec": {}}}, "readinessProbe.exec.command: Required"),
        ({"lifecycle": {"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}}, "preStop.sleep: Forbidden"),
        ({"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser: Invalid"),
        ({"securityContext": {"seccompProfile": {"type": "Localhost"}}}, "localhostProfile: Required"),
    ],
)
def test_faults_of_a_container(container: dict[str, Any], field: str) -> None:
    faults = faults_of_pod({}, **container)
    assert any(field in fault and fault.startswith("spec.containers[0].") for fault in faults), faults


def test_required_texts_that_may_be_empty() -> None:
    """The value of an HTTP header, for example."""
    probe: dict[str, Any] = {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-A", "value": ""}]}}
    assert faults_of_pod({}, livenessProbe=probe) == []
    probe["httpGet"]["httpHeaders"] = [{"name": "", "value": "a"}]
    assert faults_of_pod({}, livenessProbe=probe)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers: Required"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy: Unsupported"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid"),
        ({"nodeName": "A b"}, "spec.nodeName: Invalid"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector: Invalid"),
        ({"dnsPolicy": "None"}, "spec.dnsConfig.nameservers: Required"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/a/../b"}}]}, "spec.volumes[0].hostPath.path: Invalid"),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, "spec.volumes[1].name: Duplicate"),
        ({"volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]}, "volumes[0].secret: Forbidden"),
        ({"volumes": [{"name": "a", "configMap": {"name": "c", "defaultMode": 0o1777}}]}, "defaultMode: Invalid"),
        ({"tolerations": [{"value": "a"}]}, "spec.tolerations[0].operator: Invalid"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "spec.tolerations[0].value: Invalid"),
        ({"initContainers": [{"name": "a", "image": "i"}]}, "spec.initContainers[0].name: Duplicate"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew: Invalid",
        ),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
            "nodeSelectorTerms: Required",
        ),
    ],
)
def test_faults_of_a_pod(spec: dict[str, Any], field: str) -> None:
    faults = faults_of_pod(spec)
    assert any(field in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("module", "kind", "value", "field"),
    [
        ("networking_v1", "NetworkPolicySpec", {"ingress": [{"from": [{}]}]}, "ingress[0].from[0]: Required"),
        (
            "networking_v1",
            "NetworkPolicySpec",
            {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}]}]},
            "ipBlock.except[0]: Invalid",
        ),
        ("core_v1", "PersistentVolumeClaimSpec", {"accessModes": ["ReadWriteOnce"]}, "requests.storage: Required"),
        ("core_v1", "PersistentVolumeSpec", {"capacity": {"storage": "1Gi"}}, "spec: Required"),
        ("core_v1", "NodeSpec", {"taints": [{"key": "a", "effect": "Never"}]}, "taints[0].effect: Unsupported"),
        ("policy_v1", "PodDisruptionBudgetSpec", {"minAvailable": "half"}, "minAvailable: Invalid"),
        ("policy_v1", "PodDisruptionBudgetSpec", {"minAvailable": 1, "maxUnavailable": 1}, "maxUnavailable: Forbidden"),
        ("coordination_v1", "LeaseSpec", {"leaseDurationSeconds": 0}, "leaseDurationSeconds: Invalid"),
        ("meta_v1", "LabelSelector", {"matchExpressions": [{"key": "a", "operator": "In"}]}, "values: Required"),
    ],
)
def test_faults_of_other_types(module: str, kind: str, value: dict[str, Any], field: str) -> None:
    faults = [str(one) for one in validate(model_schema(module, kind), value, "spec")]
    assert any(field in fault for fault in faults), faults


def test_every_rule_is_about_a_field_that_exists() -> None:
    """A rule with a misspelt name would never be applied."""
    modules = [f"{group}_v1" for group in ("core", "networking", "policy", "storage", "coordination", "discovery")]
    modules += ["meta_v1", "scheduling_v1", "admissionregistration_v1", "apiextensions_v1", "rbac_v1"]

    def has(kind: str, *names: str) -> bool:
        for module in modules:
            try:
                schema = model_schema(module, kind)
            except AttributeError:
                continue
            if set(names) <= set(schema.properties):
                return True
        return False

    for key in (*fields.CHECKS, *fields.LABELS):
        assert has(*key.split(".")), key
    for kind, names in (*fields.REQUIRED.items(), *fields.ONE_OF.items()):
        assert has(kind, *names), (kind, names)
    for key, names in fields.UNIQUE.items():
        assert has(*key.split(".")), (key, names)
    for kind in combinations.COMBINATIONS:
        assert has(kind), kind
    for kind, defaults in DEFAULTS.items():
        assert all(has(kind, name) for name in defaults), kind
