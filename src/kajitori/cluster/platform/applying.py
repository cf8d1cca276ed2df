"""Applies rendered objects to a cluster by server-side apply, and removes them again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from kajitori.errors import NotFound, Unavailable
from kajitori.install.parts.objects import Identity, Object, identity
from kajitori.kube import resources
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import CUSTOM_RESOURCES, Resource

KINDS = {
    (resource.group, resource.kind): resource
    for resource in (
        resources.CERTIFICATES,
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
        resources.CONFIG_MAPS,
        resources.CRON_JOBS,
        resources.CUSTOM_RESOURCES,
        resources.DAEMON_SETS,
        resources.DEPLOYMENTS,
        resources.FLOW_SCHEMAS,
        resources.BUDGETS,
        resources.NAMESPACES,
        resources.NETWORK_POLICIES,
        resources.PRIORITY_CLASSES,
        resources.PRIORITY_LEVELS,
        resources.POD_MONITORS,
        resources.PROMETHEUS_RULES,
        resources.ROLES,
        resources.ROLE_BINDINGS,
        resources.SECRETS,
        resources.SERVICES,
        resources.SERVICE_ACCOUNTS,
        resources.VALIDATING_BINDINGS,
        resources.VALIDATING_POLICIES,
    )
}
"""Every kind that is rendered, by group and kind."""

FIELD_MANAGER = "kajitori"
_TRIES = 300
_PAUSE_SECONDS = 0.1
_BY_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


class Change(StrEnum):
    """The effect of applying an object, or of a dry run."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


def resource_of(document: Mapping[str, Any]) -> Resource:
    """Return where the API server keeps such an object."""
    return resource_for(identity(document))


def resource_for(one: Identity) -> Resource:
    """Return where the API server keeps the object."""
    return KINDS[one.group, one.kind]


async def apply(client: KubeClient, document: Mapping[str, Any], *, dry_run: bool = False) -> Change:
    """Apply an object, and return what that changed. Fields that other clients set, and that the object does not name,
    stay.

    Raises NotFound if its namespace does not exist, and the API server's other refusals.
    """
    before = await find(client, identity(document))
    after = await put(client, resource_of(document), document, dry_run=dry_run)
    if before is None:
        return Change.CREATED
    return Change.UNCHANGED if _without_metadata(before) == _without_metadata(after) else Change.CHANGED


async def put(client: KubeClient, resource: Resource, document: Mapping[str, Any], *, dry_run: bool = False) -> Object:
    """Apply an object, and take over fields that other clients have set. Return the object as the API server answers
    it."""
    return await client.patch(
        resource,
        document["metadata"]["name"],
        document,
        document["metadata"].get("namespace"),
        kind=PatchKind.APPLY,
        field_manager=FIELD_MANAGER,
        force=True,
        dry_run=dry_run,
    )


async def find(client: KubeClient, one: Identity) -> Object | None:
    """Return the object as it is stored; None if there is none, or the API server has no such kind."""
    try:
        return await client.get(resource_for(one), one.name, one.namespace or None)
    except NotFound:
        return None


async def remove(client: KubeClient, one: Identity) -> bool:
    """Delete an object and what it owns; return whether there was one."""
    try:
        await client.delete(resource_for(one), one.name, one.namespace or None, propagation="Background")
    except NotFound:
        return False
    return True


async def wait_established(client: KubeClient, name: str) -> None:
    """Return when a custom resource is served: kube-apiserver answers 404 for a moment after it has established it.

    Raises Unavailable if it is not served within half a minute.
    """
    for _ in range(_TRIES):
        found = await client.get(CUSTOM_RESOURCES, name)
        conditions = (found.get("status") or {}).get("conditions") or ()
        established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        if established and await is_served(client, *_kinds_of(found["spec"])):
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable(
        f"the cluster took the custom resource {name} but does not serve it", hint="look at its conditions"
    )


async def is_served(client: KubeClient, *kinds: tuple[str, str]) -> bool:
    """Return whether the cluster serves these kinds (API version and plural); every authenticated user may ask that."""
    for api_version, plural in kinds:
        try:
            found = msgspec.json.decode(await client.request("GET", f"/apis/{api_version}"))
        except NotFound:
            return False
        if not any(resource.get("name") == plural for resource in found.get("resources", ())):
            return False
    return True


def _kinds_of(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the API versions of a custom resource that its definition wants to be served, each with its plural."""
    versions = [version["name"] for version in definition["versions"] if version["served"]]
    return [(f"{definition['group']}/{version}", definition["names"]["plural"]) for version in versions]


async def wait_gone(client: KubeClient, one: Identity, seconds: float) -> bool:
    """Return whether an object is gone within this time."""
    for _ in range(max(1, int(seconds / _PAUSE_SECONDS))):
        if await find(client, one) is None:
            return True
        await asyncio.sleep(_PAUSE_SECONDS)
    return False


def _without_metadata(document: Mapping[str, Any]) -> Object:
    """Return an object without what the API server and controllers write."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _BY_SERVER}
    rest = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata}
