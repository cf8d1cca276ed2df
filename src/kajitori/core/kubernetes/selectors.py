"""Label and field selectors: `team=vision,stage in (train, tune),!debug`, `status.phase!=Running`.

Grammar and error messages are the same as in Kubernetes (apimachinery `pkg/labels`, `pkg/fields`), so that exactly the
same texts are valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.kubernetes.texts import go_quoted, label_value, qualified_name

Labels = Mapping[str, str]

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=,()!<>]|[^ \t\r\n=,()!<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", ",", "(", ")", "!", "<", ">", ""})
"""Tokens that are neither keys nor values. The empty token is the end of the text."""
_BINARY = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_OPERATORS = "in, notin, =, ==, !=, gt, lt"
"""Operators as Kubernetes lists them in messages."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """A text is not a valid selector. `message` is the same as in Kubernetes."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet the requirement."""
        return holds(self.key, self.operator, self.values, labels)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """A condition on one field: it must have this value, or must not (`equal` is false)."""

    field: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field terms."""

    terms: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def exact(self, field: str) -> str | None:
        """Return the value that a field must have; None if the selector does not determine it."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected. A missing field counts as empty."""
        return all((fields.get(term.field, "") == term.value) is term.equal for term in self.terms)


def holds(key: str, operator: str, values: Sequence[str], labels: Labels) -> bool:
    """Whether labels meet a requirement of a label or node selector. An unknown operator matches nothing."""
    value = labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number, bound = _integer(value), _integer(values[0] if len(values) == 1 else None)
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def label_selector_of(document: Mapping[str, Any] | None) -> LabelSelector | None:
    """Parse a LabelSelector object (meta.k8s.io/v1). None selects nothing, an empty one everything."""
    if document is None:
        return None
    found = [Requirement(key, "In", (value,)) for key, value in (document.get("matchLabels") or {}).items()]
    found += [
        Requirement(expression.get("key", ""), expression.get("operator", ""), tuple(expression.get("values") or ()))
        for expression in document.get("matchExpressions") or []
    ]
    return LabelSelector(tuple(found))


def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector: equality-based and set-based requirements, separated by commas.

    Raises SelectorError.
    """
    return LabelSelector(tuple(_LabelParser(text).requirements()))


def parse_fields(text: str) -> FieldSelector:
    r"""Parse a field selector. `\,`, `\=` and `\\` in a value stand for the character itself.

    Raises SelectorError.
    """
    terms = []
    for part in sorted(_split_fields(text)):
        found = re.search("!=|==|=", part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescaped(part[found.end() :])
        terms.append(FieldTerm(part[: found.start()], value, found.group() != "!="))
    return FieldSelector(tuple(terms))


def _integer(text: str | None) -> int | None:
    """Parse a decimal 64-bit integer as Go's ParseInt does; None if it is not one."""
    if text is None or not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if number in _INT64 else None


def _split_fields(text: str) -> Iterator[str]:
    """Split a text at commas that are not escaped."""
    return (part.group() for part in re.finditer(r"(?:\\.|[^\\,]|\\$)+", text, re.DOTALL))


def _unescaped(value: str) -> str:
    characters, out = iter(value), ""
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if character not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{character}")
        elif character in ",=":
            # Go prints the character's number.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        out += character
    return out


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = [found.group(1) for found in _TOKEN.finditer(text)]
        self._index = 0

    def _peek(self) -> str:
        return self._tokens[self._index] if self._index < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._index += 1
        return token

    def requirements(self) -> Iterator[Requirement]:
        while first := self._peek():
            if first in _SYMBOLS and first != "!":
                raise SelectorError(f"found '{first}', expected: !, identifier, or 'end of string'")
            try:
                yield self._requirement()
            except SelectorError as fault:
                raise SelectorError(f"unable to parse requirement: {fault.message}") from None
            token = self._next()
            if token == "":
                return
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            following = self._peek()
            if following in _SYMBOLS and following != "!":
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._identifier()
        if faults := qualified_name(key):
            raise SelectorError(f"<nil>: Invalid value: {go_quoted(key)}: {'; '.join(faults)}")
        if self._peek() in ("", ","):
            return Requirement(key, "DoesNotExist" if absent else "Exists")
        token = self._next()
        if token not in _BINARY:
            raise SelectorError(f"found '{token}', expected: {_OPERATORS}")
        operator = _BINARY[token]
        values = self._values() if token in ("in", "notin") else (self._exact(),)
        _check_values(key, operator, values)
        return Requirement(key, operator, values)

    def _identifier(self) -> str:
        found = self._next()
        if found in _SYMBOLS:
            raise SelectorError(f"found '{found}', expected: identifier")
        return found

    def _exact(self) -> str:
        return "" if self._peek() in ("", ",") else self._identifier()

    def _values(self) -> tuple[str, ...]:
        """Parse the values in parentheses, and return them sorted. Nothing before, between or after commas is an empty
        value."""
        if (token := self._next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first in _SYMBOLS and first not in (",", ")"):
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values: set[str] = set()
        pending = True  # a value is still expected
        while (token := self._next()) != ")":
            if token == ",":
                if pending:
                    values.add("")
                pending = True
            elif token in _SYMBOLS and pending:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            elif token in _SYMBOLS or not pending:
                raise SelectorError(f"found '{token}', expected: ',' or ')'")
            else:
                values.add(token)
                pending = False
        return tuple(sorted(values | {""} if pending else values))


def _check_values(key: str, operator: str, values: Sequence[str]) -> None:
    faults = []
    if operator in ("Gt", "Lt") and _integer(values[0]) is None:
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        faults.append(f"values[0]: Invalid value: {go_quoted(values[0])}: {rule}")
    for index, value in enumerate(values):
        if wrong := label_value(value):
            faults.append(f"values[{index}][{key}]: Invalid value: {go_quoted(value)}: {'; '.join(wrong)}")
    if faults:
        raise SelectorError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
