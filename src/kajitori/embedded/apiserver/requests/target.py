"""The target of a URL: kind, namespace, name, subresource."""

from __future__ import annotations

from dataclasses import dataclass

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError

LEFT_OUT = {
    "": frozenset({"replicationcontrollers"}),
    "apps": frozenset({"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"}),
    "autoscaling": frozenset({"horizontalpodautoscalers"}),
    "batch": frozenset({"cronjobs", "jobs"}),
    "networking.k8s.io": frozenset({"ingressclasses", "ingresses"}),
    "rbac.authorization.k8s.io": frozenset({"clusterrolebindings", "clusterroles", "rolebindings", "roles"}),
}
"""Kinds of Kubernetes that are not served because nothing here would act on them, by API group."""


@dataclass(frozen=True, slots=True)
class Target:
    """The collection, object or subresource under a URL path."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    below: str = ""
    """The part of the path behind `proxy`: a path of the kubelet's API."""


def find_target(registry: KindRegistry, path: str) -> Target | None:
    """Return the target of a path; None if the path belongs to no group that is served.

    Raises:
        StatusError: 404, there is such a group, but no such version, resource or subresource in it.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    target = _target_of(registry, group, version, rest)
    if target is not None:
        return target
    nodes = registry.find(group, version, rest[0]) if rest[0] == "nodes" and len(rest) > 3 else None
    if nodes is not None and not group and rest[2] == "proxy":
        return Target(nodes, name=rest[1], subresource="proxy", below="/".join(rest[3:]))
    plural = next(iter(rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest), "")
    if plural in LEFT_OUT.get(group, ()):
        raise StatusError.not_served(plural, group)
    if is_built_in(registry, group) or registry.find(group, version, plural) is not None:
        raise StatusError.unknown_path()
    return None


def is_built_in(registry: KindRegistry, group: str) -> bool:
    """Return whether a group is built in, rather than a custom resource's."""
    return any(one.resource.group == group and one.custom is None for one in registry.all())


def _target_of(registry: KindRegistry, group: str, version: str, rest: list[str]) -> Target | None:
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        kind = registry.find(group, version, rest[2])
        if kind is not None and kind.resource.namespaced:
            namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or not all(rest):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in kind.subresources:
        return None
    if name and kind.resource.namespaced and not namespace:
        return None
    return Target(kind, namespace, name, subresource)


def check_namespace(obj: Object, target: Target) -> None:
    """Set the namespace of the URL.

    Raises:
        StatusError: 400, the object says another.
    """
    meta = obj["metadata"]
    if not target.kind.resource.namespaced:
        # A namespace in an object that is not namespaced is dropped silently.
        meta.pop("namespace", None)
        return
    if meta.get("namespace") not in (None, "", target.namespace):
        raise StatusError.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = target.namespace


def check_name(obj: Object, target: Target) -> None:
    """Check that the object has the name of the URL.

    Raises:
        StatusError: 400, the object has no name, or another one.
    """
    name = obj["metadata"].get("name") or ""
    if not name:
        raise StatusError.bad_request("metadata.name is missing")
    if name != target.name:
        raise StatusError.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
