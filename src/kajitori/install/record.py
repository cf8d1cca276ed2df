"""The record of an installation in its cluster: version, settings, and the objects that were applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kajitori import __version__
from kajitori.errors import InvalidInput
from kajitori.install.parts.objects import Identity, Object, as_yaml, made
from kajitori.install.settings import RECORD, InstallSettings, parse_settings


@dataclass(frozen=True, slots=True)
class Record:
    """An installation, as the ConfigMap in its namespace describes it."""

    version: str
    settings: InstallSettings
    objects: tuple[Identity, ...]
    complete: bool
    """Whether the last call of `kaji install` or `kaji upgrade` finished."""


def record_of(document: Mapping[str, Any]) -> Record:
    """Read the ConfigMap. Raises InvalidInput if it cannot be understood."""
    data = document.get("data") or {}
    lines = str(data.get("objects", "")).split()
    try:
        objects = tuple(Identity(*line.split("/")) for line in lines)
    except TypeError:
        where = f"ConfigMap {RECORD}"
        raise InvalidInput.one(where, "its list of objects cannot be read", hint="run kaji install again") from None
    settings = parse_settings(data.get("settings.yaml", ""))
    return Record(str(data.get("version", "")), settings, objects, data.get("complete") == "true")


def record_map(
    settings: InstallSettings, objects: Iterable[Identity], *, complete: bool, version: str = __version__
) -> Object:
    """Return the ConfigMap. It is written before anything else is applied, and again at the end."""
    written = settings.model_dump(exclude_defaults=True, by_alias=True)
    data = {
        "version": version,
        "complete": "true" if complete else "false",
        "settings.yaml": as_yaml([written]),
        "objects": "".join("/".join(key) + "\n" for key in sorted(set(objects))),
    }
    return made("v1", "ConfigMap", RECORD, settings.namespace, data=data)
