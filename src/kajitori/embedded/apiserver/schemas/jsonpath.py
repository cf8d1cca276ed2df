"""The part of Kubernetes' JSONPath that printer columns and scale paths use.

`.a.b`, `['a.b']`, `[0]`, `[-1]`, `[*]` and filters `[?(@.type=="Ready")]`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kajitori.embedded.apiserver.schemas.nesting import decode_json

_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<star>\*)\s*\]
      | \[\s*(?P<quote>['"])(?P<key>.*?)(?P=quote)\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>'[^']*'|"[^"]*"|[^)\s]+)\s*\)\]
      | \[\?\(\s*@(?P<exists>[^=!<>)]*)\s*\)\]
    """,
    re.VERBOSE,
)

Step = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Return all values that the path leads to; none if a part is missing."""
        found = [value]
        for step in self.steps:
            found = [one for before in found for one in step(before)]
        return found


@functools.lru_cache(maxsize=512)
def compile_path(text: str) -> Path:
    """Compile a path. One that cannot be parsed leads nowhere: its column stays empty and the list does not fail."""
    rest = text.strip().removeprefix("{").removesuffix("}")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    rest = rest.removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            return Path((lambda _: [],))
        steps.append(_compile_step(found))
        at = found.end()
    return Path(tuple(steps))


def _compile_step(found: re.Match[str]) -> Step:
    if found["name"] is not None:
        name = found["name"].replace("\\", "")
        return _all_values if name == "*" else functools.partial(_member_of, name)
    if found["key"] is not None:
        return functools.partial(_member_of, found["key"].replace("\\", ""))
    if found["index"] is not None:
        return functools.partial(_item_at, int(found["index"]))
    if found["star"] is not None:
        return _all_values
    if found["exists"] is not None:
        return functools.partial(_values_having, compile_path(found["exists"] or "."))
    return functools.partial(
        _values_matching, compile_path(found["path"]), found["operator"], _literal_value(found["value"])
    )


def _member_of(name: str, value: Any) -> list[Any]:
    return [value[name]] if isinstance(value, dict) and name in value else []


def _item_at(index: int, value: Any) -> list[Any]:
    return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []


def _all_values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _values_having(path: Path, value: Any) -> list[Any]:
    return [one for one in _all_values(value) if path.find(one)]


def _values_matching(path: Path, operator: str, wanted: Any, value: Any) -> list[Any]:
    return [one for one in _all_values(value) if any(_holds(given, operator, wanted) for given in path.find(one))]


def _holds(given: Any, operator: str, wanted: Any) -> bool:
    if operator == "==":
        return bool(given == wanted)
    if operator == "!=":
        return bool(given != wanted)
    try:
        return bool({"<": given < wanted, ">": given > wanted, "<=": given <= wanted, ">=": given >= wanted}[operator])
    except TypeError:
        return False


def _literal_value(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return decode_json(text)
    except ValueError:
        return text


def text_of(value: Any) -> str:
    """Format a value for a column of type string."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
