"""The parser of YAML that is there: libyaml's where PyYAML was built with it, ten times as fast as Python's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotPlain(ValueError):
    """YAML that is well-formed, but nested too deeply, or much larger than it looks."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    anchor: str | None
    values_before: int
    levels: int = 1
    """The most levels of it so far, itself included."""


def check_plain(raw: bytes, *, deepest: int, most_repeated: int = 0) -> None:
    """Refuse what must not reach the composer. It recurses in C without a limit: 600 kB of `[` end the process.

    Aliases may repeat at most `most_repeated` values in all; with 0 there may be no alias.

    Raises:
        NotPlain: the document is nested deeper than `deepest` levels, or has such an alias.
        yaml.YAMLError: it is not YAML.
    """
    stack: list[_Open] = []
    anchored: dict[str | None, tuple[int, int]] = {}
    """Values and levels of what each anchor stands for."""
    values = repeated = 0
    for event in yaml.parse(raw, Loader=LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 0
        levels = 0
        if isinstance(event, yaml.AliasEvent):
            if not most_repeated:
                raise NotPlain(line, f"*{event.anchor} is an alias", "write it out")
            if any(each.anchor == event.anchor for each in stack):
                raise NotPlain(line, f"*{event.anchor} is inside of what it stands for")
            size, levels = anchored.get(event.anchor, (1, 0))
            values, repeated = values + size, repeated + size
            if repeated > most_repeated:
                raise NotPlain(line, f"aliases stand for more than {most_repeated} values")
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor:
                anchored[event.anchor] = (1, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(event.anchor, values))
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
