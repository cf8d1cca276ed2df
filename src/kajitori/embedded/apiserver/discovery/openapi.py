"""OpenAPI documents. `kubectl explain` reads /openapi/v3, which also tells kubectl that the server validates fields and
applies patches.

/openapi/v2 describes no kind. kubectl asks it about kinds that version 3 lacks, such as a List, and then leaves the
validation to the server.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from kajitori.embedded.apiserver.discovery.groups import KUBERNETES_MINOR
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import NULL, Schema

Document = dict[str, Any]
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_GVK = "x-kubernetes-group-version-kind"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_COMMON: dict[str, Document] = {
    _QUANTITY: {
        "description": "Quantity is a fixed-point representation of a number: 500m, 2, 1Gi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _INT_OR_STRING: {
        "description": "IntOrString is a type that can hold an int or a string.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    _TIME: {"description": "A time in RFC 3339, in seconds.", "type": "string", "format": "date-time"},
    _MICRO_TIME: {"description": "A time in RFC 3339, in microseconds.", "type": "string", "format": "date-time"},
    _LIST_META: {
        "description": "ListMeta describes metadata that synthetic resources must have, including lists.",
        "type": "object",
        "properties": {
            "continue": {"type": "string", "description": "Set if there are more objects than were asked for."},
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
        },
    },
}
_SCALARS: dict[str, Document] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
}
_REFERRED = {"quantity": _QUANTITY, "time": _TIME, "microtime": _MICRO_TIME}
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def empty_v2(accept: str) -> tuple[str, bytes]:
    """Return the media type and body of a description in version 2 without kinds. It is protobuf, which is then empty,
    for clients that accept it, and JSON for all others."""
    if "proto-openapi.spec.v2" in accept:
        return _V2_PROTOBUF, b""
    info = {"title": "Kubernetes", "version": f"v1.{KUBERNETES_MINOR}"}
    return "application/json", msgspec.json.encode({"swagger": "2.0", "info": info, "paths": {}})


class OpenApi:
    """The OpenAPI documents, built on first use and kept until the registry changes."""

    def __init__(self, registry: KindRegistry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def v3_index(self) -> bytes:
        """Answer GET /openapi/v3: the paths of the documents with their hashes."""
        return self._cached_document("v3", self._index_document)

    def v3(self, path: str) -> bytes | None:
        """Answer GET /openapi/v3/{path} (`api/v1`, `apis/{group}/{version}`) as JSON; None if there is no such path."""
        kinds = [one for one in self._registry.all() if _group_path(one) == path]
        return self._cached_document(f"v3/{path}", lambda: _document_v3(kinds)) if kinds else None

    def _cached_document(self, key: str, build: Any) -> bytes:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()
        if key not in self._documents:
            self._documents[key] = msgspec.json.encode(build())
        return self._documents[key]

    def _index_document(self) -> Document:
        paths: dict[str, Document] = {}
        for kind in self._registry.all():
            path = _group_path(kind)
            if path not in paths:
                # Clients cache a document by its hash. The hash is computed from the definitions of the kinds, so that
                # the document need not be built for it.
                kinds = [one for one in self._registry.all() if _group_path(one) == path]
                detail = msgspec.json.encode([str(KUBERNETES_MINOR), *(_kind_fingerprint(one) for one in kinds)])
                digest = hashlib.sha256(detail).hexdigest().upper()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}


def _kind_fingerprint(kind: Kind) -> Any:
    custom = (kind.custom or {}).get("spec")
    return [kind.resource.api_version, kind.resource.kind, sorted(kind.subresources), custom]


def _group_path(kind: Kind) -> str:
    resource = kind.resource
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _info_section() -> Document:
    return {"title": "Kubernetes", "version": f"v1.{KUBERNETES_MINOR}.0"}


def _document_v3(kinds: list[Kind]) -> Document:
    writer = _Writer()
    paths: Document = {}
    for kind in kinds:
        _add_paths(paths, kind, writer)
    return {"openapi": "3.0.0", "info": _info_section(), "paths": paths, "components": {"schemas": writer.finished()}}


class _Writer:
    """Collects the types that documents refer to."""

    def __init__(self) -> None:
        self._types: dict[str, Document] = {}

    def finished(self) -> dict[str, Document]:
        return dict(sorted(self._types.items()))

    def reference(self, name: str) -> Document:
        return {"$ref": f"#/components/schemas/{name}"}

    def kind(self, kind: Kind) -> tuple[str, str]:
        """Add a kind and its list, and return their names."""
        schema = kind.schema
        resource = kind.resource
        name = schema.reference or ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        self._types[name] = {**self._structure_document(schema), _GVK: [gvk]}
        list_name = f"{name}List"
        if not kind.virtual:
            self._add_common(_LIST_META)
            self._types[list_name] = {
                "description": f"{resource.kind}List is a list of {resource.kind}.",
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": self._described_reference(_LIST_META, ""),
                    "items": {"type": "array", "items": self._described_reference(name, "")},
                },
                _GVK: [{**gvk, "kind": f"{resource.kind}List"}],
            }
        return name, list_name

    def _add_common(self, name: str) -> None:
        self._types.setdefault(name, _COMMON[name])

    def _described_reference(self, name: str, description: str) -> Document:
        """Add a description to a reference: OpenAPI allows nothing beside a `$ref`, hence `allOf`."""
        return {"allOf": [self.reference(name)], **({"description": description} if description else {})}

    def _schema_document(self, schema: Schema) -> Document:
        if schema.reference and schema.type == "object":
            if schema.reference not in self._types:
                self._types[schema.reference] = {}
                self._types[schema.reference] = self._structure_document(schema)
            return {
                **self._described_reference(schema.reference, schema.description),
                **_kubernetes_extensions(schema, inline=False),
            }
        if schema.type in _REFERRED:
            name = _REFERRED[schema.type]
            self._add_common(name)
            return self._described_reference(name, schema.description)
        return self._structure_document(schema)

    def _structure_document(self, schema: Schema) -> Document:
        document: Document = {}
        if schema.description:
            document["description"] = schema.description
        if schema.type == "intorstring":
            document["x-kubernetes-int-or-string"] = True
            document["oneOf"] = [{"type": "integer"}, {"type": "string"}]
        elif schema.type in _SCALARS:
            document.update(_SCALARS[schema.type])
        elif schema.type == "array":
            document["type"] = "array"
            document["items"] = self._schema_document(schema.items) if schema.items is not None else {}
        elif schema.type in ("object", "map"):
            document["type"] = "object"
        if schema.properties:
            document["properties"] = {name: self._schema_document(part) for name, part in schema.properties.items()}
        if schema.type == "map" and schema.items is not None:
            document["additionalProperties"] = self._schema_document(schema.items)
        if schema.required:
            document["required"] = list(schema.required)
        if schema.default is not None and schema.default is not NULL:
            document["default"] = schema.default
        if schema.nullable:
            document["nullable"] = True
        document.update(schema.constraints)
        document.update(_kubernetes_extensions(schema, inline=True))
        return document


def _kubernetes_extensions(schema: Schema, *, inline: bool) -> Document:
    found: Document = {}
    if schema.type == "array" and inline:
        found["x-kubernetes-list-type"] = schema.list_type
        if schema.list_map_keys:
            found["x-kubernetes-list-map-keys"] = list(schema.list_map_keys)
    if schema.map_type == "atomic":
        found["x-kubernetes-map-type"] = "atomic"
    if schema.patch_merge_key:
        found["x-kubernetes-patch-merge-key"] = schema.patch_merge_key
    if schema.patch_strategy:
        found["x-kubernetes-patch-strategy"] = ",".join(schema.patch_strategy)
    if schema.preserve_unknown and (schema.type != "any" or not schema.reference):
        found["x-kubernetes-preserve-unknown-fields"] = True
    if schema.embedded_resource:
        found["x-kubernetes-embedded-resource"] = True
    return found


def _add_paths(paths: Document, kind: Kind, writer: _Writer) -> None:
    name, list_name = writer.kind(kind)
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    collection = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection = f"{collection}/{resource.plural}"
    own = writer.reference(name)

    def add(path: str, verbs: dict[str, tuple[str, Document]]) -> None:
        shown: Document = {"parameters": _path_parameters(path)}
        for method, (action, answer) in verbs.items():
            shown[method] = _operation_object(kind, method, action, answer, own)
        paths[path] = shown

    if kind.virtual:
        add(collection, {"post": ("post", own)})
        return
    every = writer.reference(list_name)
    at_collection = {"get": ("list", every), "post": ("post", own)}
    if "deletecollection" in kind.verbs:
        at_collection["delete"] = ("deletecollection", own)
    add(collection, at_collection)
    if resource.namespaced:
        add(f"{root}/{resource.plural}", {"get": ("list", every)})
    item = {"get": ("get", own), "put": ("put", own), "patch": ("patch", own), "delete": ("delete", own)}
    add(f"{collection}/{{name}}", item)
    if "status" in kind.subresources:
        add(f"{collection}/{{name}}/status", {method: item[method] for method in ("get", "put", "patch")})


def _path_parameters(path: str) -> list[Document]:
    names = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(method: str) -> list[Document]:
    names = {"post": _WRITE_PARAMETERS, "put": _WRITE_PARAMETERS, "patch": (*_WRITE_PARAMETERS, "force")}
    types = {"force": "boolean"}
    return [
        {"name": name, "in": "query", "schema": {"type": types.get(name, "string")}} for name in names.get(method, ())
    ]


def _operation_object(kind: Kind, method: str, action: str, answer: Document, own: Document) -> Document:
    resource = kind.resource
    operation: Document = {
        "tags": [f"{resource.group.partition('.')[0] or 'core'}_{resource.version}"],
        "x-kubernetes-action": action,
        _GVK: {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "parameters": _query_parameters(method),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}},
    }
    if method in ("post", "put"):
        operation["requestBody"] = {"content": {"*/*": {"schema": own}}}
    elif method == "patch":
        taken = [one for one in _PATCH_TYPES if kind.custom is None or "strategic" not in one]
        operation["requestBody"] = {"content": {one: {"schema": {"type": "object"}} for one in taken}}
    return operation
