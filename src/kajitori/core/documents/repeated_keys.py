"""Keys that stand twice in one JSON object. Decoders keep the last of them without a word."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def repeated_keys(body: bytes) -> list[str]:
    """Paths of the keys that stand more than once in their object, such as `spec.env.LR`, in time linear in the body.

    body: JSON that a decoder has read already. Raises RecursionError where it is nested too deeply.
    """
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Object):
            found.extend(f"{path}{key}" for key in value.repeated)
            for key, one in value.items():
                walk(one, f"{path}{key}.")
        elif isinstance(value, list):
            for index, one in enumerate(value):
                walk(one, f"{path.removesuffix('.')}[{index}].")

    walk(json.loads(body, object_pairs_hook=_Object), "")
    return found


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its keys were repeated."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            self.repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
