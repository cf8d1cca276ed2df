"""Reference pages of the files that operators write, generated from the models that read them."""

from __future__ import annotations

import json
import typing
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kajitori.core.documents.docstrings import field_descriptions


@dataclass(frozen=True, slots=True)
class FieldReference:
    """One field of a file: its path, its default in YAML's flow style, and its description."""

    path: str
    default: str
    text: str


_COLLECTION_MARKS: dict[Any, str] = {list: "[]", dict: ".<name>"}


def reference_page(title: str, model: type[BaseModel], *, documented_elsewhere: Collection[str] = ()) -> str:
    """Return the reference of a file as a Markdown page: the model's docstring, then its fields by section.

    See `fields_of` for `documented_elsewhere`.
    """
    lines = [f"# {title}", "", " ".join((model.__doc__ or "").split())]
    section = ""
    for field in fields_of(model, documented_elsewhere=documented_elsewhere):
        head = field.path.split(".")[0].removesuffix("[]")
        if head != section:
            section = head
            lines += ["", f"## {section}", ""]
        default = f" Default: `{field.default}`." if field.default else ""
        lines += [f"- `{field.path}`: {field.text}{default}"]
    return "\n".join(lines) + "\n"


def fields_of(
    model: type[BaseModel], path: str = "", *, documented_elsewhere: Collection[str] = ()
) -> Iterator[FieldReference]:
    """Yield every field of a model and of the models inside it, in the order in which they are declared.

    Fields of items of a list or mapping are left out if the item's model is from a module in `documented_elsewhere`:
    those have a page of their own.
    """
    descriptions = field_descriptions(model)
    for name, info in model.model_fields.items():
        field_path = f"{path}{info.alias or name}"
        text = " ".join(descriptions.get(name, "").split())
        inner, mark = _inner_model(info.annotation)
        if inner is None:
            yield FieldReference(field_path, _format_default(model, name), text)
            continue
        belongs_here = inner.__module__ not in documented_elsewhere
        if not text and belongs_here:
            text = " ".join((inner.__doc__ or "").split())
        if not mark:
            yield FieldReference(field_path, "", text)
            yield from fields_of(inner, f"{field_path}.", documented_elsewhere=documented_elsewhere)
            continue
        yield FieldReference(field_path, _format_default(model, name), text)
        if belongs_here:
            yield from fields_of(inner, f"{field_path}{mark}.", documented_elsewhere=documented_elsewhere)


def _inner_model(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model inside a field's type, and what is appended to the path of the field's items if it holds
    several: `[]` for a list, `.<name>` for a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    for argument in typing.get_args(annotation):
        found, mark = _inner_model(argument)
        if found is not None:
            return found, _COLLECTION_MARKS.get(typing.get_origin(annotation), "") + mark
    return None, ""


def _format_default(model: type[BaseModel], name: str) -> str:
    info = model.model_fields[name]
    if info.is_required():
        return ""
    with_defaults = model.model_construct()
    value = with_defaults.model_dump(mode="json", include={name}, warnings=False).get(info.alias or name)
    return "" if value is None or value == "" else json.dumps(value, ensure_ascii=False).strip('"')
