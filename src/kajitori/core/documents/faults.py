"""Translation of pydantic's errors into faults with messages for users.

Models of user input derive from `Document`. `read` returns the model, or all faults at once, each with the path of the
field as the user wrote it, the offending value, and a hint.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from kajitori.core.documents.docstrings import Described
from kajitori.core.suggestions import did_you_mean, nearest
from kajitori.errors import Fault

_VALUE_SHOWN = 80

M = TypeVar("M", bound="Document")


class Document(Described, BaseModel):
    """Base of models of user input: strict types, no unknown fields, camelCase names in documents."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )


def read(model: type[M], document: object, where: str) -> tuple[M | None, list[Fault], frozenset[str]]:
    """Read a document; return the model, its faults, and the top-level fields that cannot be relied on.

    A document with faults is read once more without its faulty top-level fields, so that checks across fields can still
    use the rest. The model is then partial, or None if nothing could be read. The third result has the top-level fields
    that were left out (as written), and those to which an unknown field probably belongs: a field that is missing there
    is not a separate fault.
    """
    if not isinstance(document, Mapping):
        kind = "nothing" if document is None else _kind_of(document)
        return None, [Fault(where, f"must be a mapping of fields, not {kind}", show(document))], frozenset()
    try:
        return model.model_validate(dict(document)), [], frozenset()
    except ValidationError as error:
        faults = list(faults_of(error, model, where))
        broken = frozenset(str(detail["loc"][0]) for detail in error.errors(include_url=False) if detail["loc"])
        meant = frozenset(str(path[0]) for path in meant_fields(error, model))
    rest = {key: value for key, value in document.items() if key not in broken}
    for name, info in model.model_fields.items():
        if info.is_required() and (info.alias or name) not in rest:
            rest[info.alias or name] = _STAND_IN
    try:
        return model.model_validate(rest), faults, broken | meant
    except ValidationError:
        return None, faults, broken


_STAND_IN = "stand-in"
"""Replaces a missing required text, so that everything else can still be checked."""


_NO_MODEL = ("model_type", "model_attributes_type")
_MAPPINGS = ("dict_type", *_NO_MODEL)
"""Errors of fields that must be mappings. Messages do not repeat the text that is there instead: it may be secret."""


def faults_of(error: ValidationError, model: type[BaseModel], where: str) -> Iterator[Fault]:
    """Yield a fault with a message for users for each of pydantic's errors."""
    for detail in error.errors(include_url=False):
        location = tuple(detail["loc"])
        cause = detail.get("ctx", {}).get("error")
        message, hint, code = detail["msg"], "", "Invalid"
        if isinstance(cause, ValueError) and hasattr(cause, "hint"):
            message, hint, code = str(cause), str(cause.hint), str(getattr(cause, "code", code))
        elif detail["type"] == "extra_forbidden":
            message, hint, code = _describe_unknown_field(model, location, where)
        else:
            message, hint = _describe_builtin_error(
                detail["type"], detail.get("ctx", {}), detail["msg"], detail.get("input")
            )
            if detail["type"] in _NO_MODEL:
                hint = f"its fields are {', '.join(_field_names(_model_at(model, location)))}"
        value = "" if detail["type"] in ("missing", "extra_forbidden") else show(detail.get("input"))
        yield Fault(path_of(where, location), message, value, hint, code)


def path_of(where: str, location: tuple[int | str, ...]) -> str:
    """Return the path of a field as users write it: `spec.volumes[0].path`."""
    path = where
    for part in location:
        if part == "[key]":
            continue
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part[:_VALUE_SHOWN]!r}]"
    return path


