"""Turns a CustomResourceDefinition into the kinds that it defines."""

from __future__ import annotations

import copy
from functools import partial

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas.custom import root_schema
from kajitori.embedded.apiserver.schemas.defaulting import apply_defaults
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.custom_kinds.custom import CustomStrategy
from kajitori.kube.resources import Resource


def kinds_of(definition: Object) -> list[Kind]:
    """Return one kind for each served version of a definition. All versions share the stored objects."""
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    names = {**spec["names"], **names}
    namespaced = spec.get("scope") == "Namespaced"
    group = spec["group"]
    stored = next(one["name"] for one in spec["versions"] if one.get("storage"))
    storage = Resource(group, stored, names["plural"], names["kind"], namespaced)
    kinds = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        resource = Resource(group, version["name"], names["plural"], names["kind"], namespaced)
        subresources = frozenset(version.get("subresources") or {})
        load = partial(root_schema, (version.get("schema") or {}).get("openAPIV3Schema") or {})
        same = resource.version == stored
        # If the definition was never changed, every stored object has the defaults of this version.
        complete = same and definition["metadata"].get("generation", 1) == 1
        selectable = [one["jsonPath"] for one in version.get("selectableFields") or []]
        strategy = CustomStrategy(load, has_status="status" in subresources, selectable=selectable)
        kinds.append(
            Kind(
                resource,
                names.get("singular") or names["kind"].lower(),
                strategy,
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=subresources,
                storage=None if same else storage,
                to_stored=None if same else partial(_with_version, storage.api_version),
                from_stored=None if complete else partial(_with_defaults, resource.api_version, strategy),
                custom=definition,
            )
        )
    return kinds


def _with_version(api_version: str, obj: Object) -> Object:
    """Return an object in another version (conversion strategy None: only `apiVersion` differs)."""
    return {**obj, "apiVersion": api_version}


def _with_defaults(api_version: str, strategy: CustomStrategy, obj: Object) -> Object:
    """Return a stored object with the defaults that were added to the schema since it was stored."""
    shown = copy.deepcopy(obj)
    apply_defaults(strategy.schema, shown)
    return {**shown, "apiVersion": api_version}


def version_of(kind: Kind) -> Object:
    """Return the version in the definition that a custom kind comes from."""
    versions = (kind.custom or {}).get("spec", {}).get("versions", [])
    return next((one for one in versions if one["name"] == kind.resource.version), {})
