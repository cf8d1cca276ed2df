"""The JSON schemas of the reference, for documents that verbs print."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from kajitori.cli.contract import SCHEMAS


@cache
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parents[2] / SCHEMAS).read_text(encoding="utf-8"))
    return found


def check_output(document: object, where: str) -> None:
    """Raise ValidationError if a document does not fit the schema at this place of the file, such as `verbs/ps`."""
    schema = {"$ref": f"#/{where.replace(' ', '%20')}", "$defs": schemas()["$defs"], "verbs": schemas()["verbs"]}
    jsonschema.Draft202012Validator(schema).validate(document)
