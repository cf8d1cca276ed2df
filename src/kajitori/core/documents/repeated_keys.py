"""Detection of keys that occur twice in a JSON object. Decoders silently keep the last one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def repeated_keys(body: bytes) -> list[str]:
    """Return the paths of keys that occur more than once in their object, such as `spec.env.LR`, in linear time.

    body: valid JSON. Raises RecursionError if it is nested too deeply.
    """
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Object):
            found.extend(f"{path}{key}" for key in value.repeated)
            for key, inner in value.items():
                walk(inner, f"{path}{key}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path.removesuffix('.')}[{index}].")

    walk(json.loads(body, object_pairs_hook=_Object), "")
    return found


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its keys were repeated."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            self.repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
