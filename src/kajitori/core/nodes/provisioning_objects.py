"""Kubernetes objects of a request for nodes.

They are a ProvisioningRequest, the PodTemplate that it refers to, and the annotations with which members consume it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.core.naming import names
from kajitori.core.policy.nodes.pools import NodePool
from kajitori.core.spec.status_parts.node_request import NodeRequest

GROUP = "autoscaling.x-k8s.io"
CONSUMES = f"{GROUP}/consume-provisioning-request"
CLASS_NAME = f"{GROUP}/provisioning-class-name"

Manifest = dict[str, Any]

_OF_CONTAINERS = ("name", "image", "resources", "restartPolicy")
_OF_PODS = (
    "tolerations",
    "priorityClassName",
    "preemptionPolicy",
    "runtimeClassName",
    "schedulerName",
    "restartPolicy",
)
"""The fields of a Pod template that an autoscaler needs to know where members fit; not the program they run."""


def request_name(run: str, request: NodeRequest) -> str:
    """Return the name of the ProvisioningRequest and its PodTemplate.

    It is unique to the attempt and the request's number.
    """
    return f"{run}-{request.attempt}-{request.number}"


def pod_template(
    request: NodeRequest, rules: NodePool, template: Mapping[str, Any], *, run: str, namespace: str, uid: str
) -> Manifest:
    """Return the Pod template by which the autoscaler chooses nodes of this pool for the members. `template` is the
    template of the run's members."""
    spec = template["spec"]
    shown: Manifest = {name: spec[name] for name in _OF_PODS if name in spec}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            shown[kind] = [{name: c[name] for name in _OF_CONTAINERS if name in c} for c in spec[kind]]
    shown["nodeSelector"] = {**spec.get("nodeSelector", {}), **rules.node_selector}
    labels = {names.LABEL_RUN_UID: uid}
    if template["metadata"].get("labels", {}).get(names.LABEL_WHOLE_NODE) == "true":
        apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        shown["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _request_metadata(request, run, namespace, uid),
        "template": {"metadata": {"labels": labels}, "spec": shown},
    }


def provisioning_request(
    request: NodeRequest, rules: NodePool, members: int, *, api_version: str, run: str, namespace: str, uid: str
) -> Manifest:
    """Return the ProvisioningRequest for all members of the gang as one pod set."""
    pod_set = {"count": members, "podTemplateRef": {"name": request_name(run, request)}}
    spec: Manifest = {"provisioningClassName": rules.provisioning_class, "podSets": [pod_set]}
    if rules.all_parameters:
        spec["parameters"] = rules.all_parameters
    return {
        "apiVersion": api_version,
        "kind": "ProvisioningRequest",
        "metadata": _request_metadata(request, run, namespace, uid),
        "spec": spec,
    }


def using(template: Mapping[str, Any], request: NodeRequest, class_name: str, run: str) -> Manifest:
    """Return the template of members that consume the provided nodes.

    Autoscalers add no further nodes for Pods with these annotations, and some providers admit no other Pods there.
    """
    annotations = {CONSUMES: request_name(run, request), CLASS_NAME: class_name}
    metadata = template.get("metadata", {})
    return {**template, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def _request_metadata(request: NodeRequest, run: str, namespace: str, uid: str) -> Manifest:
    return {
        "name": request_name(run, request),
        "namespace": namespace,
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_RUN: run,
            names.LABEL_RUN_UID: uid,
            names.LABEL_ATTEMPT: str(request.attempt),
        },
        "ownerReferences": [
            {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": run, "uid": uid, "controller": True}
        ],
    }
