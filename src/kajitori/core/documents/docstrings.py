"""Descriptions of the fields of models, from the docstrings below the fields.

Pydantic can read them too (`use_attribute_docstrings`), but then every process that imports a model parses its source,
which took a fifth of the processor time of an import of `kaji up`. Only documentation needs them: JSON schemas, the
OpenAPI document and the reference pages. They are read when one of those is made.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Described:
    """Base of a model, beside pydantic's: the docstring below each field is its description in JSON schemas."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> JsonSchemaValue:
        model = cast(type[BaseModel], cls)
        schema = handler(core_schema)
        properties: dict[str, Any] = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_descriptions(model).items():
            field = model.model_fields[name]
            described = properties.get(name) or properties.get(field.alias or name)
            if described is not None:
                described.setdefault("description", text)
        return schema


def describe_fields(model: type[BaseModel]) -> None:
    """Write the descriptions into the fields of a model and of the models derived from it, for a reader that asks the
    fields instead of the schema: FastAPI documents the parameters of a query so."""
    for name, text in field_descriptions(model).items():
        field = model.model_fields[name]
        field.description = field.description or text
    for derived in model.__subclasses__():
        describe_fields(derived)


@functools.cache
def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each described field of a model by name, those of inherited fields included."""
    found: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        if issubclass(ancestor, BaseModel):
            found |= _docstrings_of(ancestor)
    for name, field in model.model_fields.items():
        if field.description:
            found[name] = field.description
    return {name: text for name, text in found.items() if name in model.model_fields}


def _docstrings_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields that a class itself declares."""
    declared = _classes_in(sys.modules[model.__module__]).get(model.__qualname__)
    if declared is None:
        return {}
    found = {}
    for statement, below in zip(declared.body, declared.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[statement.target.id] = inspect.cleandoc(below.value.value)
    return found


@functools.cache
def _classes_in(module: ModuleType) -> dict[str, ast.ClassDef]:
    """Return the classes that a module declares at its top, by name; none if its source cannot be read."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return {}
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
