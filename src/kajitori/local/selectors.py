"""The operators that label and node selectors share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def holds(key: str, operator: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil one requirement; an operator that is not known matches nothing."""
    value = labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
