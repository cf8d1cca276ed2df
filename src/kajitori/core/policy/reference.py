"""The reference of the files that operators write, made from the types that read them."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kajitori.core.network.registry_model import Networks
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import RunSpec


@dataclass(frozen=True, slots=True)
class PolicyField:
    """One field of such a file: its path, its default as YAML's flow style, and what it does."""

    path: str
    default: str
    text: str


_MANY: dict[Any, str] = {list: "[]", dict: ".<name>"}


def policy_fields() -> list[PolicyField]:
    """Every field of the policy file, in the file's order."""
    return list(_fields(Policy, ""))


def policy_reference() -> str:
    """The reference of the policy file as a Markdown page."""
    return _reference("# The policy file", Policy)


def networks_reference() -> str:
    """The reference of the address registry as a Markdown page."""
    return _reference("# The networks file", Networks)


def _reference(title: str, model: type[BaseModel]) -> str:
    lines = [title, "", " ".join((model.__doc__ or "").split())]
    section = ""
    for field in _fields(model, ""):
        head = field.path.split(".")[0].removesuffix("[]")
        if head != section:
            section = head
            lines += ["", f"## {section}", ""]
        default = f" Default: `{field.default}`." if field.default else ""
        lines += [f"- `{field.path}`: {field.text}{default}"]
    return "\n".join(lines) + "\n"


def _fields(model: type[BaseModel], path: str) -> Iterator[PolicyField]:
    for name, info in model.model_fields.items():
        field_path = f"{path}{info.alias or name}"
        text = " ".join((info.description or "").split())
        inner, many = _inner(info.annotation)
        if inner is None:
            yield PolicyField(field_path, _default(model, name), text)
            continue
        if not text:
            text = " ".join((inner.__doc__ or "").split()) if _is_of_policy(inner) else ""
        if many:
            yield PolicyField(field_path, _default(model, name), text)
            if _is_of_policy(inner):
                yield from _fields(inner, f"{field_path}{many}.")
        else:
            yield PolicyField(field_path, "", text)
            yield from _fields(inner, f"{field_path}.")


def _is_of_policy(model: type[BaseModel]) -> bool:
    """Made for the policy file, not for what runs may say: that has a page of its own."""
    return model.__module__ != RunSpec.__module__


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside a field's type; where there may be many of it, how one of them is written."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    for each in typing.get_args(annotation):
        found, many = _inner(each)
        if found is not None:
            return found, _MANY.get(typing.get_origin(annotation), "") + many
    return None, ""


def _default(model: type[BaseModel], name: str) -> str:
    info = model.model_fields[name]
    if info.is_required():
        return ""
    stand_in = model.model_construct()
    value = stand_in.model_dump(mode="json", include={name}, warnings=False).get(info.alias or name)
    return "" if value is None or value == "" else json.dumps(value, ensure_ascii=False).strip('"')
