"""What is wrong with an object, field by field, in Kubernetes' own words (k8s.io/apimachinery `field.Error`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kajitori.core.words.texts import go_quoted


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of an object, as it stands in `details.causes` of a Status.

    `str(cause)` is how it stands in the Status' message: `spec.containers[0].image: Required value`.
    """

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def as_dict(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def shown(value: Any) -> str:
    """A value as Kubernetes' messages show it: text quoted, structures as JSON."""
    if isinstance(value, str):
        return go_quoted(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def required(field: str, detail: str = "") -> Cause:
    """A field that must be given is not there."""
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> Cause:
    """A value that can't be."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def duplicate(field: str, value: Any, detail: str = "") -> Cause:
    """A value that must be unique stands there twice."""
    said = f"Duplicate value: {shown(value)}"
    return Cause("FieldValueDuplicate", field, f"{said}: {detail}" if detail else said)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """A value outside a closed set."""
    values = ", ".join(shown(one) for one in supported)
    return Cause("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {values}")


def forbidden(field: str, detail: str) -> Cause:
    """A field that may not be set, or not be changed."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(field: str, value: Any) -> Cause:
    """A value that names something which does not exist."""
    return Cause("FieldValueNotFound", field, f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> Cause:
    """A text, or a sum of texts, over its limit in bytes."""
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


IMMUTABLE = "field is immutable"
