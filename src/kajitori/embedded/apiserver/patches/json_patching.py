"""JSON patches (RFC 6902) with the deviations of kube-apiserver."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import jsonpatch
import jsonpointer

from kajitori.embedded.apiserver.requests.formats import encode_json
from kajitori.embedded.apiserver.schemas.nesting import check_depth
from kajitori.embedded.apiserver.status import StatusError

_COPIED_BYTES_MAX = 3 << 20


def apply_operations(obj: Any, operations: list[Any]) -> Any:
    """Return a copy of the object with the operations applied.

    Raises:
        StatusError: 413, they copy too much.
        TooDeep: the result is nested too deeply.
        jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError: they can't be applied.
    """

    class Copy(_Copy):
        copied = _Copied()

    class JsonPatch(jsonpatch.JsonPatch):
        operations = MappingProxyType(
            {**jsonpatch.JsonPatch.operations, "copy": Copy, "replace": _Replace, "test": _Test}
        )

    patched = JsonPatch(operations).apply(obj)
    check_depth(patched)
    return patched


class _Copied:
    """Total size that the copies of one patch added. Without a limit, copies of copies would fill the memory."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, value: Any) -> None:
        """Count one more copy.

        Raises:
            StatusError: 413.
            TooDeep: it is nested too deeply.
        """
        check_depth(value)
        self._bytes += len(encode_json(value))
        if self._bytes > _COPIED_BYTES_MAX:
            detail = "Unable to complete the copy, the accumulated size increase of copy is"
            why = f"{detail} {self._bytes}, exceeding the limit {_COPIED_BYTES_MAX}"
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


class _Copy(jsonpatch.CopyOperation):
    """Copies null if the source member is missing but its parent exists."""

    copied: _Copied

    def apply(self, obj: Any) -> Any:
        source = jsonpointer.JsonPointer(self.operation["from"])
        parent, name = source.to_last(obj)
        if not isinstance(parent, dict) or name in parent:
            self.copied.add(source.resolve(obj))
            return super().apply(obj)
        operation = {"op": "add", "path": self.location, "value": None}
        return jsonpatch.AddOperation(operation, pointer_cls=self.pointer_cls).apply(obj)


class _Replace(jsonpatch.ReplaceOperation):
    """Adds a missing member if its parent exists."""

    def apply(self, obj: Any) -> Any:
        parent, name = self.pointer.to_last(obj)
        if name is None or not isinstance(parent, dict) or name in parent:
            return super().apply(obj)
        return jsonpatch.AddOperation(self.operation, pointer_cls=self.pointer_cls).apply(obj)


class _Test(jsonpatch.TestOperation):
    """Treats a missing member as null."""

    def apply(self, obj: Any) -> Any:
        parent, name = self.pointer.to_last(obj)
        absent = name is not None and isinstance(parent, dict) and name not in parent
        if absent and self.operation.get("value", "") is None:
            return obj
        return super().apply(obj)
