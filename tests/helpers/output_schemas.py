"""The JSON schemas of the reference, for documents that verbs print."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from kajitori.cli.help.contract import SCHEMAS


@cache
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parents[2] / SCHEMAS).read_text(encoding="utf-8"))
    return found


def check_output(document: object, where: str, *, complete: bool = False) -> None:
    """Raise ValidationError if a document does not fit the schema at this place of the file, such as `verbs/ps`.

    With `complete` a field that the schema does not name is an error too.
    """
    parts = {"$defs": schemas()["$defs"], "verbs": schemas()["verbs"]}
    schema = {"$ref": f"#/{where.replace(' ', '%20')}", **(_closed(parts) if complete else parts)}
    jsonschema.Draft202012Validator(schema).validate(document)


def _closed(schema: Any) -> Any:
    """Return the schema with `additionalProperties: false` in every object that names its fields."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {word: _closed(part) for word, part in schema.items()}
    is_object = schema.get("type") == "object" and "properties" in schema
    return {"additionalProperties": False, **closed} if is_object else closed