def show(value: object) -> str:
    """Return a value as short text for a message."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE_SHOWN else text[: _VALUE_SHOWN - 1] + "…"


def _describe_builtin_error(kind: str, context: dict[str, Any], message: str, value: object) -> tuple[str, str]:
    """Return message and hint for an error of pydantic's own checks."""
    wanted = {
        "missing": "is required",
        "string_type": "must be text",
        "bool_type": "must be true or false",
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "list_type": "must be a list",
        "tuple_type": "must be a list",
        "dict_type": "must be a mapping",
        "model_type": "must be a mapping of fields",
        "model_attributes_type": "must be a mapping of fields",
    }.get(kind)
    if kind == "missing":
        return "is required", ""
    if wanted is not None:
        hint = ""
        if kind == "string_type" and isinstance(value, int | float):
            hint = f'write it in quotes: "{value}"'
        elif kind in ("list_type", "tuple_type") and isinstance(value, str):
            hint = f"write a list: [{', '.join(map(_list_item, show(value).split()))}]"
        is_shown = isinstance(value, str) and kind not in _MAPPINGS
        given = f"the text {show(value)!r}" if is_shown else _kind_of(value)
        return f"{wanted}, not {given}", hint
    if kind == "literal_error":
        expected = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        near = nearest(str(value), expected.split(", "))
        return f"{show(value)!r} is not one of {expected}", f"did you mean {near}?" if near else ""
    bounds = {"greater_than": ("above", "gt"), "greater_than_equal": ("at least", "ge")}
    bounds |= {"less_than": ("below", "lt"), "less_than_equal": ("at most", "le")}
    if kind in bounds:
        words, key = bounds[kind]
        return f"{show(value)} is not allowed: it must be {words} {context.get(key)}", ""
    if kind == "too_long":
        return f"has too many items; at most {context.get('max_length')} are allowed", ""
    if kind == "string_too_long":
        return f"is too long; at most {context.get('max_length')} characters are allowed", ""
    if kind in ("too_short", "string_too_short"):
        return "must not be empty", ""
    return message[0].lower() + message[1:], ""


def _list_item(word: str) -> str:
    """Return a word as an item of a YAML list in brackets."""
    return word if re.fullmatch(r"[A-Za-z_./][\w./+-]*", word) else json.dumps(word, ensure_ascii=False)


def _describe_unknown_field(
    model: type[BaseModel], location: tuple[int | str, ...], where: str
) -> tuple[str, str, str]:
    name = str(location[-1])
    known = _field_names(_model_at(model, location[:-1]))
    meant = _probable_field(model, location)
    hint = did_you_mean(name, known)
    if meant is not None and meant[:-1] != location[:-1]:
        place = path_of("", meant[:-1]) or where
        belongs = f"it belongs under {place}" if place else "it belongs outside, at the top of the file"
        hint = belongs if meant[-1] == name else f"did you mean {path_of('', meant)}?"
    return f"there is no field {name[:_VALUE_SHOWN]!r}", hint, "UnknownField"


def meant_fields(error: ValidationError, model: type[BaseModel]) -> list[tuple[int | str, ...]]:
    """Return the locations of the fields that a user probably meant by unknown fields."""
    details = error.errors(include_url=False)
    unknown = (tuple(detail["loc"]) for detail in details if detail["type"] == "extra_forbidden")
    return [meant for location in unknown if (meant := _probable_field(model, location)) is not None]


def _probable_field(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[int | str, ...] | None:
    """Return the location of the field that an unknown one probably stands for, or None. A field with the same name in
    another part of the document is preferred to one with a similar name, unless they differ in a plural alone."""
    name, holder = str(location[-1]), location[:-1]
    near = nearest(name, _field_names(_model_at(model, holder)))
    if near is not None and near.casefold().rstrip("s") == name.casefold().rstrip("s"):
        return (*holder, near)
    parts = [(path, _field_names(part)) for path, part in _nested_models(model) if path != holder]
    for path, names in parts:
        if name in names:
            return (*path, name)
    if near is not None:
        return (*holder, near)
    return next(((*path, other) for path, names in parts if (other := nearest(name, names)) is not None), None)


def _field_names(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _nested_models(
    model: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Yield the document and all nested models, each with its path."""
    yield path, model
    for field, info in model.model_fields.items():
        inner = _model_in(info.annotation)
        if inner is not None:
            yield from _nested_models(inner, (*path, info.alias or field))


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model for the part of a document at a location."""
    skip = False
    for part in location:
        if skip or isinstance(part, int):
            skip = False
            continue
        info = next((info for name, info in model.model_fields.items() if part in (name, info.alias)), None)
        inner = _model_in(info.annotation) if info is not None else None
        if info is None or inner is None:
            return model
        skip = _is_mapping(info.annotation)
        model = inner
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in typing.get_args(annotation) if (found := _model_in(argument)) is not None), None)


def _is_mapping(annotation: object) -> bool:
    return typing.get_origin(annotation) is dict or any(
        _is_mapping(argument) for argument in typing.get_args(annotation)
    )


def _kind_of(value: object) -> str:
    if value is None:
        return "empty"
    kinds = ((bool, "true or false"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"))
    return next((text for kind, text in kinds if isinstance(value, kind)), "a mapping")
