"""Label selectors inside objects."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, required
from kajitori.embedded.apiserver.metadata import validate_labels


def label_selector(selector: dict[str, Any], field: str) -> list[Cause]:
    """Every fault of a LabelSelector."""
    causes = validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or []):
        where = f"{field}.matchExpressions[{index}]"
        operator, values = one.get("operator", ""), one.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                causes.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden(f"{where}.values", detail))
        else:
            causes.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        causes += [
            invalid(f"{where}.key", one.get("key", ""), fault) for fault in texts.qualified_name(one.get("key", ""))
        ]
        for position, value in enumerate(values):
            causes += [invalid(f"{where}.values[{position}]", value, fault) for fault in texts.label_value(value)]
    return causes
