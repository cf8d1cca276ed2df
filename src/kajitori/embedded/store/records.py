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

EVENT_OVERHEAD_BYTES = 600
"""Approximate memory of an event and its record beside the object's JSON: names, labels, values of selected fields."""

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
        """The decoded object, which is shared and must not be changed. It takes five times the memory of its JSON, so
        the store forgets it after a while."""
        if self._object is None:
            self._object = self.decode()
        return self._object

    def forget_object(self) -> None:
        """Release the memory of the decoded object. It is decoded again when it is needed."""
        self._object = None

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

    __slots__ = ("_encoded", "at", "previous", "record", "revision", "type")

    def __init__(self, kind: EventType, record: Record, previous: Record | None) -> None:
        self.type = kind
        self.record = record
        self.previous = previous
        self.revision = record.revision
        self.at = time.monotonic()
        self._encoded: dict[Any, bytes] | None = {}
        """Encoded forms of the event; None once watchers have had time to take it."""

    @property
    def size_bytes(self) -> int:
        """Approximate memory use in bytes, after `forget_forms`."""
        return len(self.record.value) + EVENT_OVERHEAD_BYTES

    def encoded(self, form: Any) -> bytes | None:
        """Return an encoded form that another watcher made; None if there is none."""
        return None if self._encoded is None else self._encoded.get(form)

    def share_encoded(self, form: Any, content: bytes) -> None:
        """Keep an encoded form for other watchers, if the event is new."""
        if self._encoded is not None:
            self._encoded[form] = content

    def forget_forms(self) -> None:
        """Release the encoded forms, and the decoded objects that no longer exist in the store."""
        self._encoded = None
        if self.previous is not None:
            self.previous.forget_object()
        if self.type is DELETED:
            self.record.forget_object()

    def __repr__(self) -> str:
        return f"Event({self.type} {self.record!r})"


def encode(obj: Object, revision: int) -> bytes:
    """Encode an object for storage at a revision, which is written into its metadata, in place."""
    obj["metadata"]["resourceVersion"] = str(revision)
    first = {"kind": obj.get("kind", ""), "apiVersion": obj.get("apiVersion", ""), "metadata": obj["metadata"]}
    return _encode({**first, **{name: value for name, value in obj.items() if name not in first}})
