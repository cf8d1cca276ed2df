"""The requests of runs, as named texts that can be compared side by side."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kajitori.core.spec.command_line import NOT_ASKED

_SHELLS = frozenset(("sh", "bash", "zsh", "dash"))
_SETTING = re.compile(r"(\+{0,2}[A-Za-z_][\w.]*)=(.*)", re.DOTALL)
"""A word such as `optimizer.lr=0.1`, as Hydra reads them."""
_NUMBER = re.compile(r"-[\d.]")


def asked_for(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what a spec's document asks for, by name. The document may be valid or not.

    Names are the paths of fields, such as `resources.gpu`; options of the program stand by themselves, such as `--lr`,
    and `args` has its other words. Fields that say what became of a run are left out, as are empty values.
    """
    found: dict[str, str] = {}
    for name, value in spec.items():
        if name == "args" and isinstance(value, list):
            found |= _arguments([str(word) for word in value])
        elif name not in NOT_ASKED:
            found |= dict(_flat(name, value))
    return {name: text for name, text in found.items() if text}


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{path}.{key}", part)
    else:
        yield path, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return shlex.join(_text(part) if not isinstance(part, Mapping) else _parts(part) for part in value)
    return str(value)


def _parts(value: Mapping[str, Any]) -> str:
    """Return an object in a list, such as a volume: `path=/data,readOnly=yes`."""
    return ",".join(f"{key}={_text(part)}" for key, part in value.items() if part not in (None, "", [], {}, False))


def _arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the options of a command by their names, and its other words as `args`."""
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and re.fullmatch(r"-[a-z]*c", words[1]):
        try:
            words = shlex.split(words[2])
        except ValueError:  # a quote is not closed
            return {"args": shlex.join(words)}
    options: dict[str, list[str]] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if setting := _SETTING.fullmatch(word):
            options.setdefault(setting[1], []).append(setting[2])
        elif not _is_option(word):
            others.append(word)
        elif "=" in word:
            name, _, value = word.partition("=")
            options.setdefault(name, []).append(value)
        else:
            options.setdefault(word, []).append("yes" if not rest or _is_option(rest[0]) else rest.pop(0))
    return {"args": shlex.join(others)} | {name: ", ".join(values) for name, values in options.items()}


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)
