"""Schemas of the built-in kinds, from the types and docstrings of the library `lightkube-models`.

This module adds what the library lacks: the keys of lists that patches merge (as in kube-apiserver's /openapi/v3;
`tests/cluster/apiserver/test_kinds_real.py` compares them), which maps hold quantities, and defaults.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import types
import typing
from datetime import datetime
from typing import Any

import msgspec

from kajitori.embedded.apiserver.schemas.schema import ANY, NULL, Schema

PACKAGES = {
    "admissionregistration_v1": "io.k8s.api.admissionregistration.v1",
    "core_v1": "io.k8s.api.core.v1",
    "discovery_v1": "io.k8s.api.discovery.v1",
    "coordination_v1": "io.k8s.api.coordination.v1",
    "networking_v1": "io.k8s.api.networking.v1",
    "policy_v1": "io.k8s.api.policy.v1",
    "rbac_v1": "io.k8s.api.rbac.v1",
    "resource_v1": "io.k8s.api.resource.v1",
    "scheduling_v1": "io.k8s.api.scheduling.v1",
    "storage_v1": "io.k8s.api.storage.v1",
    "authentication_v1": "io.k8s.api.authentication.v1",
    "authorization_v1": "io.k8s.api.authorization.v1",
    "autoscaling_v1": "io.k8s.api.autoscaling.v1",
    "apiextensions_v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "meta_v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
}

_MERGE_LISTS: dict[str, tuple[str, ...]] = {
    "Container.env": ("name",),
    "Container.ports": ("containerPort", "protocol"),
    "Container.volumeDevices": ("devicePath",),
    "Container.volumeMounts": ("mountPath",),
    "ContainerStatus.allocatedResourcesStatus": ("name",),
    "ContainerStatus.volumeMounts": ("mountPath",),
    "NamespaceStatus.conditions": ("type",),
    "NodeStatus.addresses": ("type",),
    "NodeStatus.conditions": ("type",),
    "PersistentVolumeClaimStatus.conditions": ("type",),
    "PodSpec.containers": ("name",),
    "PodSpec.ephemeralContainers": ("name",),
    "PodSpec.hostAliases": ("ip",),
    "PodSpec.imagePullSecrets": ("name",),
    "PodSpec.initContainers": ("name",),
    "PodSpec.resourceClaims": ("name",),
    "PodSpec.schedulingGates": ("name",),
    "PodSpec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "PodSpec.volumes": ("name",),
    "PodStatus.conditions": ("type",),
    "PodStatus.podIPs": ("ip",),
    "PodStatus.resourceClaimStatuses": ("name",),
    "ServiceAccount.secrets": ("name",),
    "ServiceSpec.ports": ("port", "protocol"),
    "ServiceStatus.conditions": ("type",),
    "PodDisruptionBudgetStatus.conditions": ("type",),
    "ObjectMeta.ownerReferences": ("uid",),
    "ValidatingAdmissionPolicySpec.matchConditions": ("name",),
    "ValidatingAdmissionPolicySpec.variables": ("name",),
    "MutatingAdmissionPolicySpec.matchConditions": ("name",),
}
"""Lists of type "map", which a strategic merge patch merges by the first key."""

_RETAIN_KEYS = frozenset({"PodSpec.resourceClaims", "PodSpec.volumes", "PodStatus.resourceClaimStatuses"})

_LISTS: dict[str, dict[str, Any]] = {
    "ContainerRestartRuleOnExitCodes.values": {"list_type": "set"},
    "NodeAllocatableResourceClaimStatus.containers": {"list_type": "set"},
    "NodeSpec.podCIDRs": {"list_type": "set", "patch_strategy": ("merge",)},
    "Endpoint.addresses": {"list_type": "set"},
    "ObjectMeta.finalizers": {"list_type": "set", "patch_strategy": ("merge",)},
    "PodStatus.hostIPs": {"patch_merge_key": "ip", "patch_strategy": ("merge",)},
    "ResourceRequirements.claims": {"list_type": "map", "list_map_keys": ("name",)},
    "ResourceStatus.resources": {"list_type": "map", "list_map_keys": ("resourceID",)},
    "CustomResourceDefinitionStatus.conditions": {"list_type": "map", "list_map_keys": ("type",)},
    "ValidatingAdmissionPolicyBindingSpec.validationActions": {"list_type": "set"},
    "ValidatingAdmissionPolicyStatus.conditions": {"list_type": "map", "list_map_keys": ("type",)},
}

_ATOMIC_TYPES = frozenset(
    {
        "ConfigMapKeySelector",
        "EndpointAddress",
        "EndpointPort",
        "FileKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "MatchResources",
        "NamedRuleWithOperations",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ParamKind",
        "ParamRef",
        "ResourceFieldSelector",
        "RoleRef",
        "ScopeSelector",
        "SecretKeySelector",
        "SecretReference",
        "Subject",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
        "Variable",
    }
)
_ATOMIC_FIELDS = frozenset({"PodSpec.nodeSelector", "ServiceSpec.selector"})
_GRANULAR_FIELDS = frozenset({"PersistentVolumeSpec.claimRef"})

_QUANTITY_MAPS = frozenset(
    {
        "ContainerStatus.allocatedResources",
        "LimitRangeItem.default",
        "LimitRangeItem.defaultRequest",
        "LimitRangeItem.max",
        "LimitRangeItem.maxLimitRequestRatio",
        "LimitRangeItem.min",
        "NodeStatus.allocatable",
        "NodeStatus.capacity",
        "PersistentVolumeClaimStatus.allocatedResources",
        "PersistentVolumeClaimStatus.capacity",
        "PersistentVolumeSpec.capacity",
        "PodSpec.overhead",
        "PodStatus.allocatedResources",
        "ResourceQuotaSpec.hard",
        "ResourceQuotaStatus.hard",
        "ResourceQuotaStatus.used",
        "ResourceRequirements.limits",
        "ResourceRequirements.requests",
        "VolumeResourceRequirements.limits",
        "VolumeResourceRequirements.requests",
    }
)
_QUANTITIES = frozenset(
    {
        "EmptyDirVolumeSource.sizeLimit",
        "ResourceFieldSelector.divisor",
        "CSIStorageCapacity.capacity",
        "CSIStorageCapacity.maximumVolumeSize",
    }
)
_MICRO_TIMES = frozenset(
    {"LeaseSpec.acquireTime", "LeaseSpec.renewTime", "Event.eventTime", "EventSeries.lastObservedTime"}
)
_BYTE_MAPS = frozenset({"ConfigMap.binaryData", "Secret.data"})
_FREE_TYPES = frozenset(
    {
        "JSONSchemaProps",
        *("ResourceSliceSpec", "DeviceClassSpec", "ResourceClaimSpec", "ResourceClaimStatus"),
    }
)
"""Types that are stored without being conformed: recursive types, which the kind's strategy validates, and types of
dynamic resource allocation, which is served for tests of the scheduling of devices."""
DEFAULTS: dict[str, dict[str, Any]] = {
    # Pods
    "PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
    },
    "Container": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    },
    "ContainerPort": {"protocol": "TCP"},
    "Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "GRPCAction": {"service": ""},
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "ResourceFieldSelector": {"divisor": "0"},
    "TopologySpreadConstraint": {"maxSkew": 1},
    "ContainerStatus": {"image": "", "imageID": "", "ready": False, "restartCount": 0, "state": {}, "lastState": {}},
    "ContainerStateRunning": {"startedAt": NULL},
    "ContainerStateTerminated": {"startedAt": NULL, "finishedAt": NULL},
    "PodCondition": {"lastProbeTime": NULL, "lastTransitionTime": NULL},
    "PodTemplate": {"template": {}},
    "PodTemplateSpec": {"spec": {}},
    # Volumes
    **{f"{name}VolumeSource": {"defaultMode": 0o644} for name in ("ConfigMap", "Secret", "DownwardAPI", "Projected")},
    "HostPathVolumeSource": {"type": ""},
    "ISCSIVolumeSource": {"iscsiInterface": "default"},
    "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "PersistentVolumeClaimTemplate": {"metadata": {}, "spec": {}},
    "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    # Networking
    "ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "ServicePort": {"protocol": "TCP"},
    "EndpointPort": {"protocol": "TCP"},
    "NetworkPolicySpec": {"podSelector": {}},
    "NetworkPolicyPort": {"protocol": "TCP"},
    # Others
    "NodeCondition": {"lastHeartbeatTime": NULL, "lastTransitionTime": NULL},
    "NamespaceCondition": {"lastTransitionTime": NULL},
    "Event": {
        "source": {},
        "firstTimestamp": NULL,
        "lastTimestamp": NULL,
        "eventTime": NULL,
        "reportingComponent": "",
        "reportingInstance": "",
        "involvedObject": {},
    },
    "RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
    "Secret": {"type": "Opaque"},
    "LimitRangeSpec": {"limits": NULL},
    "PriorityClass": {"preemptionPolicy": "PreemptLowerPriority", "value": 0},
    "CustomResourceDefinitionSpec": {"names": {}, "conversion": {"strategy": "None"}},
    "ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "MutatingAdmissionPolicySpec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never"},
    "MatchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
    "NamedRuleWithOperations": {"scope": "*"},
}
"""Default values by type and field, beside those that strategies compute."""

_NEWER = frozenset(
    {
        "ClusterTrustBundleProjection.user",
        "ConfigMapVolumeSource.defaultUser",
        "DownwardAPIVolumeFile.user",
        "DownwardAPIVolumeSource.defaultUser",
        "EmptyDirVolumeSource.mode",
        "GRPCAction.mode",
        "HTTPGetAction.protocol",
        "KeyToPath.user",
        "NodeSpec.podPreemptionPolicy",
        "NodeSystemInfo.runningInUserNamespace",
        "PersistentVolumeClaimStatus.healthStatus",
        "PodCertificateProjection.user",
        "PodSpec.evictionResponders",
        "PodStatus.volumeHealth",
        "ProjectedVolumeSource.defaultUser",
        "SecretVolumeSource.defaultUser",
        "ServiceAccountTokenProjection.user",
        "TokenRequestSpec.attestations",
        "VolumeMount.bindMountOptions",
    }
)
"""Fields that were added after the version of Kubernetes that is served (`discovery.KUBERNETES_MINOR`). They are
unknown here, since nothing would act on them."""

_REQUIRED = frozenset(
    f"{name}.spec" for name in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceClaimTemplateSpec")
)
"""Fields that are optional in the library, but that kube-apiserver requires."""

_ENTRY = re.compile(r"\* \*\*(?P<name>\S+?)\*\* ``.*?`` - ")


@functools.cache
def model_schema(module: str, name: str) -> Schema:
    """Return the schema of a kind, by its module in `lightkube.models` and its name.

    Raises:
        AttributeError: the library has no such model.
    """
    return _of_class(getattr(importlib.import_module(f"lightkube.models.{module}"), name))


@functools.cache
def _of_class(model: type[msgspec.Struct]) -> Schema:
    name = model.__name__
    module = model.__module__.rpartition(".")[2]
    reference = f"{PACKAGES.get(module, f'io.k8s.{module}')}.{name}"
    text, texts = _descriptions_of(model.__doc__ or "")
    if name in _FREE_TYPES:
        return Schema(preserve_unknown=True, description=text)
    fields = msgspec.structs.fields(model)
    return Schema(
        "object",
        properties={
            one.encode_name: _of_field(f"{name}.{one.encode_name}", one.type, texts.get(one.encode_name, ""))
            for one in fields
            if f"{name}.{one.encode_name}" not in _NEWER
        },
        required=tuple(one.encode_name for one in fields if one.required or f"{name}.{one.encode_name}" in _REQUIRED),
        map_type="atomic" if name in _ATOMIC_TYPES else "granular",
        description=text,
        reference=reference,
    )


def _of_field(path: str, hint: Any, text: str) -> Schema:
    owner, _, name = path.partition(".")
    if owner == "EphemeralContainer":
        path, owner = f"Container.{name}", "Container"
    schema = _of_hint(path, hint, text)
    default = DEFAULTS.get(owner, {}).get(name)
    return schema if default is None else dataclasses.replace(schema, default=default)


def _of_hint(path: str, hint: Any, text: str) -> Schema:
    kind = _without_none(hint)
    if path in _QUANTITIES:
        return Schema("quantity", description=text)
    if typing.get_origin(kind) in (list, typing.List):  # noqa: UP006 - what the library's annotations hold
        return _of_list(path, typing.get_args(kind)[0], text)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _of_reference(path, _of_class(kind), text)
    if kind is dict:
        return Schema(
            "map",
            items=_map_items(path),
            map_type="atomic" if path in _ATOMIC_FIELDS else "granular",
            description=text,
        )
    if kind is datetime:
        return Schema("microtime" if path in _MICRO_TIMES else "time", description=text)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return Schema("intorstring", description=text)
    scalar = {str: "string", int: "integer", bool: "boolean", float: "number"}.get(kind)
    if scalar is None:
        return Schema(preserve_unknown=True, description=text)
    return Schema(scalar, description=text)


def _of_list(path: str, item: Any, text: str) -> Schema:
    items = _of_field(f"{path}[]", item, "")
    keys = _MERGE_LISTS.get(path)
    if keys is None:
        return Schema("array", items=items, description=text, **_LISTS.get(path, {}))
    return Schema(
        "array",
        items=items,
        list_type="map",
        list_map_keys=keys,
        patch_merge_key=keys[0],
        patch_strategy=("merge", "retainKeys") if path in _RETAIN_KEYS else ("merge",),
        description=text,
    )


def _of_reference(path: str, schema: Schema, text: str) -> Schema:
    return Schema(
        schema.type,
        properties=schema.properties,
        required=schema.required,
        preserve_unknown=schema.preserve_unknown,
        map_type="granular" if path in _GRANULAR_FIELDS else schema.map_type,
        patch_strategy=("replace",) if path == "PodDisruptionBudgetSpec.selector" else (),
        description=text or schema.description,
        reference=schema.reference,
    )


def _map_items(path: str) -> Schema:
    if path in _QUANTITY_MAPS:
        return Schema("quantity")
    if path in _BYTE_MAPS:
        return Schema("bytes")
    if path == "PodDisruptionBudgetStatus.disruptedPods":
        return Schema("time")
    if path.endswith(".extra"):
        return Schema("array", items=Schema("string"))
    return Schema("string")


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        return rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007 - built from a list
    return ANY if hint is typing.Any else hint


def _descriptions_of(doc: str) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a type and of each of its fields from the model's docstring."""
    text, _, parameters = doc.partition("**parameters**")
    pieces = _ENTRY.split(parameters)
    return _join_lines(text), {
        name: _join_lines(detail) for name, detail in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def _join_lines(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(" ".join(one.split()) for one in paragraphs if one.strip())
