"""Schemas of kinds: types, merge keys, list types. Patches, pruning, OpenAPI and `kubectl explain` use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

Object = dict[str, Any]
"""An object of the API, decoded from JSON."""

ABSENT: Any = object()
"""Marks a missing stored value."""
NULL: Any = object()
"""Marks the default `null` of a field that is always written."""
_encode = msgspec.json.Encoder().encode
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One node of a schema."""

    type: str = "any"
    """"object" (named properties), "map" (free keys, values are `items`), "array", "string", "integer", "number",
    "boolean", "quantity", "intorstring", "time", "microtime", "bytes" (base64), "any"."""
    properties: Mapping[str, Schema] = field(default_factory=lambda: _EMPTY)
    items: Schema | None = None
    list_type: str = "atomic"
    """Server-side apply: "atomic" | "set" | "map"."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    """Server-side apply, objects and maps: "granular" | "atomic"."""
    patch_merge_key: str = ""
    patch_strategy: tuple[str, ...] = ()
    """Strategic merge patch: "merge", "replace", "retainKeys"."""
    required: tuple[str, ...] = ()
    preserve_unknown: bool = False
    """Whether fields that the schema does not name are kept."""
    description: str = ""
    nullable: bool = False
    default: Any = None
    """The default of a missing field; None if there is none, NULL if it is null."""
    constraints: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """Value validations of custom resources, as in the definition: enum, pattern, minimum, oneOf, format …"""
    embedded_resource: bool = False
    """x-kubernetes-embedded-resource: apiVersion, kind and metadata are always kept."""
    reference: str = ""
    """Name of the type in OpenAPI (`io.k8s.api.core.v1.Container`); empty for inline types."""


ANY = Schema(preserve_unknown=True)
"""A schema that keeps every value."""


def is_same(new: Any, old: Any) -> bool:
    """Return whether a value is the stored one, with the same types throughout (`1` and `true` are equal in Python)."""
    return old is not ABSENT and new == old and _encode(new) == _encode(old)


def stored_part(schema: Schema, old: Any, part: Any) -> Any:
    """Return the stored counterpart of a part of a new value, or ABSENT.

    `part` is the name of a property or the key of a map. For a list it is the new item, and the list's keys find the
    stored item.
    """
    if type(old) is dict and type(part) is str:
        return old.get(part, ABSENT)
    if type(old) is not list or schema.list_type != "map" or type(part) is not dict:
        return ABSENT
    keys = schema.list_map_keys
    same = (one for one in old if type(one) is dict and all(one.get(key) == part.get(key) for key in keys))
    return next(same, ABSENT)
