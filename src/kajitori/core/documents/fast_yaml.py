"""The fastest available YAML parser: libyaml's if PyYAML was built with it, which is ten times as fast as Python's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotPlain(ValueError):
    """Valid YAML that is refused: it is nested too deeply, or its aliases make it too large."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class _OpenCollection:
    """A mapping or list that has not been parsed to its end."""

    anchor: str | None
    values_before: int
    levels: int = 1
    """Depth of the collection so far, itself included."""


def check_plain(raw: bytes, *, deepest: int, most_repeated: int = 0) -> None:
    """Refuse documents that are dangerous for PyYAML's composer. It recurses in C without a limit: 600 kB of `[` crash
    the process.

    Aliases may repeat at most `most_repeated` values in total. With 0, no aliases are allowed.

    Raises:
        NotPlain: the document is nested deeper than `deepest` levels, or its aliases exceed the limit.
        yaml.YAMLError: the document is not valid YAML.
    """
    stack: list[_OpenCollection] = []
    anchored: dict[str | None, tuple[int, int]] = {}
    """Number of values and depth of each anchored node."""
    values = repeated = 0
    for event in yaml.parse(raw, Loader=LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        levels = 0
        if isinstance(event, yaml.AliasEvent):
            if not most_repeated:
                raise NotPlain(line, f"*{event.anchor} is an alias, which is not allowed", "repeat the value itself")
            if any(collection.anchor == event.anchor for collection in stack):
                raise NotPlain(line, f"the alias *{event.anchor} is inside the value that it refers to")
            size, levels = anchored.get(event.anchor, (1, 0))
            values, repeated = values + size, repeated + size
            if repeated > most_repeated:
                raise NotPlain(line, f"aliases repeat more than {most_repeated} values")
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor:
                anchored[event.anchor] = (1, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_OpenCollection(event.anchor, values))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = stack.pop()
            levels = ended.levels
            if ended.anchor:
                anchored[ended.anchor] = (values - ended.values_before, levels)
        if len(stack) + levels > deepest:
            raise NotPlain(line, f"nested deeper than {deepest} levels")
        if stack:
            stack[-1].levels = max(stack[-1].levels, levels + 1)
