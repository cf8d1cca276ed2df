"""How deep documents may be nested. Much of what reads, merges and writes them goes down by recursion."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kajitori.core.documents.fast_yaml import check_plain

DEEPEST = 200
"""Levels of objects and lists. kube-apiserver reads 10,000; definitions of custom resources have some 40."""
MOST_REPEATED = 100_000
"""Values that aliases of a YAML document stand for."""

_decode = msgspec.json.Decoder().decode


class TooDeep(ValueError):
    """A document is nested deeper than is read."""

    def __init__(self) -> None:
        super().__init__(f"exceeded max depth: this server reads {DEEPEST} levels")


def decode_json(text: bytes | str) -> Any:
    """A JSON document.

    Raises:
        TooDeep: it is nested too deeply.
        ValueError: it is none.
    """
    try:
        found = _decode(text)
    except RecursionError as error:
        raise TooDeep from error
    raw = text.encode() if isinstance(text, str) else text
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        check_depth(found)
    return found


def decode_yaml(text: bytes, loader: Any) -> Any:
    """A YAML document.

    Raises:
        ValueError: it is none, is nested too deeply, or repeats too much.
    """
    try:
        check_plain(text, deepest=DEEPEST, most_repeated=MOST_REPEATED)
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def check_depth(value: Any) -> None:
    """
    Raises:
        TooDeep: the value is nested too deeply.
    """
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            below
            for each in level
            if isinstance(each, dict | list)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise TooDeep
