"""Limits of answers. An assistant reads all of an answer, so it has to be small, and it must not contain a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MOST_CHARACTERS = 40_000
"""The largest size of an answer as JSON. It is about 10,000 tokens of a language model."""
MOST_ITEMS = 500
MOST_TEXT = 4_000
LOG_LINE_TEXT = 1_000
_LEAST_ITEMS = 2
_LEAST_ENTRIES = 40
"""Number of entries that a mapping may always keep. No object in a schema has more fields, and answers must have all of
these."""

HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(r"(?i)(secret|token|passw|credential|private|api_?key|access_?key|auth)")


def shown(text: str, secrets: Iterable[str] = (), most: int = MOST_TEXT) -> str:
    """Return a text without secrets and without unprintable characters, which could hide instructions from a person.

    Line ends and tabs are kept. A text longer than `most` characters is cut at its end.
    """
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def bounded(document: Mapping[str, Any], secrets: Iterable[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Return a document of about `MOST_CHARACTERS` at most, and a list of what was cut, such as `held: 20 of 340
    items`.

    Long lists, mappings and texts are cut at their ends.
    """
    items, text, known = MOST_ITEMS, MOST_TEXT, tuple(secret for secret in secrets if secret)
    while True:
        cut: dict[str, str] = {}
        found = _cut_value(document, "", items, text, known, cut)
        if len(json.dumps(found, ensure_ascii=False)) <= MOST_CHARACTERS or items <= _LEAST_ITEMS:
            return found, [f"{path}: {words}" for path, words in cut.items()]
        items, text = items // 2, max(text // 2, 100)


def _cut_value(value: Any, path: str, items: int, text: int, secrets: tuple[str, ...], cut: dict[str, str]) -> Any:
    if isinstance(value, str):
        if len(value) > text:
            cut[path] = f"{text} of {len(value)} characters"
        return shown(value, secrets, text)
    if isinstance(value, Mapping):
        entries = max(items, _LEAST_ENTRIES)
        if len(value) > entries:
            cut[path] = f"{entries} of {len(value)} entries"
        kept = list(value.items())[:entries]
        return {
            shown(str(key), secrets): _cut_value(part, f"{path}.{key}" if path else str(key), items, text, secrets, cut)
            for key, part in kept
        }
    if isinstance(value, list | tuple):
        if len(value) > items:
            cut[path] = f"{items} of {len(value)} items"
        return [_cut_value(part, f"{path}[]", items, text, secrets, cut) for part in value[:items]]
    return value


def without_secret_values(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's spec in which the values of environment variables such as `API_KEY` or `TOKEN` are hidden."""
    env = spec.get("env")
    if not isinstance(env, Mapping):
        return dict(spec)
    safe = {name: HIDDEN if _SECRET_NAME.search(str(name)) else value for name, value in env.items()}
    return {**spec, "env": safe}
