"""Paths in volumes and mounts."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver.causes import Cause, invalid, not_supported, required

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def relative_path(path: str, field: str) -> list[Cause]:
    """A path that must stay below where it is mounted."""
    if path.startswith("/"):
        return [invalid(field, path, "must be a relative path")]
    return inside_path(path, field)


def inside_path(path: str, field: str) -> list[Cause]:
    """A path without `..`."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def host_path(source: dict[str, Any], field: str) -> list[Cause]:
    """A path of the node itself, and what has to be there."""
    path = source.get("path", "")
    if not path:
        return [required(f"{field}.path")]
    causes = inside_path(path, f"{field}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{field}.type", source["type"], _HOST_PATH_TYPES))
    return causes
