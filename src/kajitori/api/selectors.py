"""Label selectors, as Kubernetes writes them: `team=vision,stage in (train, tune),!debug`.

Grammar: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kajitori.core.fields import is_label_key
from kajitori.errors import InvalidInput

Matches = Callable[[Mapping[str, str]], bool]

_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = r"[-A-Za-z0-9_./]+"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*", re.ASCII)
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})?\s*", re.ASCII)
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*", re.ASCII)


def parse_selector(text: str, field: str = "labelSelector") -> Matches:
    """Whether labels match. Raises InvalidInput where the text is not a selector; an empty one matches everything."""
    requirements: list[Matches] = []
    position = 0
    while text.strip() and position <= len(text):
        found, requirement = _requirement(text, position)
        if found is None or requirement is None:
            raise _not_a_selector(text, position, field)
        requirements.append(requirement)
        position = found.end() + 1  # behind the comma
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _requirement(text: str, position: int) -> tuple[re.Match[str] | None, Matches | None]:
    """What stands from a position to the next comma outside of brackets, and what it asks of labels."""
    for pattern, make in ((_SET, _in_set), (_EQUAL, _equal), (_EXISTS, _exists)):
        found = pattern.match(text, position)
        if found is not None and text[found.end() : found.end() + 1] in ("", ","):
            return found, make(found)
    return None, None


def _in_set(found: re.Match[str]) -> Matches | None:
    key, operator, listed = found.group(1, 2, 3)
    values = {value.strip() for value in listed.split(",")}
    if not is_label_key(key) or not all(value == "" or re.fullmatch(_VALUE, value, re.ASCII) for value in values):
        return None
    if operator == "in":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _equal(found: re.Match[str]) -> Matches | None:
    key, operator, value = found.group(1), found.group(2), found.group(3) or ""
    if not is_label_key(key):
        return None
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _exists(found: re.Match[str]) -> Matches | None:
    key, wanted = found.group(2), not found.group(1)
    return (lambda labels: (key in labels) is wanted) if is_label_key(key) else None


def _not_a_selector(text: str, position: int, field: str) -> InvalidInput:
    return InvalidInput.one(
        field,
        f"cannot be read from {text[position : position + 40]!r} on",
        value=text[:80],
        hint="such as team=vision,stage in (train,tune),!debug",
    )
