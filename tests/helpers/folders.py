"""Folders that somebody else empties while a test looks: kubelets', stores of blobs."""

from __future__ import annotations

import contextlib
import os
from fnmatch import fnmatch
from pathlib import Path


def texts_below(folder: Path, names: str = "*") -> dict[Path, str]:
    """The texts of all files below a folder, however deep, whose names fit; without what vanishes meanwhile.

    Path.glob and Path.rglob raise where a folder that they have seen is gone.
    """
    found = {}
    for place, _, files in os.walk(folder):  # which passes over what it can't list
        for path in (Path(place, name) for name in files if fnmatch(name, names)):
            with contextlib.suppress(FileNotFoundError):
                found[path] = path.read_text()
    return found
