"""Admission: changes and checks that depend on other objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kajitori.embedded.apiserver import addresses
from kajitori.embedded.apiserver.admission import limits, quotas
from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.strategies.networking import settle_addresses
from kajitori.embedded.apiserver.strategies.pods import qos_class
from kajitori.embedded.apiserver.strategies.storage import is_default_class
from kajitori.kube import resources
from kajitori.kube.resources import Resource

LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
DEFAULT_TOLERATION_SECONDS = 300
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class StoreView(Protocol):
    """The stored objects. Callers must not change them."""

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object by its stored resource (`kind.stored`), or None. Kinds that are not namespaced have
        namespace ""."""

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """Return all objects of a stored resource, in one namespace or (with "") in all."""


@dataclass(slots=True)
class AdmissionRequest:
    """A write that admission decides on."""

    operation: str
    """"CREATE", "UPDATE" or "DELETE"."""
    kind: Kind
    namespace: str
    name: str
    object: Object
    """The new object, which `admit` changes in place; the object to delete for "DELETE"."""
    old_object: Object | None = None
    subresource: str = ""
    dry_run: bool = False
    user: Any = None
    warnings: list[str] = field(default_factory=list)
    """Warnings for the user, sent in `Warning` headers."""


async def admit(request: AdmissionRequest, view: StoreView) -> None:
    """Mutating admission. The namespace must exist (404) and not be terminating (403).

    Sets the defaults of LimitRanges, default tolerations, priority, service account, default storage class and cluster
    addresses.

    Raises:
        StatusError: the object is refused.
    """
    _check_namespace(request, view)
    if request.subresource:
        return
    plural, group = request.kind.resource.plural, request.kind.resource.group
    if group or request.operation == "DELETE":
        return
    if plural == "pods":
        _complete_pod(request, view)
    elif plural == "services":
        _set_cluster_addresses(request, view)
    elif plural == "persistentvolumeclaims" and request.operation == "CREATE":
        _set_storage_class(request, view)


def check(request: AdmissionRequest, view: StoreView) -> None:
    """Validating admission: overhead, bounds of LimitRanges, ResourceQuotas.

    It is synchronous: if the caller then stores the object without awaiting in between, no quota is exceeded.

    Raises:
        StatusError: 403, with every reason.
    """
    if request.subresource or request.operation == "DELETE" or not request.namespace:
        return
    resource = request.kind.resource
    if request.operation == "CREATE":
        ranges = list(view.list(LIMIT_RANGES, request.namespace))
        faults: list[str] = []
        is_pod = (resource.group, resource.plural) == ("", "pods")
        if is_pod and request.object["spec"].get("overhead"):
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise StatusError.forbidden(resource, request.name, why)
        if ranges and is_pod:
            faults = limits.pod_faults(request.object, ranges)
        elif ranges and (resource.group, resource.plural) == ("", "persistentvolumeclaims"):
            faults = limits.claim_faults(request.object, ranges)
        if faults:
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise StatusError.forbidden(resource, request.name, why)
    _check_quotas(request, view)


