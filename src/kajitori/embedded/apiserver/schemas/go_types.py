"""What Go calls things in its messages."""

from __future__ import annotations

from typing import Any


def go_type(value: Any) -> str:
    """What Go's decoder calls the type of a value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "array" if isinstance(value, list) else "object"
