"""Label and field selectors, as text in a query (apimachinery `pkg/labels`, `pkg/fields`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kajitori.local.apiserver import names
from kajitori.local.apiserver.causes import shown
from kajitori.local.apiserver.status import StatusError

Labels = Mapping[str, str]
_TOKEN = re.compile(r"\s*(?:(==|!=|[=,()!<>])|([^\s=,()!<>]+))")
_SYMBOLS = frozenset({"==", "!=", "=", ",", "(", ")", "!", "<", ">"})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `operator` is in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        bound = int(next(iter(self.values)))
        try:
            number = int(value or "")
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of its requirements have to hold."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Labels) -> bool:
        return all(one.matches(labels) for one in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Field names with the value they must, or must not, have."""

    terms: tuple[tuple[str, str, bool], ...] = ()
    """Field, value, whether it must be equal."""

    def __bool__(self) -> bool:
        return bool(self.terms)

    def exact(self, field: str) -> str | None:
        """The value that a field must have; None if the selector does not say."""
        return next((value for name, value, equal in self.terms if equal and name == field), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(name, "") == value) is equal for name, value, equal in self.terms)


def parse_labels(text: str) -> LabelSelector:
    """The selector that `labelSelector=` says: equality-based and set-based requirements, comma-separated.

    Raises:
        StatusError: 400, in the words of Kubernetes' parser.
    """
    return LabelSelector(tuple(_LabelParser(text).parse()))


def parse_fields(text: str, known: Callable[[str], bool], *, has_own: bool) -> FieldSelector:
    """The selector that `fieldSelector=` says; `known` decides which fields may be named, `has_own` says that there are
    more than those of the metadata.

    Raises:
        StatusError: 400.
    """
    terms = []
    for part in _split_fields(text):
        if not part:
            continue
        for operator in ("!=", "==", "="):
            name, found, value = _partition_unescaped(part, operator)
            if found:
                break
        else:
            raise StatusError.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if not known(name):
            if has_own:
                raise StatusError.bad_request(f"field label not supported: {name}")
            only = 'only "metadata.name", "metadata.namespace"'
            raise StatusError.bad_request(f"{shown(name)} is not a known field selector: {only}")
        terms.append((name, _unescape(value), operator != "!="))
    return FieldSelector(tuple(terms))


def _split_fields(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for character in text:
        if escaped:
            current += character
            escaped = False
        elif character == "\\":
            current += character
            escaped = True
        elif character == ",":
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def _partition_unescaped(part: str, operator: str) -> tuple[str, bool, str]:
    index = 0
    while index < len(part):
        if part[index] == "\\":
            index += 2
        elif part.startswith(operator, index):
            return part[:index], True, part[index + len(operator) :]
        else:
            index += 1
    return part, False, ""


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                break
            self._tokens.append(found[1] or found[2])
            position = found.end()
        self._index = 0

    def _peek(self) -> str:
        return self._tokens[self._index] if self._index < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._index += 1
        return token

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while first := self._peek():
            if first in _SYMBOLS and first != "!":
                raise StatusError.bad_request(f"found '{first}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            token = self._next()
            if token == "":
                break
            if token != ",":
                raise StatusError.bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if not self._peek() or self._peek() in (",", ")"):
                raise StatusError.bad_request(f"found '{self._peek()}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if not key or key in _SYMBOLS:
            raise _unparsable(_identifier(key))
        _check_key(key)
        if absent:
            return Requirement(key, "!")
        operator = self._peek()
        if operator in ("", ","):
            return Requirement(key, "exists")
        self._next()
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values(key))
        if operator in ("=", "==", "!="):
            value = self._exact()
            _check_value(key, value)
            return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))
        if operator in ("<", ">"):
            value = self._exact()
            if not re.fullmatch(r"[+-]?\d+", value):
                said = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise _unparsable(f"values[0]: Invalid value: {shown(value)}: {said}")
            return Requirement(key, "gt" if operator == ">" else "lt", frozenset({value}))
        raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _exact(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._next()
        if value in _SYMBOLS:
            raise _unparsable(_identifier(value))
        return value

    def _values(self, key: str) -> frozenset[str]:
        token = self._next()
        if token != "(":
            raise _unparsable(f"found '{token}' expected: '('")
        values: list[str] = []
        expects_value = True
        while (token := self._next()) != ")":
            if token == "":
                raise _unparsable("found '', expected: ',' or ')'")
            if token == ",":
                if expects_value:
                    values.append("")
                expects_value = True
            elif token in _SYMBOLS or not expects_value:
                raise _unparsable(f"found '{token}', expected: ',' or ')'")
            else:
                values.append(token)
                expects_value = False
        if expects_value:
            values.append("")
        for value in values:
            _check_value(key, value)
        return frozenset(values)


def _identifier(found: str) -> str:
    return f"found '{found}', expected: identifier"


def _unparsable(what: str) -> StatusError:
    return StatusError.bad_request(f"unable to parse requirement: {what}")


def _check_key(key: str) -> None:
    faults = names.qualified_name(key)
    if faults:
        raise _unparsable(f"<nil>: Invalid value: {shown(key)}: {'; '.join(faults)}")


def _check_value(key: str, value: str) -> None:
    faults = names.label_value(value)
    if faults:
        raise _unparsable(f"values[0][{key}]: Invalid value: {shown(value)}: {'; '.join(faults)}")
