"""The order in which pytest collects the files that it was given."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

Place = tuple[tuple[int, str], ...]


def one_folder_at_a_time(arguments: Iterable[str]) -> list[str]:
    """Return pytest's arguments so that those of each folder are adjacent, and a folder's files come after its
    sub-folders. Files of one folder keep their order.

    Since pytest 9.1, a file as an argument makes pytest collect the folder around it again, and fixtures in the
    `conftest.py` of a sub-folder are unknown to files of it that come later (pytest-dev/pytest#14971, #15071).
    """
    return sorted(arguments, key=_place)


def _place(argument: str) -> Place:
    path = PurePath(argument.partition("::")[0])
    folder, files = (path.parent, ((1, ""),)) if path.suffix else (path, ())
    return (*((0, part) for part in folder.parts), *files)
