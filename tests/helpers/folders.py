"""Reading folders from which other processes delete files at the same time."""

from __future__ import annotations

import contextlib
import os
from fnmatch import fnmatch
from pathlib import Path


def texts_below(folder: Path, names: str = "*") -> dict[Path, str]:
    """Return the texts of all files below a folder with matching names, except files that are deleted meanwhile.

    Path.glob and Path.rglob raise an error if a folder is deleted meanwhile.
    """
    found = {}
    for place, _, files in os.walk(folder):  # unlike glob, it skips folders that are gone
        for path in (Path(place, name) for name in files if fnmatch(name, names)):
            with contextlib.suppress(FileNotFoundError):
                found[path] = path.read_text()
    return found
