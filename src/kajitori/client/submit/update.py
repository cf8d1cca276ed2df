"""The fields of a run that `kaji update` and `Client.update` change while it waits or runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kajitori.errors import InvalidInput

DEFAULT = "default"
"""The word that removes a field, so that policy's default applies."""

FIELDS = {
    "time_limit": "timeLimit",
    "priority": "priority",
    "restarts": "restarts",
    "array": "array",
    "rm_after": "removeAfter",
    "on_stuck": "onStuck",
}
"""Fields of the spec by the names of options and keywords."""


def update_body(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return the body of the request. Changes that are None are left out. Raises InvalidInput for unknown names, and if
    nothing is left."""
    known = ", ".join(FIELDS)
    if unknown := [name for name in changes if name not in FIELDS]:
        raise InvalidInput.one(unknown[0], "can't be changed while a run waits or runs", hint=f"known: {known}")
    body = {FIELDS[name]: _value(name, value) for name, value in changes.items() if value is not None}
    if not body:
        raise InvalidInput.one("", "nothing is to be changed", hint=f"name at least one of {known}")
    return body


def in_words(error: InvalidInput, word_of: Callable[[str], str]) -> InvalidInput:
    """Return the error with the caller's word for each field of the request; `word_of` makes it of a name in FIELDS."""
    return error.renamed({field: word_of(name) for name, field in FIELDS.items()})


def _value(name: str, value: object) -> object:
    if value == DEFAULT:
        return None
    if name == "restarts" and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value
