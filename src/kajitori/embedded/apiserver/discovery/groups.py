"""Discovery: groups, versions and resources that are served, and the version of Kubernetes."""

from __future__ import annotations

import platform
import sys
from typing import Any

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.strategies.custom_kinds.definitions import version_priority

AGGREGATED_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type of aggregated discovery, for clients that accept g=apidiscovery.k8s.io;v=v2."""

KUBERNETES_MINOR = 36
"""The minor version of Kubernetes that the kinds, defaults and answers were compared with."""

_SUBRESOURCE_VERBS = {
    "binding": ("create",),
    "eviction": ("create",),
    "token": ("create",),
    "log": ("get",),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
    "finalize": ("update",),
}
_SUBRESOURCE_KINDS = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": ("", "", "PodExecOptions"),
    "attach": ("", "", "PodAttachOptions"),
    "portforward": ("", "", "PodPortForwardOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_STATUS_VERBS = ("get", "patch", "update")
_RESPONSE = ("group", "version", "kind")


def wants_aggregated(accept: str) -> bool:
    """Return whether an Accept header asks for aggregated discovery in the version that is served."""
    for choice in accept.split(","):
        parts = {one.strip() for one in choice.split(";")}
        if {"g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"} <= parts and "application/json" in parts:
            return True
    return False


def api_versions(registry: KindRegistry, address: str) -> dict[str, Any]:
    """Answer GET /api; `address` is host:port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_groups(registry: KindRegistry) -> dict[str, Any]:
    """Answer GET /apis."""
    groups = [_group_document(group, versions) for group, versions in _versions_by_group(registry).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: KindRegistry, group: str) -> dict[str, Any] | None:
    """Answer GET /apis/{group}; None if there is no such group."""
    versions = _versions_by_group(registry).get(group)
    if not group or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_document(group, versions)}


def api_resources(registry: KindRegistry, group: str, version: str) -> dict[str, Any] | None:
    """Answer GET /api/v1 or /apis/{group}/{version}; None if there is no such version."""
    kinds = _kinds_of(registry, group, version)
    if not kinds:
        return None
    resources: list[dict[str, Any]] = []
    for kind in kinds:
        resources.append(_resource_document(kind))
        resources += [_subresource_document(kind, name) for name in sorted(kind.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def aggregated(registry: KindRegistry, *, core: bool) -> dict[str, Any]:
    """Answer GET /api (core) or /apis as an APIGroupDiscoveryList."""
    items = []
    for group, versions in _versions_by_group(registry).items():
        if bool(group) == core:
            continue
        items.append(
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_document(kind) for kind in _kinds_of(registry, group, version)],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
        )
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def version() -> dict[str, str]:
    """Answer GET /version. The name of the build says that this is not a full Kubernetes."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": str(KUBERNETES_MINOR),
        "gitVersion": f"v1.{KUBERNETES_MINOR}.0+kajitori",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{sys.platform}/{machine}",
    }


def _versions_by_group(registry: KindRegistry) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred one first."""
    found: dict[str, set[str]] = {}
    for kind in registry.all():
        found.setdefault(kind.resource.group, set()).add(kind.resource.version)
    return {group: sorted(versions, key=version_priority) for group, versions in found.items()}


def _kinds_of(registry: KindRegistry, group: str, version: str) -> list[Kind]:
    found = [one for one in registry.all() if (one.resource.group, one.resource.version) == (group, version)]
    return sorted(found, key=lambda one: one.resource.plural)


def _group_document(group: str, versions: list[str]) -> dict[str, Any]:
    shown = [{"groupVersion": f"{group}/{one}", "version": one} for one in versions]
    return {"name": group, "versions": shown, "preferredVersion": shown[0]}


def _resource_document(kind: Kind) -> dict[str, Any]:
    resource = kind.resource
    return {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
        **_optional_names(kind),
    }


def _optional_names(kind: Kind) -> dict[str, Any]:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: values for name, values in names.items() if values}


def _subresource_document(kind: Kind, name: str) -> dict[str, Any]:
    group, version_name, responds = _SUBRESOURCE_KINDS.get(name, ("", "", kind.resource.kind))
    return {
        "name": f"{kind.resource.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        "kind": responds,
        "verbs": list(_SUBRESOURCE_VERBS.get(name, _STATUS_VERBS)),
        **({"group": group, "version": version_name} if group else {}),
    }


def _aggregated_document(kind: Kind) -> dict[str, Any]:
    resource = kind.resource
    own = (resource.group, resource.version, resource.kind)
    parts = [
        {
            "subresource": name,
            "responseKind": dict(zip(_RESPONSE, _SUBRESOURCE_KINDS.get(name, own), strict=True)),
            "verbs": list(_SUBRESOURCE_VERBS.get(name, _STATUS_VERBS)),
        }
        for name in sorted(kind.subresources)
    ]
    return {
        "resource": resource.plural,
        "responseKind": dict(zip(_RESPONSE, own, strict=True)),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_optional_names(kind),
        **({"subresources": parts} if parts else {}),
    }