def _check_namespace(request: AdmissionRequest, view: StoreView) -> None:
    resource = request.kind.resource
    if request.operation == "DELETE":
        if resource == resources.NAMESPACES and request.name in IMMORTAL_NAMESPACES:
            raise StatusError.forbidden(resource, request.name, "this namespace may not be deleted")
        return
    if request.operation != "CREATE" or not resource.namespaced or request.kind.virtual:
        return
    namespace = view.get(resources.NAMESPACES, "", request.namespace)
    if namespace is None:
        raise StatusError.not_found(resources.NAMESPACES, request.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        detail = f"namespace {request.namespace} is being terminated"
        causes = [Cause("NamespaceTerminating", "metadata.namespace", detail)]
        raise StatusError.forbidden(resource, request.name, why, causes=causes)


def _complete_pod(request: AdmissionRequest, view: StoreView) -> None:
    pod = request.object
    spec = pod["spec"]
    _add_tolerations(spec)
    if request.operation != "CREATE":
        # An update that leaves out computed fields keeps them.
        before = (request.old_object or {}).get("spec") or {}
        for field in ("priority", "preemptionPolicy"):
            if field in before:
                spec.setdefault(field, before[field])
        return
    if runtime_class := spec.get("runtimeClassName"):
        # There are no RuntimeClasses here.
        why = f'pod rejected: RuntimeClass "{runtime_class}" not found'
        raise StatusError.forbidden(request.kind.resource, request.name, why)
    limits.apply_defaults(pod, view.list(LIMIT_RANGES, request.namespace))
    # No token is mounted. A Pod of the embedded cluster runs as a process of the cluster's owner and has the owner's
    # rights anyway, so credentials in every Pod would only be a risk.
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    elif view.get(SERVICE_ACCOUNTS, request.namespace, spec["serviceAccountName"]) is None:
        name, where = spec["serviceAccountName"], request.namespace
        why = f'error looking up service account {where}/{name}: serviceaccount "{name}" not found'
        raise StatusError.forbidden(request.kind.resource, request.name, why)
    _set_priority(request, spec, view)
    if isinstance(pod.get("status"), dict):
        pod["status"]["qosClass"] = qos_class(spec)


def _add_tolerations(spec: dict[str, Any]) -> None:
    """Add the tolerations that keep a Pod for five minutes on an unreachable node (DefaultTolerationSeconds)."""
    present = spec.get("tolerations") or []
    missing = []
    for key in _TOLERATED:
        for one in present:
            if (not one.get("key") or one["key"] == key) and one.get("effect") in (None, "", "NoExecute"):
                break
        else:
            seconds = DEFAULT_TOLERATION_SECONDS
            missing.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    if missing:
        spec["tolerations"] = [*present, *missing]


def _set_priority(request: AdmissionRequest, spec: dict[str, Any], view: StoreView) -> None:
    name = spec.get("priorityClassName")
    value, policy = 0, "PreemptLowerPriority"
    if name:
        found = view.get(resources.PRIORITY_CLASSES, "", name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise StatusError.forbidden(request.kind.resource, request.name, why)
    else:
        defaults = [one for one in view.list(resources.PRIORITY_CLASSES) if one.get("globalDefault")]
        found = min(defaults, key=lambda one: one.get("value", 0), default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    if found is not None:
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    given, given_policy = spec.get("priority"), spec.get("preemptionPolicy")
    for name, asked, computed in (("priority", given, value), ("preemptionPolicy", given_policy, policy)):
        if asked is not None and asked != computed:
            why = f"spec.{name} must not be given; its PriorityClass makes it {computed}, not {asked}"
            raise StatusError.forbidden(request.kind.resource, request.name, why)
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _set_cluster_addresses(request: AdmissionRequest, view: StoreView) -> None:
    name, namespace = request.name, request.namespace
    before = None if request.old_object is None else request.old_object["spec"]
    settle_addresses(request.object["spec"], before)
    others = (
        one
        for one in view.list(resources.SERVICES)
        if (one["metadata"]["namespace"], one["metadata"]["name"]) != (namespace, name)
    )
    causes = addresses.allocate(request.object, others, before)
    if causes:
        raise StatusError.invalid("", "Service", name, causes)


def _set_storage_class(request: AdmissionRequest, view: StoreView) -> None:
    spec = request.object["spec"]
    annotations = request.object["metadata"].get("annotations") or {}
    if "storageClassName" in spec or "volume.beta.kubernetes.io/storage-class" in annotations:
        return
    chosen = [one for one in view.list(resources.STORAGE_CLASSES) if is_default_class(one)]
    if chosen:
        newest = max(chosen, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"]))
        spec["storageClassName"] = newest["metadata"]["name"]


def _check_quotas(request: AdmissionRequest, view: StoreView) -> None:
    resource = request.kind.stored
    if request.operation == "UPDATE" and resource.plural not in ("services", "persistentvolumeclaims"):
        # No other resource of a quota can grow by an update.
        return
    found = list(view.list(QUOTAS, request.namespace))
    if not found:
        return
    counted = quotas.usage(resource, request.object)
    if request.old_object is not None:
        before = quotas.usage(resource, request.old_object)
        counted = {name: amount - before.get(name, 0) for name, amount in counted.items()}
    is_pod = resource == resources.PODS
    for quota in found:
        if not quotas.matches(quota, resource, request.object):
            continue
        if is_pod:
            why = quotas.missing_requests(quota, request.object)
            if why:
                raise StatusError.forbidden(request.kind.resource, request.name, why)
        if not quotas.concerns(quota, counted):
            continue
        why = quotas.excess(quota, used_now(quota, resource, view), counted)
        if why:
            raise StatusError.forbidden(request.kind.resource, request.name, why)


def used_now(quota: Object, resource: Resource, view: StoreView) -> quotas.Usage:
    """Return the current use of a quota, at least for the resources that objects of this kind count for."""
    known = quotas.cached_usage(quota)
    if known is not None:
        return known
    objects = view.list(resource, quota["metadata"]["namespace"])
    return quotas.total(quota, ((resource, one) for one in objects))
