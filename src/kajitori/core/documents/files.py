"""Reading of operators' YAML files into models, with all faults at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from kajitori.core.documents.fast_yaml import LOADER, NotPlain, check_plain
from kajitori.core.documents.faults import Document, faults_of, read
from kajitori.errors import Fault, InvalidInput

MAX_BYTES = 256 * 1024
_DEEPEST = 20

M = TypeVar("M", bound=Document)


def parse_document(
    model: type[M],
    text_or_document: str | bytes | Mapping[str, Any],
    what: str,
    sections: str,
    check: Callable[[M, Collection[str]], Iterable[Fault]] = lambda model, unread: (),
) -> M:
    """Read YAML text or a document into a model. An empty text is an empty document.

    `what` is a name of the file for messages, and `sections` names some of its parts. `check` finds contradictions
    between valid fields; its second argument names the sections that are faulty, which the model lacks. Raises
    InvalidInput with all faults at once, each with its path and, for a text, its line. Aliases are
    refused, because a small text could expand to an endless document.
    """
    if isinstance(text_or_document, Mapping):
        document: object = dict(text_or_document)
        lines: dict[tuple[str | int, ...], int] = {}
        faults: list[Fault] = []
    else:
        document, lines, faults = _read_yaml(text_or_document, what)
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise InvalidInput([Fault(what, f"must be a mapping with sections such as {sections}")])
    try:
        found = model.model_validate(document)
    except ValidationError as error:
        located = zip(faults_of(error, model, ""), error.errors(include_url=False), strict=True)
        faults += [_with_line(fault, tuple(detail["loc"]), lines, what) for fault, detail in located]
        partial, _, unread = read(model, document, "")
    else:
        partial, unread = found, frozenset()
    if partial is not None:
        faults += [_with_line(fault, _location(fault.field), lines, what) for fault in check(partial, unread)]
    if faults or partial is None:
        raise InvalidInput(faults)
    return partial


def _location(field: str) -> tuple[str | int, ...]:
    """Split the path of a field: `clusters[0].pods` into clusters, 0 and pods."""
    parts = re.findall(r"[^.\[\]]+", field)
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _with_line(
    fault: Fault, location: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], what: str
) -> Fault:
    if location and location[-1] == "[key]":
        location = location[:-1]
    while location and location not in lines:
        location = location[:-1]
    if not location:
        return fault if fault.field else replace(fault, field=what, value="")
    return replace(fault, field=f"{fault.field} (line {lines[location]})")


def _read_yaml(text: str | bytes, what: str) -> tuple[object, dict[tuple[str | int, ...], int], list[Fault]]:
    """Return the document, the line of each path, and the faults of the YAML itself."""
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        message = f"the {what} has {len(raw)} bytes; at most {MAX_BYTES} are allowed"
        raise InvalidInput([Fault(what, message, code="TooLarge")])
    try:
        check_plain(raw, deepest=_DEEPEST)
        loader = LOADER(raw)
        try:
            node = loader.get_single_node()
            lines: dict[tuple[str | int, ...], int] = {}
            faults = list(_find_duplicate_keys(node, (), lines)) if node is not None else []
            document = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except NotPlain as error:
        raise InvalidInput([Fault(f"line {error.line}", error.message, hint=error.hint)]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput([_yaml_fault(error, what)]) from None
    except (ValueError, TypeError) as error:
        raise InvalidInput([Fault(what, f"a value cannot be read: {error}")]) from None
    return document, lines, faults


def _find_duplicate_keys(
    node: yaml.Node, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]
) -> Iterator[Fault]:
    if isinstance(node, yaml.MappingNode):
        keys: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in keys:
                message = f"{key!r:.80} occurs twice; the first is on line {keys[key]}"
                yield Fault(f"{_join_path((*path, key))} (line {line})", message, hint="keep one of them")
            keys.setdefault(key, line)
            lines[(*path, key)] = line
            yield from _find_duplicate_keys(value_node, (*path, key), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            yield from _find_duplicate_keys(item, (*path, index), lines)


def _join_path(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path)


def _yaml_fault(error: Exception, what: str) -> Fault:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else what
    problem = getattr(error, "problem", None) or re.sub(r"\s+", " ", str(error))[:200]
    return Fault(where, f"not valid YAML: {problem}", hint="check indentation and quotes")
