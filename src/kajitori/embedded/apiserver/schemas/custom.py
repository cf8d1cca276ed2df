"""Conversion of the schema in a CustomResourceDefinition to a `Schema`."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema

_OWN_KEYS = frozenset(
    {
        "type",
        "properties",
        "additionalProperties",
        "items",
        "required",
        "description",
        "nullable",
        "default",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    }
)


def root_schema(document: dict[str, Any]) -> Schema:
    """Return the schema of a whole object, with the metadata that every object has."""
    schema = convert(document)
    given = (document.get("properties") or {}).get("metadata") or {}
    metadata = model_schema("meta_v1", "ObjectMeta")
    properties = {
        **schema.properties,
        "apiVersion": schema.properties.get("apiVersion") or Schema("string", description=_TEXTS["apiVersion"]),
        "kind": schema.properties.get("kind") or Schema("string", description=_TEXTS["kind"]),
        "metadata": replace(metadata, description=given.get("description") or "Standard object's metadata."),
    }
    return replace(schema, type="object", properties=MappingProxyType(properties))


_TEXTS = {
    "apiVersion": "APIVersion defines the versioned schema of this representation of an object.",
    "kind": "Kind is a string value representing the REST resource this object represents.",
}


def convert(document: dict[str, Any]) -> Schema:
    """Return a structural OpenAPI schema as a `Schema`."""
    items = document.get("items")
    values = document.get("additionalProperties")
    kind = document.get("type", "any")
    if document.get("x-kubernetes-int-or-string"):
        kind = "intorstring"
    elif kind == "object" and values is not None and values is not False:
        kind = "map"
    item: Schema | None = None
    if kind == "map":
        item = convert(values) if isinstance(values, dict) else ANY
    elif isinstance(items, dict):
        item = convert(items)
    properties = {name: convert(part) for name, part in (document.get("properties") or {}).items()}
    embedded = bool(document.get("x-kubernetes-embedded-resource"))
    if embedded:
        for name, part in (("apiVersion", Schema("string")), ("kind", Schema("string")), ("metadata", ANY)):
            properties.setdefault(name, part)
    return Schema(
        kind,
        properties=MappingProxyType(properties),
        items=item,
        list_type=document.get("x-kubernetes-list-type", "atomic"),
        list_map_keys=tuple(document.get("x-kubernetes-list-map-keys") or ()),
        map_type=document.get("x-kubernetes-map-type", "granular"),
        required=tuple(document.get("required") or ()) + (("apiVersion", "kind") if embedded else ()),
        preserve_unknown=bool(document.get("x-kubernetes-preserve-unknown-fields")),
        description=document.get("description", ""),
        nullable=bool(document.get("nullable")),
        default=document.get("default"),
        constraints=MappingProxyType({name: value for name, value in document.items() if name not in _OWN_KEYS}),
        embedded_resource=embedded,
    )
