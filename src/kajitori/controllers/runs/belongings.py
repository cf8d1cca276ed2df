"""What a run has one of: its Service and its budget against evictions, which have its name; a request for nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kajitori.core.words import names
from kajitori.errors import AlreadyExists, Conflict, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import Resource


async def ensure_of_run(
    client: KubeClient, resource: Resource, body: Mapping[str, Any], run: RunObject
) -> dict[str, Any]:
    """The run's object of this kind, made now or by somebody before us; what an earlier run of its name left behind
    makes way.

    Raises AlreadyExists where anybody else's has that name, and what the API server says to its creation.
    """
    name, namespace = body["metadata"]["name"], run.metadata.namespace
    try:
        return await client.create(resource, body, namespace)
    except AlreadyExists:
        with suppress(NotFound, Conflict):  # it went meanwhile
            found = await client.get(resource, name, namespace)
            owner = owning_run(found)
            if not owner:
                raise AlreadyExists(f"{resource.kind} {name} belongs to something else") from None
            if owner == run.metadata.uid:
                return found
            await client.delete(resource, name, namespace, uid=found["metadata"]["uid"])
    return await client.create(resource, body, namespace)


def owning_run(found: Mapping[str, Any]) -> str:
    """The UID of the run that an object belongs to; empty where it belongs to none."""
    for reference in found["metadata"].get("ownerReferences", ()):
        if reference.get("kind") == names.KIND and reference.get("apiVersion") == names.API_VERSION:
            return str(reference["uid"])
    return ""
