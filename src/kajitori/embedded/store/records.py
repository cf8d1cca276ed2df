"""Records of the store: an object at one revision, and the events between revisions."""

from __future__ import annotations

import time
from typing import Any, Literal, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

ADDED: EventType = "ADDED"
MODIFIED: EventType = "MODIFIED"
DELETED: EventType = "DELETED"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_decode_labels = msgspec.json.Decoder(_Labelled).decode


class Record:
    """One object at one revision. Immutable: a change makes another record."""

    __slots__ = ("_labels", "_object", "fields", "key", "name", "namespace", "resource", "revision", "value")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, value: bytes) -> None:
        self.resource = resource
        """The resource, as `group/plural`."""
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}" if namespace else name
        self.revision = revision
        self.value = value
        """The object as JSON; `kind`, `apiVersion` and `metadata` come first, in this order."""
        self.fields: dict[str, str] | None = None
        """The values for field selectors, set on first selection."""
        self._labels: dict[str, str] | None = None
        self._object: Object | None = None

    def decode(self) -> Object:
        """Return a copy of the object, which the caller may change."""
        decoded: Object = _decode(self.value)
        return decoded

    @property
    def object(self) -> Object:
        """The decoded object, which is shared and must not be changed."""
        if self._object is None:
            self._object = self.decode()
        return self._object

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the object, which are shared and must not be changed."""
        if self._labels is None:
            self._labels = _decode_labels(self.value).metadata.labels or {}
        return self._labels

    def __repr__(self) -> str:
        return f"Record({self.resource} {self.key} @{self.revision})"


class Event:
    """One change. `record` is the stored record since then; for DELETED the last state, at the revision of the
    deletion."""

    __slots__ = ("at", "encoded", "previous", "record", "revision", "type")

    def __init__(self, kind: EventType, record: Record, previous: Record | None) -> None:
        self.type = kind
        self.record = record
        self.previous = previous
        self.revision = record.revision
        self.at = time.monotonic()
        self.encoded: dict[Any, bytes] = {}
        """Encoded forms of the event, shared by all watchers."""

    @property
    def size_bytes(self) -> int:
        """Approximate memory use, in bytes."""
        return len(self.record.value) + 200

    def __repr__(self) -> str:
        return f"Event({self.type} {self.record!r})"


def encode(obj: Object, revision: int) -> bytes:
    """Encode an object for storage at a revision, which is written into its metadata, in place."""
    obj["metadata"]["resourceVersion"] = str(revision)
    first = {"kind": obj.get("kind", ""), "apiVersion": obj.get("apiVersion", ""), "metadata": obj["metadata"]}
    return _encode({**first, **{name: value for name, value in obj.items() if name not in first}})
