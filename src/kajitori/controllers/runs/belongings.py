"""Objects that a run owns, one of each kind with the run's name: Service, disruption budget, NetworkPolicy, others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.errors import AlreadyExists, Conflict, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import Resource


async def ensure_of_run(
    client: KubeClient, resource: Resource, body: Mapping[str, Any], run: RunObject
) -> dict[str, Any]:
    """Return the run's object of this kind, created now if it does not exist.

    The object of an earlier run of the same name is replaced. Raises AlreadyExists if an object with another owner has
    the name, and the API server's error if it refuses the creation.
    """
    name, namespace = body["metadata"]["name"], run.metadata.namespace
    try:
        return await client.create(resource, body, namespace)
    except AlreadyExists:
        with suppress(NotFound, Conflict):  # it was deleted meanwhile
            found = await client.get(resource, name, namespace)
            owner = owning_run(found)
            if not owner:
                raise AlreadyExists(f"{resource.kind} {name} belongs to something else") from None
            if owner == run.metadata.uid:
                return found
            await client.delete(resource, name, namespace, uid=found["metadata"]["uid"])
    return await client.create(resource, body, namespace)


def owning_run(found: Mapping[str, Any]) -> str:
    """Return the UID of the run that owns an object; empty if no run does."""
    for reference in found["metadata"].get("ownerReferences", ()):
        if reference.get("kind") == names.KIND and reference.get("apiVersion") == names.API_VERSION:
            return str(reference["uid"])
    return ""
