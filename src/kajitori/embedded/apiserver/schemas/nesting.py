"""Limits on the nesting of documents, because most code that reads, merges and writes them is recursive."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kajitori.core.documents.fast_yaml import check_plain

DEEPEST = 200
"""Maximum number of nested objects and lists. kube-apiserver reads 10,000; definitions of custom resources have about
40."""
MOST_REPEATED = 100_000
"""Maximum number of values that the aliases of a YAML document may stand for."""

_decode = msgspec.json.Decoder().decode


class TooDeep(ValueError):
    """A document is nested too deeply."""

    def __init__(self) -> None:
        super().__init__(f"exceeded max depth: this server reads {DEEPEST} levels")


def decode_json(text: bytes | str) -> Any:
    """Parse a JSON document.

    Raises:
        TooDeep: it is nested too deeply.
        ValueError: it cannot be parsed.
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
    """Parse a YAML document.

    Raises:
        ValueError: it cannot be parsed, is nested too deeply, or repeats too much.
    """
    try:
        check_plain(text, deepest=DEEPEST, most_repeated=MOST_REPEATED)
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def check_depth(value: Any) -> None:
    """Check the nesting of a value.

    Raises:
        TooDeep: the value is nested too deeply.
    """
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            below
            for parent in level
            if isinstance(parent, dict | list)
            for below in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise TooDeep
