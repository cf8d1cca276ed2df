"""Faults of objects, field by field, in the form of k8s.io/apimachinery `field.Error`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kajitori.core.kubernetes.texts import go_quoted


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of an object: an entry of `details.causes` in a Status.

    `str(cause)` is its form in the message of the Status: `spec.containers[0].image: Required value`.
    """

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def as_dict(self) -> dict[str, str]:
        """Return the entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def format_value(value: Any) -> str:
    """Return a value for a message: text quoted, structures as JSON."""
    if isinstance(value, str):
        return go_quoted(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def required(field: str, detail: str = "") -> Cause:
    """Return the fault of a missing field."""
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Return the fault of a value that is not allowed."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {format_value(value)}: {detail}")


def duplicate(field: str, value: Any) -> Cause:
    """Return the fault of a repeated value that must be unique."""
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {format_value(value)}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """Return the fault of a value that is not among the supported ones."""
    values = ", ".join(format_value(one) for one in supported)
    message = f"Unsupported value: {format_value(value)}: supported values: {values}"
    return Cause("FieldValueNotSupported", field, message)


def forbidden(field: str, detail: str) -> Cause:
    """Return the fault of a field that must not be set or changed."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(field: str, value: Any) -> Cause:
    """Return the fault of a reference to something that does not exist."""
    return Cause("FieldValueNotFound", field, f"Not found: {format_value(value)}")


def too_long(field: str, limit: int) -> Cause:
    """Return the fault of one or more texts that exceed a limit in bytes."""
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


IMMUTABLE = "field is immutable"
